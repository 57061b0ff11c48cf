"""Pictures of attacks: what is known of home and of the way, as reports go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whereish.attacks.exposure import Exposure
from whereish.errors import InputError
from whereish.places import Array
from whereish.plotting.pictures import finish, new_figure, picture_kind, titled
from whereish.units import km

_COLOURS = ("#c8102e", "#1f6f9f", "#2f8f4e", "#8a5aa8", "#d08a1a", "#555555")


def draw_exposure(
    exposures: Mapping[str, Sequence[Exposure]], path: str | Path, radius_km: float
) -> None:
    """Draw, for each policy, how well homes are known after each day, and the errors of attacks.

    Parameters
    ----------
    exposures
        What `expose` returned, by policy.
    """
    picture_kind(path)
    if not exposures or not any(exposures.values()):
        raise InputError("exposures must hold at least one person's, got none")
    figure, (left, middle, right) = new_figure((13.5, 4.2), 3)
    for colour, (policy, people) in zip(_COLOURS, exposures.items(), strict=False):
        days, median, share = _homes(people, radius_km)
        left.plot(days, median, color=colour, label=policy)
        middle.plot(days, 100 * share, color=colour, label=policy)
    titled(left, "Home: error of the best guess, median of the people")
    left.set_ylabel("km")
    left.axhline(radius_km, color="#999999", linestyle=":", linewidth=1)
    titled(middle, f"Homes known to {km(radius_km)}")
    middle.set_ylabel("% of the people")
    middle.set_ylim(-3, 103)
    for axis in (left, middle):
        axis.set_xlabel("days of reports")
        axis.set_xlim(left=0)
        axis.legend(frameon=False, fontsize=9)
    left.set_ylim(bottom=0)
    _errors(right, exposures)
    finish(figure, path)


def _homes(people: Sequence[Exposure], radius_km: float) -> tuple[Array, Array, Array]:
    """Return days, the median error of the guessed homes, and the share within the radius."""
    known = [one.found["home"].errors_km for one in people if "home" in one.found]
    if not known:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    most = max(map(len, known))
    # Who has fewer days keeps the last guess.
    rows = np.array([[*errors, *[errors[-1]] * (most - len(errors))] for errors in known])
    days = np.arange(1, most + 1).astype(np.float64)
    return days, np.median(rows, axis=0), (rows <= radius_km).mean(axis=0)


def _errors(panel: Any, exposures: Mapping[str, Sequence[Exposure]]) -> None:
    """Draw the mean error of every attack, a group of bars for each."""
    names = list(next(iter(exposures.values()))[0].scores)
    width = 0.8 / len(exposures)
    for number, (policy, people) in enumerate(exposures.items()):
        values = [np.mean([one.scores[name].mean_error_km for one in people]) for name in names]
        at = np.arange(len(names)) + (number - (len(exposures) - 1) / 2) * width
        panel.barh(at, values, width, color=_COLOURS[number % len(_COLOURS)], label=policy)
    panel.set_yticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    panel.invert_yaxis()
    panel.set_xlabel("km")
    titled(panel, "Where somebody is: mean error of each attack")
