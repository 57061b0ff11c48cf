"""``whereish build --everywhere``: flags, traces, profiles, recipes, words, JSON, Ctrl-C."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import checks
import whereish as wh
from stepping import halting
from test_person import HOME, WORK, stays
from whereish.cli import app
from whereish.everywhere import plan_everywhere
from whereish.profiles import VisitedPoints
from whereish.spec import BuildOptions, BuildSpec

POINTS = [[0.0, 0.0], [0.3, 0.1234], [2.0, 0.4], [2.1, 1.9], [3.0, 1.0]]
WEIGHTS = [0.4, 0.1, 0.3, 0.15, 0.05]
DOCUMENT = {
    "places": {"xy_km": POINTS}, "prior": WEIGHTS, "epsilon_per_km": 1.07,
    "guarantee": "everywhere", "vertices": 64,
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHEREISH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    where = wh.Places.from_xy([[0.5, 0.5], [2.5, 0.5], [2.5, 1.5]])
    visited = VisitedPoints(wh.Places.from_xy(POINTS), np.array(WEIGHTS))
    wh.write_profile(
        tmp_path / "me.csv", wh.Profile(where, np.array([0.5, 0.3, 0.2]), visited=visited)
    )
    return tmp_path / "me.csv"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def build(source: Path, *more: object) -> tuple[Any, dict[str, Any], str]:
    out = source.parent / "k.whereish"
    level = () if source.suffix == ".json" else ("--epsilon", 1.07)
    done = run("build", source, "-o", out, "--json", *level, *more)
    assert done.exit_code == 0, done.stderr
    return wh.load_mechanism(out)[0], json.loads(done.stdout), done.stderr


def test_profile_recipe_and_library_build_the_same(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(DOCUMENT))
    ours, facts, said = build(profile, "--everywhere", "--vertices", 64)
    theirs, told, _ = build(tmp_path / "r.json")
    spec = BuildSpec.from_document(DOCUMENT)
    alone = spec.build()
    for made in (ours, theirs):
        assert np.array_equal(made.counts, alone.counts)
        xs, ys = (axis.tolist() for axis in made.lattice)
        assert checks.broken_corners(made.counts.tolist(), xs, ys, 1.07) == []
    away = np.hypot(*(np.array(POINTS)[:, None] - ours.outputs.xy).transpose(2, 0, 1))
    loss = float(np.array(WEIGHTS) @ (ours.probabilities(POINTS) * away).sum(axis=1))
    for found in (facts, told):
        assert found["quality_loss_km"] == pytest.approx(loss, abs=1e-9)
        assert found["guarantee"] == "everywhere"
        assert (found["points"], found["vertices"]) == (5, len(ours.lattice))
        assert found["program_bound_km"] <= loss + 1e-9
        assert found["lower_bound_km"] <= found["program_bound_km"] + 1e-6
        assert found["other_loss_km"] >= loss
    assert "for any two points, wherever they are" in said
    assert "on this lattice" in said
    assert "on any lattice or none" in said
    assert "the optimal lattice" in said
    assert "planar Laplace with the best remap" in said
    for number in ("0.1234", "2.1"):
        assert number not in said
    assert spec.loss_of(alone) == pytest.approx(loss, abs=1e-9)


def test_planar_laplace_is_said_where_it_is_better(profile: Path) -> None:
    noise, facts, said = build(profile, "--everywhere", "--method", "closed-form")
    assert isinstance(noise, wh.PlanarLaplaceEverywhere)
    assert (facts["kind"], facts["vertices"]) == ("planar-laplace", None)
    coarse, facts, said = build(profile, "--everywhere", "--vertices", 4)
    assert isinstance(coarse, wh.PlanarLaplaceEverywhere)
    assert facts["other_loss_km"] > facts["quality_loss_km"]
    assert "planar Laplace with the best remap: the optimal lattice loses" in said
    # What does not fit into the memory falls back to it, or is refused.
    small = ("--everywhere", "--vertices", 5000, "--memory-limit", 0.1)
    assert "planar Laplace" in build(profile, *small, "--method", "auto")[2]
    refused = run("build", profile, "-o", profile.parent / "x.whereish", "--epsilon", 1, *small)
    assert refused.exit_code == 2
    assert "what fits is about" in refused.stderr


def test_two_commands_or_one_from_traces(tmp_path: Path) -> None:
    traces = tmp_path / "traces.csv"
    stays((HOME, 20, 3), (WORK, 9, 1)).write_csv(traces)
    done = run("profile", traces, "-o", tmp_path / "me.csv", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["visited_points"] == 2
    two, _, said = build(tmp_path / "me.csv", "--everywhere", "--vertices", 64)
    one, _, _ = build(traces, "--everywhere", "--vertices", 64)
    assert two.probabilities(HOME) == pytest.approx(one.probabilities(HOME), abs=1e-3)
    for word in ("48.8", "2.33", "2.37"):
        assert word not in said
    measured = run("measure", tmp_path / "k.whereish", "--prior", tmp_path / "me.csv", "--json")
    assert json.loads(measured.stdout)["points"] == 2


@pytest.mark.slow
def test_points_and_picture_are_kept_when_asked(profile: Path) -> None:
    _, facts, said = build(profile, "--everywhere", "--vertices", 64, "--keep-prior",
                           "--picture", profile.parent / "p.svg")  # fmt: skip
    assert (profile.parent / "p.svg").read_text().startswith("<?xml")
    assert "holds the points" in said
    _, kept = wh.load_mechanism(profile.parent / "k.whereish")
    assert sorted(kept.weights.tolist()) == pytest.approx(sorted(WEIGHTS))
    audited = wh.audit_file(profile.parent / "k.whereish")
    assert audited["quality_loss_km"] == pytest.approx(facts["quality_loss_km"])


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--dilation", "1"], "--dilation"),
        (["--solver", "auto"], "--solver"),
        (["--formulation", "dual"], "--formulation"),
        (["--prior-blur", "0.2"], "--prior-blur"),
        (["--blur-with", "uniform"], "--blur-with"),
        (["--how-far"], "--how-far"),
        (["--cluster", "auto"], "--cluster"),
        (["--method", "exponential"], "method"),
        (["--method", "closed-form", "--vertices", "64"], "vertices"),
        (["--method", "closed-form", "--tolerance", "1e-3"], "--tolerance"),
        (["--vertices", "3"], "vertices"),
    ],
)
def test_a_flag_that_cannot_be_followed_is_refused(
    profile: Path, flags: list[str], word: str
) -> None:
    for source in (profile, profile.parent / "r.json"):
        level = () if source.suffix == ".json" else ("--epsilon", "1")
        document = {name: value for name, value in DOCUMENT.items() if name != "vertices"}
        (profile.parent / "r.json").write_text(json.dumps(document))
        out = profile.parent / "x.whereish"
        done = run("build", source, "-o", out, "--everywhere", *level, *flags)
        assert done.exit_code == 2, done.stderr
        assert word in done.stderr
        assert done.stderr.count("\n") == 1
        assert not out.exists()


def test_vertices_without_everywhere_and_a_profile_without_points(profile: Path) -> None:
    out = profile.parent / "x.whereish"
    done = run("build", profile, "-o", out, "--epsilon", 1, "--vertices", 64)
    assert done.exit_code == 2
    assert "--vertices must go with --everywhere" in done.stderr
    old = profile.parent / "old.csv"
    old.write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.5\n")
    done = run("build", old, "-o", out, "--epsilon", 1, "--everywhere")
    assert done.exit_code == 2
    assert "must hold visited points" in done.stderr
    assert "whereish profile TRACES -o" in done.stderr
    assert run("build", old, "-o", out, "--epsilon", 1).exit_code == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"guarantee": "somewhere"}, "guarantee"),
        ({"guarantee": None}, "guarantee"),
        ({"guarantee": "places"}, "vertices"),
        ({"vertices": 3}, "vertices"),
        ({"vertices": 64.5}, "vertices"),
        ({"vertices": "64"}, "vertices"),
        ({"vertices": True}, "vertices"),
        ({"vertices": 10**9}, "vertices"),
        ({"dilation": 1.1}, "dilation"),
        ({"solver": "structured"}, "solver"),
        ({"form": "dual"}, "form"),
        ({"method": "planar-laplace"}, "method"),
        ({"method": "closed-form"}, "vertices"),
        ({"prior_blur": 0.1}, "prior_blur"),
        ({"quality_metric": "discrete"}, "quality_metric"),
        ({"privacy_metric": {"edges": [[0, 1, 1.5]]}}, "privacy_metric"),
        ({"places": {"xy_km": [[0, 0], [1, 0], [2, 0], [3, 0], [9999, 0]]}}, "places"),
    ],
)
def test_a_recipe_that_contradicts_itself_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(wh.InputError, match="must") as wrong:
        BuildSpec.from_document(DOCUMENT | change)
    assert wrong.value.field == field


def test_outputs_that_are_given_are_the_only_ones() -> None:
    made = BuildSpec.from_document(DOCUMENT | {"outputs": [0, 3]}).build()
    assert made.outputs.xy.tolist() == [POINTS[0], POINTS[3]]


def test_the_plan_grows_with_the_lattice_and_ends_at_the_time_limit() -> None:
    spec = BuildSpec.from_document(DOCUMENT)
    small, large = spec.plan(), spec.changed(vertices=1600).plan()
    assert small.method == large.method == "exact"
    assert small.seconds < large.seconds
    assert small.memory_gb < large.memory_gb
    assert large.variables == 1600 * large.outputs
    limited = spec.changed(vertices=5000, time_limit_s=10.0).plan()
    assert limited.seconds <= 10 + limited.after_s
    assert spec.changed(vertices=10_000, method="auto").plan().method == "closed-form"
    with pytest.raises(wh.InputError, match="what fits is about") as wrong:
        spec.changed(vertices=10_000).plan(1.0)
    assert wrong.value.field == "vertices"
    few = plan_everywhere("exact", 10, 600, 5, None, 8.0)
    assert few.outputs == 5
    assert few.seconds < plan_everywhere("exact", 10, 600, None, None, 8.0).seconds


def test_options_stand_for_any_person() -> None:
    options = BuildOptions(epsilon_per_km=2.0, guarantee="everywhere", vertices=36)
    made = options.for_person(wh.Places.from_xy(POINTS), np.array(WEIGHTS)).build()
    assert made.epsilon == 2.0
    assert wh.tightest_epsilon_everywhere(made) <= 2.0


@pytest.mark.heavy
def test_ctrl_c_hands_over_the_best_so_far(profile: Path) -> None:
    words = ["--epsilon", "1.07", "--everywhere", "--vertices", "900", "-o", "k.whereish"]
    step = "whereish.solvers.cones:Progress"
    with halting(step, 6, "build", "me.csv", *words, cwd=profile.parent) as running:
        running.wait()
        running.process.send_signal(signal.SIGINT)
        running.resume()
        _, said = running.process.communicate()
    assert running.process.returncode == 130
    assert "stopped       by you, with the best mechanism so far; its privacy is complete" in said
    mechanism, _ = wh.load_mechanism(profile.parent / "k.whereish")
    assert mechanism.build.stopped == "asked"
