"""What a study of mechanisms checks on its rows: privacy, optimality, and what a map needs."""

from __future__ import annotations

from collections.abc import Sequence

from whereish.studies.field.registry import OPTIMAL
from whereish.studies.field.scores import PLACES, POINTS
from whereish.studies.runs import Row

_TIE = 1e-6  # relative: solvers stop at this gap
_DROPPED = ("distant pairs dropped", "most pairs dropped")


def field_claims(people: Sequence[Row], medians: Sequence[Row]) -> list[Row]:
    """Return a row for each claim: whether it holds, in how many rows, and a figure.

    Parameters
    ----------
    people, medians
        The rows of people, and those of the summary.
    """
    built = [row for row in people if row["problem"] is None]
    certified = [row for row in built if row["guarantee"] in (PLACES, POINTS)]
    kept = [row["tightest_epsilon_per_km"] / row["epsilon_per_km"] for row in certified]
    found = [_claim(
        "Every mechanism with an epsilon keeps it, in exact arithmetic.",
        kept, max(kept, default=0.0) <= 1, "largest tightest epsilon, as a share of its epsilon",
        max,
    )]  # fmt: skip
    least = {_case(row): row["loss_km"] for row in built if row["mechanism"] == OPTIMAL}
    ratios = [
        row["loss_km"] / least[_case(row)]
        for row in certified
        if row["guarantee"] == PLACES
        and row["epsilon_per_km"] <= row["asked_epsilon_per_km"]
        and least.get(_case(row), 0.0) > 0
    ]
    found.append(_claim(
        "No mechanism with this epsilon between places has less loss than the optimal one.",
        ratios, min(ratios, default=1.0) >= 1 - _TIE, "least loss, as a share of the optimal", min,
    ))  # fmt: skip
    for name in _DROPPED:
        levels = [
            row["tightest_epsilon_per_km"] / row["asked_epsilon_per_km"]
            for row in built
            if row["mechanism"] == name
        ]
        found.append(_claim(
            f"{name.capitalize()}: the epsilon asked for does not hold.",
            levels, min(levels, default=0.0) > 1, "least true epsilon, as a share of it", min,
        ))  # fmt: skip
    peers = [
        abs(row["loss_km"] / least[_case(row)] - 1)
        for row in built
        if row["mechanism"] == "qif" and least.get(_case(row), 0.0) > 0
    ]
    found.append(_claim(
        "qif and this library find the same least loss.",
        peers, max(peers, default=0.0) <= _TIE, "largest relative difference", max,
    ))  # fmt: skip
    return [row for row in [*found, _map_claim(medians)] if row["rows"] > 0]


def _map_claim(medians: Sequence[Row]) -> Row:
    """Compare the map error of the optimal mechanism with the least of the others."""
    shares = []
    for row in medians:
        others = [
            other["map_error"]
            for other in medians
            if other["guarantee"] == PLACES and _level(other) == _level(row)
            and other["epsilon_per_km"] <= row["asked_epsilon_per_km"]
            and other["mechanism"] != OPTIMAL
        ]  # fmt: skip
        if row["mechanism"] == OPTIMAL and others and row["built"]:
            shares.append(min(others) / row["map_error"])
    return _claim(
        "For a map of many reports, another mechanism with this epsilon is better than the optimal "
        "one.",
        shares, max(shares, default=1.0) < 1, "its map error, as a share of the optimal one's", max,
    )  # fmt: skip


def _claim(name: str, values: Sequence[float], holds: bool, what: str, worst: object) -> Row:
    figure = None
    if values:
        figure = max(values) if worst is max else min(values)
    return {"claim": name, "holds": holds, "rows": len(values), "figure": figure, "what": what}


def _case(row: Row) -> tuple[object, ...]:
    return row["data"], row["person"], row["asked_epsilon_per_km"]


def _level(row: Row) -> tuple[object, ...]:
    return row["data"], row["asked_epsilon_per_km"]
