"""Write the runs of reports over time that Python and the JavaScript client share.

A run has a mechanism, a policy, locations and times, and random words. What must follow is the
same in both: what is tested and drawn, the reports, the costs, and what the ledger has charged, as
exact decimal numbers. ``tests/test_client_tracker.py`` replays the runs with this library,
``clients/js/test/tracker.test.js`` with the client. Run this after a change of the policies or of
the private test only: the runs are there to notice changes that nobody wanted.

    python tools/tracker_vectors.py

The counts of a test are rounded from probabilities in floating point, which differ in their last
digits: ``TOLERANCE``, relative to the smaller one of the two counts. Both are audited exactly. A
word decides differently with a probability of about 1e-15; for these words nothing differs. Points
are in degrees, and the two projections differ by less than a micrometre (docs/client.md).
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

import whereish as wh
from whereish.device.run_steps import Stay, spent_per_stay
from whereish.everywhere.private_test import LatticeTests
from whereish.format import mechanism_bytes
from whereish.mechanisms.private_test import PlaceTests
from whereish.release import exact_noise, sampler

sys.path.insert(0, str(Path(__file__).parent))
import lattice_vectors

FILE = Path(__file__).parent.parent / "clients" / "js" / "test" / "tracker-vectors.json"
TOLERANCE = 1e-12
SEED, STEPS = 21, 26
MONDAY_S = 1794787200 + 5 * 3600  # 2026-11-16, 05:00 UTC
CENTRE = np.array([48.86, 2.35])
UNITS = 10**30  # of epsilon, as the client's ledger counts it

POLICIES: dict[str, dict[str, Any]] = {
    "predictive": {"policy": "predictive"},
    "predictive at a rate": {"policy": "predictive", "rateSeconds": 900},
    "predictive, cheap tests": {"policy": "predictive", "manager": "cheap"},
    "predictive with a model": {"policy": "predictive", "model": True},
    "sporadic": {"policy": "sporadic", "rateSeconds": 1800},
    "filtered": {"policy": "filtered", "model": True},
    "filtered at a rate": {"policy": "filtered", "model": True, "rateSeconds": 1500},
    "sticky": {"policy": "sticky"},
    "filtered, tapered": {"policy": "filtered", "model": True, "later": True},
    "sporadic, tapered": {"policy": "sporadic", "rateSeconds": 900, "later": True},
}
# Zones with changes of an hour, of half an hour, none, and a difference of 5:45 h; and hours that
# change their period around the changes.
CLOCKS: dict[str, tuple[int, ...]] = {
    "UTC": (0, 12), "Europe/Paris": (2, 3, 8), "America/New_York": (1, 2, 3),
    "Asia/Kathmandu": (6,), "Australia/Lord_Howe": (1, 2, 3), "Africa/Casablanca": (2, 3, 20),
    "Pacific/Apia": (0, 3, 4),
}  # fmt: skip
# Every new epsilon of a test for all points is a lattice that takes seconds to make.
LEFT_OUT = {
    "lattice": {"predictive, cheap tests", "filtered, tapered", "sporadic, tapered"},
    "by time": {"predictive, cheap tests", "filtered at a rate", "predictive at a rate"},
    # The client's integral of the noise is off by 1e-5: a filter may decide otherwise.
    "noise": {
        "predictive, cheap tests", "predictive with a model", "filtered", "filtered at a rate",
        "filtered, tapered",
    },
}  # fmt: skip


def mechanisms() -> dict[str, Any]:
    """Return a mechanism of each kind, on the earth."""
    rng = np.random.default_rng(SEED)
    where = wh.Places.from_latlon(CENTRE + rng.normal(0, 0.05, (6, 2)))
    metric = wh.graph_metric(6, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5)], [1.0, 2.5, 0.7, 1.1, 3])
    points = rng.normal(0, 0.02, (12, 2)) + CENTRE
    return {
        "places": wh.exponential(where, 0.8),
        "metric": wh.exponential(where, 0.6, privacy_metric=metric),
        "lattice": lattice_vectors.mechanisms()["city"],
        "noise": wh.planar_laplace_everywhere(wh.Places.from_latlon(points), None, 1.07),
        "by time": wh.MechanismByTime(
            (wh.exponential(where, 0.8), wh.planar_laplace(where, 0.8)),
            wh.DayPeriods((7, 19), "Europe/Paris"),
        ),
    }


def later_than(name: str, first: Any) -> list[Any]:
    """Return the mechanisms of later draws, for tapered ones: on the same places."""
    if name == "noise":
        where = first.outputs
        return [wh.planar_laplace_everywhere(where, None, 0.41, outputs=where)]
    if name == "lattice":
        return []
    if isinstance(first, wh.MechanismByTime):
        weaker = [later_than("places", member) for member in first.mechanisms]
        return [wh.MechanismByTime(tuple(one), first.periods) for one in zip(*weaker, strict=True)]
    metric = None if first.is_per_km else first.privacy_metric
    return [wh.exponential(first.inputs, epsilon, privacy_metric=metric) for epsilon in (0.45, 0.2)]


def movement() -> wh.MovementModel:
    """Return a movement model on other places than the mechanisms', with a time zone."""
    rng = np.random.default_rng([SEED, 1])
    where = wh.Places.from_latlon(CENTRE + rng.normal(0, 0.05, (5, 2)))
    stays = np.repeat(rng.integers(0, 5, 60), rng.integers(1, 9, 60))
    return wh.count_movement(
        {"other": (MONDAY_S + 600.0 * np.arange(len(stays)), stays)}, where, hours=(0, 7, 19),
        zone="Europe/Paris",
    )  # fmt: skip


def trace(mechanism: Any, seed: int) -> list[dict[str, Any]]:
    """Return points and times: stays of some reports, and a clock that jumps either way."""
    rng = np.random.default_rng([SEED, seed])
    known = CENTRE + rng.normal(0, 0.06, (6, 2))
    if (
        isinstance(mechanism, wh.Mechanism | wh.MechanismByTime)
        and mechanism.inputs.latlon is not None
    ):
        known = mechanism.inputs.latlon
    found, now, place = list[dict[str, Any]](), MONDAY_S, 0
    for step in range(STEPS):
        if rng.random() < 0.4:
            place = int(rng.integers(len(known)))
        now += int(rng.choice([60, 700, 1000, 2000, 5000]))
        jumps = {10: -7200, 13: 2 * 86400, 15: -86400, 20: 9 * 86400, 22: -3600}
        now += jumps.get(step, 0)
        found.append({"at": (known[place] + rng.normal(0, 1e-4, 2)).tolist(), "time_s": now})
    return found


@contextmanager
def words_from(left: list[int]) -> Iterator[None]:
    """Let the sampler take these words, in order, one at a time."""

    def urandom(size: int) -> bytes:
        taken, left[:] = left[: size // 8], left[size // 8 :]
        if len(taken) < size // 8:
            raise ValueError("the run must not take more words than it has")
        return b"".join((word << 1).to_bytes(8, "little") for word in taken)

    with (
        patch.object(sampler, "os", SimpleNamespace(urandom=urandom)),
        patch.object(exact_noise, "_BUFFER", 1),
    ):
        yield


def tracker_of(
    mechanism: Any, options: dict[str, Any], model: Any, file: Path, later: list[Any]
) -> wh.Tracker:
    """Return the tracker of a run."""
    cheap = wh.BudgetManager.cheap_tests(mechanism.epsilon) if "manager" in options else None
    return wh.Tracker(
        mechanism, file, options["policy"], options.get("budget"), options["period"],
        new_places=options.get("newPlaces"), rate=options.get("rateSeconds"),
        model=model if options.get("model") else None, manager=cheap,
        later=later if options.get("later") else (),
    )  # fmt: skip


def replayed(tracker: wh.Tracker, steps: list[dict[str, Any]], words: list[int]) -> Iterator[Any]:
    """Yield what follows from each step of a run: the report, or that it is refused."""
    left = list(words)
    for step in steps:
        begun = len(left)
        with words_from(left):
            try:
                made = tracker.report(tuple(step["at"]), step["time_s"])
            except wh.BudgetError:
                yield {"refused": True, "words": begun - len(left)}
                continue
        spent, stay = charged(tracker, step["time_s"], made.spent_per_stay)
        yield {
            "output": made.output, "fresh": made.fresh, "cost": made.cost, "spent": spent,
            "stay": stay, "ends": made.period_ends, "words": begun - len(left),
        }  # fmt: skip


def charged(tracker: wh.Tracker, now: float, per_stay: float) -> tuple[str, str]:
    """Return what is charged to the period, and the largest of a stay, in whole units."""
    with tracker.ledger._open() as ledger:
        ledger.move_to(period := ledger.charges.at(now))
        spent = ledger.charges.budget - ledger.charges.left(period)
        stays = [Stay.read(run.stay) for run in ledger.runs.values()]
    largest = spent_per_stay(stays, spent) if stays else Fraction(repr(per_stay))
    return _units(spent), _units(largest)


def _units(epsilon: Fraction) -> str:
    amount = epsilon * UNITS
    if amount.denominator != 1:
        raise ValueError("an amount of the ledger must be a whole number of units")
    return str(amount.numerator)


def near_counts(mechanism: Any) -> dict[str, Any]:
    """Return the test of the default manager, with some of its counts."""
    manager = wh.BudgetManager.for_draw(mechanism.epsilon)
    about = {"epsilon": manager.epsilon_test, "threshold": manager.threshold}
    if isinstance(mechanism, wh.MechanismByTime):
        return near_counts(mechanism.mechanisms[0])
    if isinstance(mechanism, wh.Mechanism):
        tests = PlaceTests(mechanism, manager.epsilon_test, manager.threshold)
        guesses = range(len(mechanism.outputs))
        rows = [[str(count) for count in tests.near_counts(z).tolist()] for z in guesses]
        return {**about, "near": rows}
    test = LatticeTests(mechanism.outputs, manager.epsilon_test, manager.threshold).mechanism
    side = len(test.lattice.xs)
    table, half = test.counts[:, 0].reshape(side, side), side // 2
    at = [(0, 0), (1, 0), (-3, 5), (20, 20), (-21, -1), (60, -90), (half, half), (-half, 4)]
    counts = [[x, y, str(table[half + y, half + x])] for x, y in at]
    return {**about, "half": half, "counts": counts}


def runs_of(name: str, mechanism: Any, model: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a run of each policy."""
    for number, (title, about) in enumerate(POLICIES.items()):
        if title in LEFT_OUT.get(name, ()):
            continue
        rng = np.random.default_rng([SEED, seed, number])
        many = {"newPlaces": 5} if number % 2 else {"budget": 4.35}
        options = {**about, **many, "period": ("day", "week", "hour")[number % 3]}
        steps = trace(mechanism, 100 * seed + number)
        # A draw of exact noise takes some hundred words.
        drawn = rng.integers(0, 2**63, 40_000, dtype=np.uint64).tolist()
        with tempfile.TemporaryDirectory() as folder:
            later = later_than(name, mechanism)
            tracker = tracker_of(mechanism, options, model, Path(folder) / "ledger", later)
            found = list(replayed(tracker, steps, drawn))
        used = sum(step["words"] for step in found)
        yield {
            "mechanism": name, "policy": title, "options": options,
            "words": " ".join(f"{word:016x}" for word in drawn[:used]),
            "steps": [{**step, **then} for step, then in zip(steps, found, strict=True)],
        }  # fmt: skip


def clocks() -> Iterator[dict[str, Any]]:
    """Yield mechanisms by time with the periods of some times, around changes of the clocks."""
    where = wh.Places.from_latlon(CENTRE + np.array([[0.0, 0.0], [0.01, 0.02]]))
    for zone, hours in CLOCKS.items():
        periods = wh.DayPeriods(hours, zone)
        levels = (
            wh.exponential(where, 0.8),
            wh.planar_laplace(where, 0.8),
            wh.exponential(where, 0.8),
        )
        made = wh.MechanismByTime(levels[: len(periods)], periods)
        rng = np.random.default_rng([SEED, len(zone)])
        times = rng.integers(0, 4_000_000_000, 40).tolist()
        for day in (
            "2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01",
            "1975-06-01", "2011-12-30",
        ):  # fmt: skip
            begin = int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp())
            times += [
                begin + step + edge for step in range(-43200, 86400, 3600) for edge in (-1, 0)
            ]
        yield {
            "file": base64.b64encode(mechanism_bytes(made)).decode("ascii"), "zone": zone,
            "times_s": times, "numbers": periods.numbers_at(times).tolist(),
        }  # fmt: skip


def main() -> int:
    """Write the file."""
    model = movement()
    with tempfile.TemporaryDirectory() as folder:
        wh.save_movement(Path(folder) / "model", model)
        saved = json.loads((Path(folder) / "model").read_text())
    made = mechanisms()
    parts = [
        {
            "name": name,
            "file": base64.b64encode(mechanism_bytes(m)).decode("ascii"),
            "later": [
                base64.b64encode(mechanism_bytes(one)).decode("ascii")
                for one in later_than(name, m)
            ],
            "test": near_counts(m),
        }
        for name, m in made.items()
    ]
    runs = [
        run for k, (name, m) in enumerate(made.items()) for run in runs_of(name, m, model, k + 1)
    ]
    lines = [
        f'{{"tolerance": {TOLERANCE}, "model": {json.dumps(saved)},',
        '"mechanisms": [' + ",\n".join(json.dumps(part) for part in parts) + "],",
        '"clocks": [' + ",\n".join(json.dumps(one) for one in clocks()) + "],",
        '"runs": [' + ",\n".join(json.dumps(run) for run in runs) + "]}",
    ]
    FILE.write_text("\n".join(lines) + "\n", encoding="ascii")
    steps = sum(len(run["steps"]) for run in runs)
    sys.stdout.write(f"{FILE.name}: {len(runs)} runs of {steps} steps\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
