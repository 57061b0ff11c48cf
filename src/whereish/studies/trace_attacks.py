"""The adversary of reports over time in the plane: the smoother of `whereish.attacks`.

The adversary knows the policy, what was drawn and what the tests said, where other people are and
how far they move. The hypotheses are cells of 300 m around the median of the draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whereish.attacks import FREE, REPEATED, Evidence, Score, score, smoother
from whereish.mechanisms.private_test import near_probabilities
from whereish.places import Array, Places
from whereish.profiles.movement import MovementModel
from whereish.studies.trace_model import CELL_KM, PlaneModel, Whole, nearest_gap, windows
from whereish.studies.trace_policies import STICKY, Constants, Flags
from whereish.studies.trace_protocol import Trace
from whereish.studies.trace_scores import NEAR_KM

HALF = 8  # cells on each side of the median
_SIZE = round(NEAR_KM / CELL_KM)  # of a cell, in cells of the counts
_MOST_REPORTS = 30
_MOVED = -60.0  # log probability that a sticky report is repeated after a move
_LONGEST_STEP_S = 3600.0


def attack(
    trace: Trace,
    reports: Array,
    drawn: Flags,
    tested: Flags,
    constants: Constants,
    model: PlaneModel,
    gap_s: float,
) -> Score:
    """Attack the first 30 reports of a trace, and compare the guesses with the truth.

    Parameters
    ----------
    reports
        (c, 2) km: what was drawn last at each point that is covered.
    model
        Of other people.
    gap_s
        The time between two reports, at most an hour.
    """
    count = min(len(reports), _MOST_REPORTS)
    truth, seen = trace.xy[:count], reports[:count]
    middle = np.median(seen[drawn[:count]], axis=0)
    places, movement = local_model(model, middle, gap_s)
    logs, links = evidence_of(seen, drawn[:count], tested[:count], constants, places.xy)
    times = np.arange(count, dtype=np.float64) * movement.step_s
    return score(smoother(Evidence(places, times, logs, links), movement), truth, NEAR_KM)


def evidence_of(
    reports: Array, drawn: Flags, tested: Flags, constants: Constants, places: Array
) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int8]]]:
    """Return what each report tells of each place, as `Evidence` takes it: logarithms and links.

    The test before a report is of the report before it. A sticky report that is repeated says that
    the person has stayed; when somebody comes back to an earlier square, only that is used.
    """
    logs = np.zeros((len(reports), len(places)))
    links = np.full(len(reports), FREE, np.int8)
    levels = constants.levels(np.cumsum(drawn) - 1)
    for t in range(len(reports)):
        if drawn[t]:
            logs[t] = -levels[t] * _away(places, reports[t])
        if tested[t]:
            away = _away(places, reports[t - 1])
            near, far = near_probabilities(away, constants.test, constants.threshold_km)
            logs[t] += np.log(far if drawn[t] else near)
        elif constants.kind == STICKY and t > 0 and (reports[t] == reports[t - 1]).all():
            links[t], logs[t] = REPEATED, _MOVED
    return logs, links


def local_model(model: PlaneModel, middle: Array, gap_s: float) -> tuple[Places, MovementModel]:
    """Return cells around a point, and how other people move between them in one gap."""
    side = _SIZE * CELL_KM
    centre: Whole = np.floor((middle - model.origin) / side).astype(np.int64)
    span = np.arange(-HALF, HALF + 1)
    cells = np.array([(east, north) for east in span for north in span])
    places = Places.from_xy(model.origin + (centre + cells + 0.5) * side)
    step = min(gap_s, _LONGEST_STEP_S)
    moves = model.kernel(int(nearest_gap(np.array(step))), _SIZE, 2 * HALF)
    apart = cells[None, :, :] - cells[:, None, :] + 2 * HALF
    rows = moves[apart[..., 0], apart[..., 1]]
    prior = windows(model.spent(_SIZE)[None], centre[None, :, None] + span).reshape(-1)
    return places, MovementModel(
        places, step, (0,), (rows / rows.sum(axis=1, keepdims=True))[None],
        (prior / prior.sum())[None],
    )  # fmt: skip


def mean_score(scores: Sequence[Score]) -> tuple[float, float]:
    """Return the mean error and the mean success rate of some attacks."""
    return (
        float(np.mean([one.mean_error_km for one in scores])),
        float(np.mean([one.success_rate for one in scores])),
    )


def _away(places: Array, point: Array) -> Array:
    return np.asarray(np.hypot(*(places - point).T))
