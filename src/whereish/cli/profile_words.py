"""What ``whereish profile`` says: how far the reading is, what was dropped, what was made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import whereish as wh
from whereish.cli.console import say, waiting
from whereish.profiles import PersonalProfile, Step
from whereish.profiles.defaults import FEW_POINTS
from whereish.units import km

_FILES_SHOWN = 5
_POOR = 0.8  # of the time covered: less is worth a hint
_DROPPED = {
    "unreadable": "without numbers or a time",
    "impossible": "with impossible coordinates",
    "untimely": "with impossible times",
}


class Reading(ExitStack):
    """Shows how far the reading of traces is, and says at the end what was read."""

    def __init__(self, traces: wh.Traces) -> None:
        super().__init__()
        self._kind, self._left_out = traces.kind, traces.left_out
        self._show: Callable[..., None] | None = None
        self._start = time.perf_counter()
        self.facts: dict[str, Any] = {}

    def __call__(self, done: int, files: int, rows: int) -> None:
        """Show how many files and rows were read; the progress function of `count_visits`."""
        if self._show is None:
            # Only now: where the result is in the cache, nothing is read.
            self._show = self.enter_context(
                waiting(f"reading {_number(files, f'{self._kind} file')}")
            )
        rate = rows / max(time.perf_counter() - self._start, 1e-9)
        self._show(f"{done:,} files, {rows:,} rows, {rate:,.0f} rows a second", done / files)

    def done(self, funnel: wh.Funnel) -> None:
        """Say what was read and what was dropped: file and line, never the content."""
        self.close()
        seconds = time.perf_counter() - self._start
        took = f" in {seconds:.1f} s" if self._show else " (kept from an earlier run)"
        files = _number(funnel.files, f"{self._kind} file")
        say(f"Read {funnel.rows:,} rows from {files}{took}.")
        for kind, count in self._left_out.items():
            say(f"Left out {_number(count, f'{kind} file')}: --kind {kind} reads those.")
        dropped = {words: getattr(funnel, name) for name, words in _DROPPED.items()}
        if any(dropped.values()):
            parts = [f"{count:,} {words}" for words, count in dropped.items() if count]
            say(f"Dropped {_number(funnel.dropped, 'row')}: {', '.join(parts)}.")
            for file, line, why in funnel.where:
                say(f"  {file}, line {line}: {why}")
        for file, reason in funnel.broken[:_FILES_SHOWN]:
            say(f"  {file} cannot be read, or not completely ({reason})")
        if len(funnel.broken) > _FILES_SHOWN:
            say(f"  and {len(funnel.broken) - _FILES_SHOWN:,} more files")
        self.facts = {**asdict(funnel), "dropped": funnel.dropped, "seconds": seconds}


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def say_person(made: PersonalProfile, on_places: bool) -> dict[str, Any]:
    """Say what one person's profile covers, and return it as facts for --json."""
    where = made.profile.places
    if made.counted == "points":
        say(f"{made.points:,} points, each row once, whatever its time. Where rows have times, "
            "--columns time=NAME names them, and hours are counted.")  # fmt: skip
        what = "the points are"
    else:
        say(f"{made.points:,} points (the same region in the same hour counts once) in "
            f"{_number(made.hours, 'hour')} of {_number(made.days, 'day')}.")  # fmt: skip
        what = "the recorded time was spent"
    if made.points < FEW_POINTS:
        say("These are few points: the prior is not yet that of a person's days.")
    if on_places:
        say(f"{len(where)} places of the profile given: {made.at_places:.0%} of {what} there. "
            f"{made.elsewhere:,} points elsewhere are left out.")  # fmt: skip
    else:
        size = ""
        if where.cell_km is not None:
            size = f", cells of {km(where.cell_km[0])} x {km(where.cell_km[1])}"
        say(f"{len(where)} places{size}: {made.at_places:.0%} of {what} there, "
            f"{made.in_area:.0%} in the area around.")  # fmt: skip
    if made.visited < len(where):
        rest = "have no point" if on_places else "lie around those visited, to hide among"
        say(f"{len(where) - made.visited} of them {rest}.")
    if made.at_places < _POOR * made.in_area:
        say("More --places, or a larger --cell, would cover more of it.")
    if made.in_area < _POOR and not on_places:
        say("The rest was outside the area: a larger --radius, or --area, takes in more.")
    return {
        "places": len(where),
        "cell_km": where.cell_km,
        "counted": made.counted,
        "points": made.points,
        "points_elsewhere": made.elsewhere,
        "hours": made.hours,
        "days": made.days,
        "share_of_time_in_area": made.in_area,
        "share_of_time_at_places": made.at_places,
        "places_visited": made.visited,
        "steps": [asdict(step) for step in made.steps],
    }


def say_visited(profiles: Sequence[wh.Profile]) -> int:
    """Say how many visited points profiles hold, and return their number."""
    count = sum(0 if who.visited is None else len(who.visited.places) for who in profiles)
    if count:
        say(
            f"{_number(count, 'visited point')} beside the places, for --everywhere: they tell "
            "homes to some metres, so pass the file on to nobody (--no-points leaves them out)."
        )
    return count


def say_periods(profile: wh.Profile) -> dict[str, Any] | None:
    """Say for which periods of the day a profile has a prior, and return them as facts."""
    if profile.by_time is None:
        return None
    periods, weights = profile.by_time.periods, profile.by_time.weights
    say(f"A prior for each period of the day: {', '.join(periods.names)} in {periods.zone}.")
    empty = [name for name, share in zip(periods.names, weights, strict=True) if share == 0]
    if empty:
        say(f"Nothing was recorded in {', '.join(empty)}: the prior is that of the whole day.")
    return {"hours": list(periods.hours), "zone": periods.zone, "empty": empty}


def say_steps(steps: Iterable[Step]) -> None:
    """Say how many people and points each step left."""
    for step in steps:
        say(f"{step.users:>8,} people {step.points:>12,} points  {step.name}")


def say_group(everybody: dict[str, wh.Profile], steps: tuple[Step, ...]) -> dict[str, Any]:
    """Say how many people and points each step left, and return it as facts for --json."""
    say_steps(steps)
    count = len(next(iter(everybody.values())).places)
    say(f"{len(everybody):,} profiles of {count} places.")
    return {"users": len(everybody), "places": count, "steps": [asdict(step) for step in steps]}
