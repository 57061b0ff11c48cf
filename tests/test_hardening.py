"""Problems that attackers and new users found once: they must not return."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from test_planar_laplace import mass_by_rays
from whereish.cli import app

GRID = some.grid(3, 2)
PRIOR = some.skewed(6)


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    file = tmp_path / "me.csv"
    file.write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.2\n0,2,0.3\n")
    return file


# Places of different planes -------------------------------------------------------------------


def test_outputs_on_the_earth_are_brought_into_the_plane_of_the_inputs() -> None:
    latlon = [[48.85, 2.30], [48.86, 2.31], [48.84, 2.33], [48.87, 2.38]]
    inputs, outputs = wh.Places.from_latlon(latlon), wh.Places.from_latlon(latlon[:2])
    assert wh.euclidean(inputs, outputs)[0, 0] == pytest.approx(0, abs=1e-9)
    prior = [0.4, 0.3, 0.2, 0.1]
    by_place = wh.optimal(inputs, prior, 1.07, outputs=outputs)
    by_number = wh.optimal(inputs, prior, 1.07, outputs=[0, 1])
    assert wh.quality_loss(by_place, prior) == pytest.approx(wh.quality_loss(by_number, prior))


def test_kilometres_and_degrees_do_not_mix() -> None:
    with pytest.raises(wh.InputError, match="both with latitude and longitude, or both in km"):
        wh.euclidean(GRID, wh.embedded_city().places)


def test_the_same_grid_in_another_country_is_another_grid() -> None:
    here = wh.square_grid(48.0, 2.0, 48.02, 2.03, cell_km=(1, 1))
    there = wh.square_grid(48.0, 22.0, 48.02, 22.03, cell_km=(1, 1))
    assert not here.same_as(there)
    assert here.same_as(pickle.loads(pickle.dumps(here)))
    with pytest.raises(wh.InputError, match="whose inputs are the outputs"):
        wh.exponential(here, 1.0).then(wh.exponential(there, 1.0))


def test_a_prior_for_places_somewhere_else_is_refused(profile: Path) -> None:
    out = profile.parent / "k.whereish"
    assert run("build", profile, "--epsilon", 1, "-o", out).exit_code == 0
    other = profile.parent / "shifted.csv"
    other.write_text("x_km,y_km,prior\n500,0,0.5\n501,0,0.2\n500,2,0.3\n")
    assert run("measure", out, "--prior", other).exit_code == 2


# Planar Laplace at awkward inputs --------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 1.07, 8.0])
@pytest.mark.slow
def test_inputs_at_the_corners_of_cells(epsilon: float) -> None:
    """Corners of cells of 0.658 x 0.712 km have no exact coordinates; masses must not care."""
    outputs = some.grid(3, 3)
    corners = wh.Places.from_xy(
        [[0.658 / 2, 0.712 / 2], [0.658 * 1.5, 0.712 / 2], [0.658 / 2, 0.712]]
    )
    mechanism = wh.planar_laplace(corners, epsilon, outputs=outputs)
    for x in range(3):
        for z in range(9):
            expected = mass_by_rays(corners.xy[x], z, outputs.xy, epsilon)
            assert mechanism.matrix[x, z] == pytest.approx(expected, abs=1e-9)


def test_a_far_input_on_a_border_is_fair() -> None:
    inputs, outputs = wh.Places.from_xy([[15, 0], [15, 1]]), wh.Places.from_xy([[0, 0], [30, 0]])
    matrix = wh.planar_laplace(inputs, 100.0, outputs=outputs).matrix
    assert matrix == pytest.approx(np.full((2, 2), 0.5), abs=1e-12)


def test_far_from_the_origin_nothing_changes() -> None:
    here = wh.planar_laplace(GRID, 1.07).matrix
    there = wh.planar_laplace(wh.Places.from_xy(GRID.xy + 2.0**20), 1.07).matrix
    assert here == pytest.approx(there, abs=1e-8)  # 2^20 km leaves 1e-10 km of digits


def test_places_on_a_circle_raise_no_warning() -> None:
    wh.planar_laplace(wh.Places.from_xy([[1, 2], [2, 1], [-1, 2], [2, -1], [-2, 1]]), 1.0)


# Solvers on clusters ----------------------------------------------------------------------------


def test_solvers_agree_on_clusters_of_a_metre() -> None:
    rng = np.random.default_rng(1)
    xy = np.r_[
        rng.random((6, 2)) * 1e-3,
        [30, 0] + rng.random((6, 2)) * 1e-3,
        [5, 9] + rng.random((2, 2)) * 1e-3,
    ]
    places, prior = wh.Places.from_xy(xy), rng.random(14) ** 4
    prior = prior / prior.sum()
    losses = [
        wh.quality_loss(wh.optimal(places, prior, 0.06, solver=solver), prior)
        for solver in ("auto", "highs-ipm", "highs-dual-simplex")
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)


def test_auto_goes_on_when_an_answer_cannot_be_made_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first way returns a wrong matrix; the next one does not."""
    from whereish import solvers

    true, calls = solvers._FAMILIES["highs"], []

    def first_is_wrong(program: Any, method: str, limit: Any) -> Any:
        calls.append(method)
        values, multipliers = true(program, method, limit)
        return (
            (np.zeros_like(values), np.eye(6).ravel()) if len(calls) == 1 else (values, multipliers)
        )

    monkeypatch.setitem(solvers._FAMILIES, "highs", first_is_wrong)
    mechanism = wh.optimal(GRID, PRIOR, 0.5)
    assert len(calls) == 2
    assert wh.tightest_epsilon(mechanism) <= 0.5


# Copies -----------------------------------------------------------------------------------------


def test_copies_cannot_be_edited_either() -> None:
    mechanism = wh.exponential(GRID, 1.0)
    for again in (
        copy.copy(mechanism),
        copy.deepcopy(mechanism),
        pickle.loads(pickle.dumps(mechanism)),
    ):
        assert (again.matrix == mechanism.matrix).all()
        assert again.verdict == mechanism.verdict
        with pytest.raises(ValueError, match="read-only"):
            again.matrix[0, 0] = 1.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            again.matrix.setflags(write=True)


def test_a_forged_pickle_is_checked() -> None:
    mechanism = wh.exponential(GRID, 1.0)
    kind, told = mechanism.__reduce__()
    with pytest.raises(wh.GuaranteeError):
        kind(np.eye(6), *told[1:])


def test_tightest_epsilon_can_be_copied() -> None:
    found = wh.tightest_epsilon(wh.exponential(GRID, 1.0))
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.pair, again.output) == (found, found.pair, found.output)
    assert copy.deepcopy(found).pair == found.pair


# Units ------------------------------------------------------------------------------------------


def test_an_epsilon_of_another_metric_is_not_called_per_km(tmp_path: Path) -> None:
    mechanism = wh.optimal(GRID, PRIOR, 1.0, privacy_metric=wh.discrete(6) * 1000)
    assert "per unit of its own metric" in repr(mechanism)
    wh.save_mechanism(tmp_path / "k.whereish", mechanism, PRIOR)
    done = run("measure", tmp_path / "k.whereish", "--json")
    facts = json.loads(done.stdout)
    assert facts["epsilon_per_km"] is None
    assert facts["ratio_2_within_km"] is None
    assert facts["epsilon"] == 1.0
    released, _ = wh.load_mechanism(tmp_path / "k.whereish")
    true = wh.tightest_epsilon(released, wh.euclidean(GRID))
    assert facts["tightest_epsilon_per_km"] == pytest.approx(true)
    assert "per km holds" not in done.stderr


def test_geodesic_distances_of_a_street_are_a_metric() -> None:
    street = wh.Places.from_latlon([[48 + i * 1e-6, 2.0] for i in range(8)])
    wh.exponential(street, 1.0, wh.geodesic(street))


# Files ------------------------------------------------------------------------------------------


def test_the_profile_is_not_written_over(profile: Path) -> None:
    before = profile.read_bytes()
    done = run("build", profile, "--epsilon", 1, "-o", profile)
    assert done.exit_code == 2
    assert "must not be the profile itself" in done.stderr
    assert profile.read_bytes() == before


def test_pipes_and_devices_are_not_written_over(profile: Path) -> None:
    pipe = profile.parent / "pipe"
    os.mkfifo(pipe)
    done = run("build", profile, "--epsilon", 1, "-o", pipe)
    assert done.exit_code == 2
    assert "ordinary file" in done.stderr
    assert pipe.is_fifo()


def test_a_link_stays_a_link(profile: Path) -> None:
    target, link = profile.parent / "target.whereish", profile.parent / "link.whereish"
    target.write_text("old")
    link.symlink_to(target)
    assert run("build", profile, "--epsilon", 1, "-o", link).exit_code == 0
    assert link.is_symlink()
    assert wh.load_mechanism(target)[0].epsilon == 1.0


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_names_that_no_file_can_have(name: str) -> None:
    mechanism = wh.exponential(GRID, 1.0)
    with pytest.raises(wh.InputError, match="output"):
        wh.save_mechanism(name, mechanism)
    with pytest.raises(wh.InputError):
        wh.load_mechanism(name)
    with pytest.raises(wh.InputError):
        wh.read_profile(name)


def test_names_that_are_not_text(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"n\xe9.csv")
    file.write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.5\n")
    assert len(wh.read_profile(file).places) == 2


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "x_km,y_km,prior\n1e200,0,0.5\n0,0,0.5\n"),
        ("a.csv", "x_km,y_km,prior\n1_0,0,0.5\n0,0,0.5\n"),
        ("a.csv", "x_km, x_km,y_km,prior\n1,2,0,0.5\n0,3,0,0.5\n"),
        ("a.csv", 'x_km,"y\n_km",prior\n0,0,1\n'),
        ("a.json", f'{{"x_km": [{HUGE}], "y_km": [0], "prior": [1]}}'),
        ("a.json", f'{{"x_km": [{HUGE * 12}], "y_km": [0], "prior": [1]}}'),
        ("a.json", '{"x_km": [NaN], "y_km": [0], "prior": [1]}'),
        ("a.json", '{"matrix": [[1]], "x_km": 1}'),
        ("a.json", "[" * 100_000),
        (
            "a.geojson",
            '{"type": "Feature", "properties": {"prior": 1}, "geometry": {"type": "Point", '
            f'"coordinates": [{HUGE}, 0]}}}}',
        ),
        (
            "a.geojson",
            '{"type": "Feature", "properties": {"prior": 1}, "geometry": {"type": "Polygon", '
            '"coordinates": [[[179, 0], [-179, 0], [-179, 1], [179, 1], [179, 0]]]}}',
        ),
    ],
)
def test_hostile_profiles(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / name
    file.write_text(content)
    for normalise in (False, True):
        with pytest.raises(wh.InputError) as caught:
            wh.read_profile(file, normalise=normalise)
        assert "\n" not in str(caught.value)


def test_damaged_parquet(tmp_path: Path) -> None:
    import polars as pl

    file = tmp_path / "a.parquet"
    pl.DataFrame({"x_km": [0.0, 1.0], "y_km": [0.0, 0.0], "prior": [0.5, 0.5]}).write_parquet(file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            damaged[at] = int(rng.integers(0, 256))
        file.write_bytes(bytes(damaged))
        try:
            wh.read_profile(file)
        except wh.InputError:
            refused += 1
    assert refused > 0


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": {"inputs": np.full((3, 2), np.nan)}},
        {"arrays": {"inputs": np.zeros((3, 2))}},
        {"arrays": {"inputs_latlon": np.full((3, 2), 200.0)}},
        {"arrays": {"metric": np.ones((3, 3))}},
        {"arrays": {"metric": np.ones((2, 3))}},
        {"arrays": {"prior": np.full(3, -1.0)}},
        {"told": {"inputs": {"plane": ["x", "y"], "cell_km": None}}},
        {"told": {"inputs": {"plane": None, "cell_km": "x"}}},
        {"told": {"epsilon": 10**400}},
        {"told": {"epsilon": "1.0"}},
        {"told": {"epsilon": True}},
        {"told": {"build": {"method": "optimal", "seconds": "x"}}},
        {"told": {"build": {"method": "optimal", "constraints": "x"}}},
        {"told": {"build": [1]}},
        {"about": {"mechanism": "[" * 100_000}},
        {"about": {"mechanism": "3"}},
        {"about": {"certificate": "NaN"}},
    ],
)
def test_hostile_mechanisms(profile: Path, change: dict[str, dict[str, Any]]) -> None:
    out = profile.parent / "k.whereish"
    assert run("build", profile, "--epsilon", 1, "-o", out).exit_code == 0
    some.forge(out, **change)
    for command in (["measure", out], ["plot", out, "-o", profile.parent / "p.png"]):
        done = run(*command)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith("whereish: ")


# Misuse -----------------------------------------------------------------------------------------

ANY = cast(Any, wh)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: ANY.Places.from_xy([[10**400, 0]]),
        lambda: ANY.Places.from_xy(np.array([[1j, 0]])),
        lambda: ANY.Places.from_xy([[0, 1], [2]]),
        lambda: ANY.Places.from_xy(None),
        lambda: ANY.optimal(GRID, PRIOR, 10**400),
        lambda: ANY.optimal(GRID, PRIOR, True),
        lambda: ANY.optimal(GRID, PRIOR, 1e-300),
        lambda: ANY.optimal(GRID, PRIOR, 1.0, outputs=[[0], [1, 2]]),
        lambda: ANY.optimal(GRID, PRIOR, 1.0, solver=np.array(["a", "b"])),
        lambda: ANY.optimal(None, PRIOR, 1.0),
        lambda: ANY.optimal(GRID, PRIOR, 1.0, progress=3),
        lambda: ANY.optimal(GRID, PRIOR, 1.0, announce="x"),
        lambda: ANY.graph_metric(2, [[0], [0, 1]], [1.0, 1.0]),
        lambda: ANY.discrete(True),
        lambda: ANY.square_grid(south="x", west=0, north=1, east=1),
        lambda: ANY.euclidean([[0, 0], [1, 0]]),
        lambda: ANY.quality_loss(np.eye(6), PRIOR),
        lambda: ANY.tightest_epsilon(np.eye(6)),
        lambda: ANY.report_radius(wh.exponential(GRID, 1.0), PRIOR, None),
        lambda: ANY.adversary_error(wh.exponential(GRID, 1.0), PRIOR, [[-1.0] * 5] * 6),
        lambda: ANY.adversary_error(wh.exponential(GRID, 1.0), PRIOR, np.zeros((6, 0))),
        lambda: ANY.exponential(GRID, 1.0).remap(PRIOR, np.ones((6, 5))),
        lambda: ANY.exponential(GRID, 1.0).then(np.eye(6), [1, 2, 3, 4, 5, 6]),
        lambda: ANY.Mechanism(np.eye(6), None, GRID),
        lambda: ANY.Mechanism(np.full((6, 6), 1 / 6), GRID, GRID, "2"),
        lambda: ANY.planar_laplace_noise([[0, 0]], 1.0, rng=5),
        lambda: ANY.LocalPlane("x", 0),
        lambda: ANY.read_profile(None),
        lambda: ANY.load_mechanism(None),
    ],
)
def test_misuse_is_told_kindly(misuse: Any) -> None:
    with pytest.raises(wh.InputError) as caught:
        misuse()
    assert "\n" not in str(caught.value)


def test_numbers_of_other_kinds_are_numbers(tmp_path: Path) -> None:
    mechanism = ANY.exponential(GRID, np.float32(2.0))
    assert type(mechanism.epsilon) is float
    wh.save_mechanism(tmp_path / "k.whereish", mechanism)
    same = wh.Places.from_xy(GRID.xy)
    assert wh.exponential(GRID, 1.0, wh.discrete(6), outputs=same).matrix.shape == (6, 6)
    nothing = wh.optimal_privacy(GRID, PRIOR, quality_loss=0)
    assert wh.quality_loss(nothing, PRIOR) == pytest.approx(0, abs=1e-9)
