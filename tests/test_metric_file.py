"""Metric files at every door: what epsilon means there is said, and the audit checks the ratios."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import checks
import whereish as wh
from osm_files import Extract, square
from strategies import skewed
from whereish.cli import app
from whereish.errors import FormatError, GuaranteeError, InputError
from whereish.format import metric_bytes, pack, unpack
from whereish.format.metric_file import read_metric_bytes
from whereish.maps import Area, make_cells, make_elastic, parse_weights, read_masses
from whereish.maps.elastic import scaled_mass
from whereish.maps.masses import mass_kind
from whereish.places import MapMetric
from whereish.spec import BuildSpec

REAL = os.environ.get("WHEREISH_OSM_EXTRACT")
AREA = "60.0,25.0,60.03,25.06"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def ring(kind: str = "roads") -> MapMetric:
    """Six places, with a way around that is longer than the straight line."""
    places = wh.square_grid(60.0, 25.0, 60.005, 25.015, cell_km=(0.3, 0.3)).subset(
        [0, 1, 2, 3, 4, 5]
    )
    edges = [[k, (k + 1) % 6] for k in range(6)]
    lengths = [0.4, 0.7, 0.5, 0.9, 0.6, 1.1]
    full = MapMetric(kind, places, edges=edges, lengths=lengths, facts={"x": 1}, attribution="me")
    return full.restricted(places)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    wh.save_metric(tmp_path / "ring.metric", ring())
    return tmp_path / "ring.metric"


def test_a_metric_file_is_read_as_it_was_written(file: Path) -> None:
    made, found = ring(), wh.load_metric(file)
    assert found.kind == "roads"
    assert (found.distances == made.distances).all()
    assert found.places.same_as(made.places)
    assert (found.facts, found.attribution) == ({"x": 1}, "me")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert metric_bytes(found) == file.read_bytes()
    graph = MapMetric("elastic", made.places, edges=[[k, k + 1] for k in range(5)],
                      lengths=[1.0] * 5, attribution="me")  # fmt: skip
    again = read_metric_bytes(metric_bytes(graph))
    assert (again.distances == graph.distances).all()


def test_a_metric_that_nobody_could_read_is_not_written(tmp_path: Path) -> None:
    places = wh.Places.from_xy([[0.0, 0.0], [1.0, 0.0]])
    made = MapMetric("roads", places, edges=[[0, 1]], lengths=[1.0])
    with pytest.raises(wh.InputError, match="attribution must say who made the map"):
        wh.save_metric(tmp_path / "m.metric", made)
    assert not list(tmp_path.iterdir())


def test_a_changed_file_is_refused(file: Path, tmp_path: Path) -> None:
    content = file.read_bytes()
    wrong = tmp_path / "wrong.metric"
    for k in range(0, len(content), 37):
        wrong.write_bytes(content[:k] + bytes([content[k] ^ 4]) + content[k + 1 :])
        with pytest.raises(FormatError):
            wh.load_metric(wrong)
    wrong.write_bytes(content[:-8])
    with pytest.raises(FormatError, match="wrong.metric"):
        wh.load_metric(wrong)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.__setitem__((0, 1), 9.0), "symmetric"),
        (lambda d: (d.__setitem__((0, 1), 9.0), d.__setitem__((1, 0), 9.0)), "triangle"),
        (lambda d: d.__setitem__((2, 2), 0.1), "diagonal"),
        (lambda d: d.__imul__(0.0), "positive"),
    ],
)
def test_what_is_no_metric_is_refused_at_the_door(file: Path, change: Any, words: str) -> None:
    arrays, texts = unpack(file.read_bytes())
    forged = np.array(arrays["distances"])
    change(forged)
    file.write_bytes(pack({**arrays, "distances": forged}, texts))
    with pytest.raises(FormatError, match=words):
        wh.load_metric(file)
    told = json.loads(texts["metric"])
    for more in ({"unit": "miles"}, {"attribution": " "}, {"kind": "sea"}, {"new": 1}):
        text = json.dumps({**told, **more})
        file.write_bytes(pack(arrays, {**texts, "metric": text}))
        with pytest.raises(FormatError):
            wh.load_metric(file)
    file.write_bytes(pack(arrays, {**texts, "version": "2"}))
    with pytest.raises(FormatError, match="version"):
        wh.load_metric(file)


@pytest.mark.parametrize("kind", ["roads", "elastic"])
def test_every_constructor_takes_a_metric_and_says_its_unit(kind: str) -> None:
    metric, prior = ring(kind), skewed(6)
    made = [
        wh.optimal(metric.places, prior, 1.3, privacy_metric=metric),
        wh.optimal(wh.Profile(metric.places, prior), 1.3, privacy_metric=metric),
        wh.optimal(metric.places, prior, 1.3, 1.0, metric),
        wh.optimal_each(metric.places, [prior], 1.3, privacy_metric=metric)[0],
        wh.exponential(metric.places, 1.3, metric),
        wh.closed_form(metric.places, prior, 1.3, privacy_metric=metric),
        wh.exponential(metric.places, 1.3, metric).remap(prior),
    ]
    unit = {"roads": "per km along the roads", "elastic": "per unit of the elastic metric"}[kind]
    for one in made:
        assert one.epsilon_unit == unit
        assert unit in repr(one)
        assert not checks.broken_counts(one.counts.tolist(), 1.3, metric=metric.distances.tolist())
        certificate = wh.certify(one)
        assert certificate["epsilon_unit"] == unit
        assert metric.words.about in certificate["guarantee"]
        assert ("km apart along the roads" in certificate["guarantee"][0]) == (kind == "roads")


def test_other_places_are_refused_and_some_places_are_taken() -> None:
    metric = ring()
    some = metric.places.subset([4, 1])
    made = wh.exponential(some, 1.0, metric)
    assert made.privacy_metric is not None
    assert made.privacy_metric[0, 1] == metric.distances[4, 1]
    with pytest.raises(InputError, match="places must be those of the metric"):
        wh.exponential(wh.Places.from_latlon([[60.0, 25.0], [60.1, 25.1]]), 1.0, metric)


def test_the_audit_checks_the_metric_in_the_file(tmp_path: Path) -> None:
    metric, prior = ring(), skewed(6)
    file = tmp_path / "k.whereish"
    wh.save_mechanism(file, wh.optimal(metric.places, prior, 2.0, privacy_metric=metric), prior)
    found = wh.audit_file(file)
    assert found["epsilon_unit"] == "per km along the roads"
    assert found["metric"].startswith("distance along the roads, in km")
    loaded, _ = wh.load_mechanism(file)
    assert (loaded.privacy_metric == metric.distances).all()
    arrays, texts = unpack(file.read_bytes())
    # A shorter metric than the counts were made for: the ratios break.
    shorter = arrays["metric"] * 0.9
    file.write_bytes(pack({**arrays, "metric": shorter}, texts))
    with pytest.raises(GuaranteeError):
        wh.audit_file(file)
    # Another name of the metric than the certificate was made for.
    facts = json.loads(texts["mechanism"])
    facts["build"]["metric"] = "elastic"
    text = json.dumps(facts, separators=(",", ":"))
    file.write_bytes(pack(arrays, {**texts, "mechanism": text}))
    with pytest.raises(GuaranteeError, match="epsilon_unit"):
        wh.audit_file(file)


def test_json_takes_a_metric_file() -> None:
    metric, prior = ring("elastic"), skewed(6)
    latlon = np.asarray(metric.places.latlon).tolist()
    document = {"places": {"latlon": latlon}, "prior": prior.tolist(), "epsilon_per_km": 1.0,
                "privacy_metric": wh.metric_document(metric)}  # fmt: skip
    spec = BuildSpec.from_json(json.dumps(document))
    made = spec.build()
    assert made.build.metric == "elastic"
    direct = wh.optimal(spec.places, spec.prior, 1.0, privacy_metric=metric)
    assert (made.counts == direct.counts).all()
    assert BuildSpec.from_mechanism(made, prior).build().epsilon_unit == made.epsilon_unit
    assert (spec.changed(epsilon_per_km=2.0).build().privacy_metric == made.privacy_metric).all()
    for wrong in ("?", base64.b64encode(b"no metric").decode(), 3):
        with pytest.raises(InputError, match="privacy_metric.file"):
            BuildSpec.from_document({**document, "privacy_metric": {"file": wrong}})
    with pytest.raises(InputError, match="guarantee everywhere"):
        BuildSpec.from_document({**document, "guarantee": "everywhere"})
    quality = BuildSpec.from_document({**document, "quality_metric": wh.metric_document(metric)})
    assert np.array_equal(np.asarray(quality.quality), metric.distances)


@pytest.mark.slow
def test_build_and_batch_take_a_metric_file(file: Path, tmp_path: Path) -> None:
    metric, prior = ring(), skewed(6)
    profile, out = tmp_path / "me.csv", tmp_path / "k.whereish"
    wh.write_profile(profile, wh.Profile(metric.places, prior))
    done = run("build", profile, "--ratio", 2, "--within", "500m", "--metric", file, "-o", out)
    assert done.exit_code == 0, done.output
    assert "500 m apart along the roads" in done.output
    assert "per km along the roads holds" in done.output
    done = run("audit", out)
    assert done.exit_code == 0, done.output
    assert "per km along the roads for all 180 ratios" in done.output
    done = run("build", profile, "--epsilon", 1, "--everywhere", "--metric", file, "-o", out)
    assert done.exit_code == 2
    assert "--metric must be left out" in done.output
    (tmp_path / "people").mkdir()
    wh.write_profile(tmp_path / "people" / "ann.csv", wh.Profile(metric.places, prior))
    flags = ["--epsilon", "2", "-o", tmp_path / "all", "--workers", "1"]
    done = run("batch", tmp_path / "people", *flags, "--metric", file)
    assert done.exit_code == 0, done.output
    made, _ = wh.load_mechanism(tmp_path / "all" / "ann.whereish")
    assert made.epsilon_unit == "per km along the roads"
    assert run("batch", tmp_path / "people", *flags).exit_code == 2  # a run with another metric
    wh.save_metric(file, ring("elastic"))
    done = run("build", profile, "--ratio", 2, "--within", "500m", "--metric", file, "-o", out)
    assert "--within must be left out with the elastic metric" in done.output
    done = run("build", profile, "--epsilon", 1, "--metric", file, "-o", out)
    assert "hold the mass 1 or more are within distance 0.693" in done.output


# ---- From an extract --------------------------------------------------------------------------


def town() -> Extract:
    """A street grid with houses in the west, a school, a bench, and nothing in the east."""
    made = Extract()
    for k in range(6):
        made.way([(60.0005 + 0.0054 * k, 25.0 + 0.006 * j) for j in range(11)],
                 highway="residential")  # fmt: skip
    made.ways += [([1 + j + 11 * k for k in range(6)], {"highway": "footway"}) for j in range(11)]
    for k in range(200):
        lat, lon = 60.001 + 0.0028 * (k % 10), 25.0015 + 0.0028 * (k // 10)
        made.way(square(lat, lon, 0.0001), closed=True, building="yes")
    made.node(60.005, 25.004, amenity="school")
    made.node(60.005, 25.0041, amenity="bench")
    made.node(60.002, 25.004, shop="bakery")
    return made


@pytest.fixture(scope="module")
def extract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return town().write(tmp_path_factory.mktemp("osm") / "town.osm.pbf")


def test_kinds_of_mass() -> None:
    assert mass_kind({"amenity": "bench"}) is None
    assert mass_kind({"amenity": "bench", "building": "yes"}) == "building"
    assert mass_kind({"amenity": "lighthouse"}) == "other"
    assert mass_kind({"building": "no"}) is None
    assert parse_weights(["health=5"])["health"] == 5
    for wrong in ("health", "health=x", "benches=3", "health=-1"):
        with pytest.raises(InputError, match="weight"):
            parse_weights([wrong])


def test_masses_follow_the_map(extract: Path) -> None:
    found = read_masses(extract, Area(*map(float, AREA.split(","))))
    counts = found.counts()
    assert (counts["building"], counts["education"], counts["shop"]) == (200, 1, 1)
    weights = parse_weights(["education=100"])
    cells = make_cells(found, Area(*map(float, AREA.split(","))), (0.1, 0.1), weights)
    assert cells.weight.sum() == 301
    assert cells.prior.sum() == pytest.approx(1)
    latlon = np.asarray(cells.places.latlon)
    top = latlon[cells.weight.argmax()]
    assert np.abs(top - [60.005, 25.004]).max() < 0.001
    mass = scaled_mass(cells)
    empty = cells.weight == 0
    assert np.ptp(mass[empty]) == 0
    within = [(i, j) for i in range(-30, 31) for j in range(-30, 31) if i * i + j * j <= 900]
    assert mass[empty][0] == pytest.approx(1 / len(within))
    with pytest.raises(InputError, match="fence"):
        make_elastic(cells, [Area(10, 10, 11, 11)])


@pytest.mark.slow
def test_metrics_of_an_extract_end_to_end(extract: Path, tmp_path: Path) -> None:
    roads, elastic = tmp_path / "roads.metric", tmp_path / "elastic.metric"
    done = run(
        "metric", extract, "--roads", "--area", AREA, "--cell", "500m", "-o", roads, "--json"
    )
    assert done.exit_code == 0, done.output
    made = wh.load_metric(roads)
    assert made.attribution == "© OpenStreetMap contributors, ODbL"
    me = tmp_path / "me.csv"
    wh.write_profile(me, wh.Profile(made.places.subset(range(8)), skewed(8)))
    done = run("build", me, "--metric", roads, "--epsilon", 3, "-o", tmp_path / "k.whereish")
    assert done.exit_code == 0, done.output
    assert run("audit", tmp_path / "k.whereish").exit_code == 0
    prior, picture = tmp_path / "cells.csv", tmp_path / "picture.png"
    fence = "60.0,25.0,60.002,25.002"
    done = run("metric", extract, "--elastic", "--cell", "150m", "--area", AREA, "--fence", fence,
               "--prior", prior, "--picture", picture, "-o", elastic)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "100.00% of the cells" in done.output
    assert picture.stat().st_size > 10_000
    whole = wh.load_metric(elastic)
    assert whole.facts["fences"] == 1
    assert wh.read_profile(prior).places.same_as(whole.places)
    done = run("metric", extract, "--elastic", "--around", me, "--margin", "300m", "-o", elastic)
    assert done.exit_code == 0, done.output
    assert wh.load_metric(elastic).places.same_as(wh.read_profile(me).places)
    done = run("build", me, "--metric", elastic, "--epsilon", 1, "-o", tmp_path / "k.whereish")
    assert done.exit_code == 0, done.output
    assert run("audit", tmp_path / "k.whereish").exit_code == 0


def test_flags_that_do_not_go_together(extract: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.metric"
    for flags, words in (
        ([], "--roads or --elastic"),
        (["--roads", "--elastic"], "--roads or --elastic"),
        (["--roads", "--fence", AREA], "--fence must go with --elastic"),
        (["--elastic", "--margin", "1km"], "--margin must go with"),
        (["--elastic", "--map", "x"], "--map must go with --picture"),
    ):
        done = run("metric", extract, "-o", out, *flags)
        assert done.exit_code == 2
        assert words in done.output
    assert not out.exists()


@pytest.mark.skipif(REAL is None, reason="WHEREISH_OSM_EXTRACT names no extract: see CONTRIBUTING")
@pytest.mark.parametrize("kind", ["--roads", "--elastic"])
def test_a_real_extract_end_to_end(kind: str, tmp_path: Path) -> None:
    metric, k = tmp_path / "real.metric", tmp_path / "k.whereish"
    done = run("metric", REAL, kind, "--cell", "250m", "-o", metric)
    assert done.exit_code == 0, done.output
    made = wh.load_metric(metric)
    me = tmp_path / "me.csv"
    wh.write_profile(me, wh.Profile(made.places, skewed(len(made))))
    done = run("build", me, "--metric", metric, "--epsilon", 2, "-o", k)
    assert done.exit_code == 0, done.output
    assert run("audit", k).exit_code == 0
    loaded, _ = wh.load_mechanism(k)
    assert (loaded.privacy_metric == made.distances).all()
