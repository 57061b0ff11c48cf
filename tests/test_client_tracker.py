"""Reports over time in the JavaScript client: Python's runs, and all runs in exact arithmetic."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracker_vectors as vectors

import checks
import whereish as wh
from runs import Run, judged
from whereish.device.budget_manager import Prices
from whereish.places.lattice import to_units

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "js"

NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
pytestmark = [
    pytest.mark.xdist_group("client"),
    pytest.mark.skipif(NODE is None, reason="there is no node to run the client in"),
]
PLACES = wh.Places.from_latlon([[48.86, 2.35], [48.869, 2.353], [48.855, 2.337]])
EPSILON = 0.8
TIMES = (1000.0, 2000.0, 3500.0)
UNITS = 10**30
SHARED: dict[str, Any] = json.loads(vectors.FILE.read_text())


# ------------------------------------------------------------------ shared runs


def replay(runs: list[dict[str, Any]], folder: Path) -> None:
    """Check that the library follows these shared runs."""
    model = vectors.movement()
    for number, run in enumerate(runs):
        (part,) = [p for p in SHARED["mechanisms"] if p["name"] == run["mechanism"]]
        (folder / "k").write_bytes(base64.b64decode(part["file"]))
        mechanism, _ = wh.load_mechanism(folder / "k")
        later = []
        for file in part["later"]:
            (folder / "later").write_bytes(base64.b64decode(file))
            later.append(wh.load_mechanism(folder / "later")[0])
        tracker = vectors.tracker_of(mechanism, run["options"], model, folder / f"{number}", later)
        words = [int(word, 16) for word in run["words"].split()]
        for step, found in zip(
            run["steps"], vectors.replayed(tracker, run["steps"], words), strict=True
        ):
            assert step == {"at": step["at"], "time_s": step["time_s"], **found}


def test_the_library_follows_some_shared_runs(tmp_path: Path) -> None:
    some = {"predictive with a model", "filtered at a rate", "sticky", "filtered, tapered"}
    chosen = [r for r in SHARED["runs"] if r["mechanism"] == "places" and r["policy"] in some]
    assert len(chosen) == 4
    replay(chosen, tmp_path)


@pytest.mark.slow
def test_the_library_follows_all_shared_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whereish.everywhere import private_test

    monkeypatch.setattr(private_test, "lattice_test", lru_cache(private_test.lattice_test))
    assert {run["mechanism"] for run in SHARED["runs"]} == {
        "places",
        "metric",
        "lattice",
        "noise",
        "by time",
    }
    replay(SHARED["runs"], tmp_path)


@pytest.mark.slow
def test_the_client_follows_the_shared_runs() -> None:
    """And its other tests of reports over time, with every function of the language replaced."""
    done = subprocess.run(
        [str(NODE), "--test", str(CLIENT / "test" / "tracker.test.js")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 18" in done.stdout or "ℹ pass 18" in done.stdout


# ------------------------------------------------------------------ all runs


def mechanism_of(outputs: int, epsilon: float = EPSILON) -> wh.Mechanism:
    """Return a mechanism between three places, with two or three outputs."""
    made = wh.exponential(PLACES, epsilon)
    if outputs == 3:
        return made
    return made.then([[1.0, 0.0], [0.3, 0.7], [0.0, 1.0]], PLACES.subset([0, 1]))


def ask(
    folder: Path,
    mechanism: Any,
    client: Path = CLIENT,
    later: Sequence[Any] = (),
    **questions: Any,
) -> dict[str, Any]:
    """Ask the driver; a model is saved beside the mechanism."""
    wh.save_mechanism(folder / "k.whereish", mechanism)
    if model := questions.pop("model", None):
        wh.save_movement(folder / "model", model)
        questions["model"] = str(folder / "model")
    questions["later"] = [str(folder / f"later-{k}") for k, _ in enumerate(later)]
    for file, one in zip(questions["later"], later, strict=True):
        wh.save_mechanism(file, one)
    assert PLACES.latlon is not None
    asked = {
        "client": client.as_uri(), "file": str(folder / "k.whereish"),
        "points": PLACES.latlon.tolist(), **questions,
    }  # fmt: skip
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "tracker-driver.js")],
        input=json.dumps(asked), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wrong_in(
    folder: Path,
    options: dict[str, Any],
    *,
    outputs: int = 3,
    length: int = 2,
    times: Sequence[float] = TIMES,
    client: Path = CLIENT,
    model: Any = None,
    alike: Any = lambda one, other: True,
) -> list[str]:
    """Return what is wrong with the client's runs of all traces, at most three sentences."""
    traces = list(itertools.product(range(3), repeat=length))
    given = dict(options)
    later = [mechanism_of(outputs, epsilon) for epsilon in given.pop("later", ())]
    answer = ask(
        folder, mechanism_of(outputs), client, later, options=given, traces=traces,
        times=list(times[:length]), model=model,
    )  # fmt: skip
    of = {}
    for trace, found in zip(traces, answer["runs"], strict=True):
        runs: dict[tuple[Any, ...], tuple[Fraction, Run]] = {}
        for one in found:
            charges = tuple(Fraction(int(units), UNITS) for units in one["charges"])
            costs = tuple(Fraction(repr(float(cost))) for cost in one["costs"])
            assert charges == costs, "the ledger has charged less or more than the report cost"
            run = Run(tuple(one["seen"]), charges)
            before, same = runs.get(run.seen, (Fraction(0), run))
            assert same == run, "the same reports have cost more or less"
            share = Fraction(int(one["numerator"]), 2 ** one["exponent"])
            runs[run.seen] = before + share, run
        assert sum(p for p, _ in runs.values()) == 1
        of[trace] = runs
    xy = PLACES.xy.tolist()
    wrong = judged(
        of, times[:length], lambda x, y: checks.distance_lower(xy[x], xy[y]),
        Fraction(repr(options["budget"])), alike,
    )  # fmt: skip
    return list(itertools.islice(wrong, 3))


def walk() -> wh.MovementModel:
    """Return a movement model of other people."""
    at = [0, 0, 0, 1, 1, 2, 2, 2, 0, 0, 1, 2, 1, 1, 0, 0]
    return wh.count_movement(
        {"other": (600.0 * np.arange(len(at)), at)}, PLACES, 600, (0,), smoothing=0.5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"budget": 2.2}, (2, 3)),
        ({"budget": 2.2}, (3, 2)),
        ({"budget": 2.6, "model": True}, (2, 2)),
        ({"budget": 5.0, "rateSeconds": 1200}, (2, 2)),
        ({"policy": "sporadic", "budget": 1.6, "rateSeconds": 600}, (2, 3)),
        ({"policy": "filtered", "budget": 2.4, "model": True}, (2, 3)),
        ({"policy": "filtered", "budget": 1.55, "model": True, "later": [0.4, 0.3]}, (2, 3)),
    ],
)
def test_what_is_spent_bounds_what_is_revealed(
    tmp_path: Path, options: dict[str, Any], shape: tuple[int, int]
) -> None:
    """Every run of every trace of three places, each report in a page that was just loaded."""
    given = dict(options)
    model = walk() if given.pop("model", False) else None
    assert not wrong_in(tmp_path, given, outputs=shape[0], length=shape[1], model=model)


def test_sticky_reports_are_private_for_one_pattern_and_no_other(tmp_path: Path) -> None:
    options = {"policy": "sticky", "budget": 1.6}

    def same_pattern(one: Sequence[int], other: Sequence[int]) -> bool:
        return (one[0] == one[1]) == (other[0] == other[1])

    assert not wrong_in(tmp_path, options, alike=same_pattern)
    assert "more is revealed" in wrong_in(tmp_path, options)[0]


_PRICE = "price = tested ? (fresh ? both : test) : draw;"
_RESERVE = "reserve: units(tested ? both : draw), make"
_DECIDED = "fresh: true, run: { guess: drawn, shown: sent, decided: time, belief,"
_LEVEL = "const level = this.#schedule.level(run, time);"
_PRICES = "return this.#prices[this.#schedule.level(run, time)];"
_CHECK = "if (cost > planned.reserve) throw"
BUGS: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]], str]] = {
    "mechanism from the true position": (
        {"policy": "sporadic", "rateSeconds": 60, "budget": 5.0, "later": [0.2]},
        [("policies.js", _LEVEL, "const level = at.place % 2;")],
        "more is revealed",
    ),
    "price of the next draw": (
        {"policy": "sporadic", "rateSeconds": 60, "budget": 5.0, "later": [0.2]},
        [("policies.js", _PRICES, "return this.#prices[1];")],
        "more is revealed",
    ),
    "test not charged": (
        {"budget": 5.0},
        [("tracker.js", _PRICE, "price = fresh ? draw : 0;")],
        "more is revealed",
    ),
    "reserve forgotten": (
        {"budget": 1.2},
        [
            ("tracker.js", _RESERVE, "reserve: units(tested ? test : draw), make"),
            ("ledger.js", _CHECK, "if (false) throw"),
        ],
        "over the budget",
    ),
    "reserve forgotten, in a ledger that looks": (
        {"budget": 1.2},
        [("tracker.js", _RESERVE, "reserve: units(tested ? test : draw), make")],
        "more than was reserved",
    ),
    "prediction from the true position": (
        {"budget": 5.0},
        [("policies.js", "const guess = this.#guess(run, time);", "const guess = at.place % 2;")],
        "more is revealed",
    ),
    "filter from the true position": (
        {"policy": "sporadic", "rateSeconds": 60, "budget": 5.0},
        [("policies.js", "let sent = drawn;", "let sent = at.place % 2;")],
        "more is revealed",
    ),
    "rate from the true position": (
        {"policy": "sporadic", "rateSeconds": 600, "budget": 5.0},
        [("policies.js", _DECIDED, _DECIDED.replace("time", "at.place ? 0 : 2e6"))],
        "more is revealed",
    ),
    "refund when the clock goes back": (
        {"policy": "sporadic", "rateSeconds": 60, "budget": 1.0},
        [("ledger.js", "if (kept.number >= number) {", "if (kept.number === number) {")],
        "over the budget",
    ),
    "refund at the end of a page": (
        {"policy": "sporadic", "rateSeconds": 60, "budget": 1.0},
        [("ledger.js", "if (kept.spent > state.spent) state.spent = kept.spent;", "")],
        "has charged less or more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(tmp_path: Path, bug: str) -> None:
    options, changes, words = BUGS[bug]
    # A day ahead and back: the ledger goes on with the later day.
    times = (90_000.0, 1000.0, 91_000.0) if "clock" in bug else TIMES
    shape: dict[str, Any] = {"times": times, "length": 3 if "clock" in bug else 2, "outputs": 2}
    if "clock" in bug:  # the others are covered above
        assert not wrong_in(tmp_path, options, **shape)
    planted = tmp_path / "client"
    shutil.copytree(CLIENT / "whereish", planted / "whereish")
    shutil.copy(CLIENT / "whereish.js", planted)
    (planted / "package.json").write_text('{"type": "module"}')
    for name, right, wrong in changes:
        file = planted / "whereish" / name
        text = file.read_text()
        assert text.count(right) == 1, f"{name} must have the line that the bug replaces"
        file.write_text(text.replace(right, wrong))
    try:
        found = wrong_in(tmp_path, options, client=planted, **shape)
    except (RuntimeError, AssertionError) as caught:
        found = [str(caught)]
    assert found, "nothing was found"
    assert any(words in sentence for sentence in found), found


# ------------------------------------------------------------------ counts and amounts


def test_the_counts_of_the_client_pass_a_check_that_shares_no_code(tmp_path: Path) -> None:
    answer = ask(tmp_path, mechanism_of(3), counts=1, options={})
    xy = PLACES.xy.tolist()
    for near in answer["near"]:
        rows = [[int(count), 2**63 - int(count)] for count in near]
        assert not checks.broken_ratios(rows, answer["epsilon"], xy)
        assert checks.broken_ratios(rows, 0.98 * answer["epsilon"], xy)
    metric = wh.graph_metric(3, [(0, 1), (1, 2)], [1.0, 2.5])
    answer = ask(tmp_path, wh.exponential(PLACES, 0.6, privacy_metric=metric), counts=1, options={})
    for near in answer["near"]:
        rows = [[int(count), 2**63 - int(count)] for count in near]
        assert not checks.broken_ratios(rows, answer["epsilon"], metric=metric.tolist())
        assert checks.broken_ratios(rows, 0.98 * answer["epsilon"], metric=metric.tolist())


def test_a_piece_of_the_lattice_passes_a_check_that_shares_no_code(tmp_path: Path) -> None:
    (part,) = [p for p in SHARED["mechanisms"] if p["name"] == "lattice"]
    (tmp_path / "city").write_bytes(base64.b64decode(part["file"]))
    mechanism, _ = wh.load_mechanism(tmp_path / "city")
    answer = ask(tmp_path, mechanism, counts=30, options={})
    level = answer["epsilon"]
    axis = (to_units(np.arange(30) * (0.1 / level)) / 2**40).tolist()
    counts = [[int(near), 2**63 - int(near)] for row in answer["near"] for near in row]
    assert not checks.broken_corners(counts, axis, axis, level)
    assert checks.broken_corners(counts, axis, axis, 0.999 * level)


@pytest.mark.parametrize("many", [{"newPlaces": 7}, {"budget": 3.21}])
def test_the_amounts_of_the_client_are_those_of_python(
    tmp_path: Path, many: dict[str, Any]
) -> None:
    """With the system's randomness: recounted with Python's prices, as fractions."""
    rng = np.random.default_rng(3)
    asked = [(int(rng.integers(3)), 600 * k) for k in range(40)]
    mechanism = mechanism_of(3)
    answer = ask(tmp_path, mechanism, options={"period": "week", **many}, free=asked)
    manager = wh.BudgetManager.for_draw(EPSILON)
    prices = Prices.of(EPSILON, manager.epsilon_test)
    budget = Fraction(repr(many["budget"])) if "budget" in many else 7 * Fraction("0.8")
    spent, refused = Fraction(0), 0
    for k, report in enumerate(answer["reports"]):
        if report is None:
            refused += 1
            assert spent + Fraction(repr(prices.both)) > budget
            continue
        expected = prices.draw if k == 0 else prices.both if report["fresh"] else prices.test
        assert report["cost"] == expected
        spent += Fraction(repr(expected))
        assert Fraction(int(report["charged"]), UNITS) == spent <= budget
        assert Fraction(int(report["budgetUnits"]), UNITS) == budget
        assert (report["spent"], report["budget"]) == (float(spent), float(budget))
    assert refused > 0
