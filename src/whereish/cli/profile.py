"""``whereish profile``: places with a prior, from traces of where somebody was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Self

import typer

import whereish as wh
from whereish.cli.console import command, emit, say, waiting
from whereish.cli.options import AsJson, given_flags
from whereish.errors import InputError
from whereish.limits import MOST_PLACES
from whereish.places import as_whole
from whereish.profiles import (
    ALL_DAY,
    COUNTS,
    PAPER_CELL_KM,
    PERIODS,
    RADIUS_KM,
    DegreeTiles,
    Portrait,
    Regions,
    Step,
    Visits,
    area_cells,
    as_cell_km,
    as_period,
    busiest_window,
    check_profile_file,
    check_profiles_target,
    check_smooth,
    enough_points,
    find_middle,
    inside,
    nearby,
    portrait,
    region_priors,
    smoothed,
)
from whereish.traces import KINDS, cache_folder, check_zone
from whereish.units import km, length_km

_FILES_TOLD = 5
_POOR = 0.8


@command
def profile(
    context: typer.Context,
    traces: Annotated[
        Path,
        typer.Argument(
            metavar="TRACES", help="A file or folder of one of: " + ", ".join(KINDS) + "."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o",
            help=".csv, .json, .parquet or .geojson; of a group, a new folder or .parquet.",
        ),
    ],
    places: Annotated[int, typer.Option(help="How many places.")] = 50,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of hours and periods, like Europe/Paris.")
    ] = None,
    period: Annotated[
        str, typer.Option(help="One of " + ", ".join(PERIODS) + "; or hours like 22-6.")
    ] = ALL_DAY,
    window: Annotated[
        int | None,
        typer.Option(help="Only the days in a row with most traces. Of a group: 90; 0 is all."),
    ] = None,
    area: Annotated[
        str | None, typer.Option(help="SOUTH,WEST,NORTH,EAST in degrees, if not found out.")
    ] = None,
    radius: Annotated[str, typer.Option(help="How far an area that is found out reaches.")] = (
        f"{RADIUS_KM:g}km"
    ),
    cell: Annotated[
        str | None, typer.Option(help="Size of square cells: 500m, or 658m x 712m.")
    ] = None,
    h3: Annotated[
        int | None, typer.Option("--h3", help="Hexagons of this resolution instead (extra h3).")
    ] = None,
    districts: Annotated[
        Path | None, typer.Option(help="GeoJSON of regions of any shape instead.")
    ] = None,
    smooth: Annotated[
        float, typer.Option(help="Share of the prior to spread over places nearby, like 0.05.")
    ] = 0.0,
    user: Annotated[
        str | None, typer.Option(help="Take only this person of the traces.")
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            help="hours: a region in an hour once. points: each row once, as where there are no "
            "times."
        ),
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(help="Count at the places of this profile, instead of choosing places."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="users: a profile of everybody, on the same places.")
    ] = None,
    own_places: Annotated[
        bool, typer.Option("--own-places", help="Of a group: everybody's own places.")
    ] = False,
    at_least: Annotated[
        int | None, typer.Option(help="Of a group: points one needs in every period; 20.")
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Of a group: how many regions of each count for the score; 30."),
    ] = None,
    one_person: Annotated[
        bool, typer.Option("--one-person", help="All of it is yours, whoever it names.")
    ] = False,
    kind: Annotated[str | None, typer.Option(help="What TRACES are, if not found out.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Names of columns: time=when,lat=y,lon=x,user=who.")
    ] = None,
    clock: Annotated[
        str | None, typer.Option(help="Time zone of times in the files that do not say theirs.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse traces with bad rows.")] = False,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep nothing for the next time.")
    ] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a profile, places with a prior, from traces of where somebody was.

    Says how much of the time it covers. What is counted is kept for the next time, in files that
    only you may read (whereish forget deletes them).
    """
    hours = _period(period)
    if group not in (None, "users"):
        raise InputError(f"group must be users, got {group!r}")
    if zone is None and (hours != PERIODS[ALL_DAY] or (group and count != "points")):
        more = "; points without times need --count points" if group else ""
        raise InputError(
            f"periods of the day need a time zone: --zone Europe/Paris, for instance{more}"
        )
    if count not in (None, *COUNTS):
        raise InputError(f"count must be one of {', '.join(COUNTS)}, got {count!r}")
    _check_on(on, given_flags(context))
    for_groups = {"own-places": own_places or None, "at-least": at_least, "top": top}
    for name, value in for_groups.items():
        if value is not None and group is None:
            raise InputError(f"--{name} goes with --group users")
    if one_person and (group or user):
        raise InputError("--one-person goes neither with --group nor with --user")
    if as_whole("places", places, 2) > MOST_PLACES:
        raise InputError(f"places must be at most {MOST_PLACES:,}, got {places:,}")
    as_whole("top", 30 if top is None else top)
    zone = check_zone(zone or "UTC")
    known = None if on is None else wh.read_profile(on)
    check_smooth(smooth)
    if group is None:
        check_profile_file(output)
    else:
        check_profiles_target(output)
    regions, cell_km = _regions(area, cell, h3, districts)
    reach_km = length_km(radius, "radius")
    found = wh.open_traces(
        traces, kind, columns=_columns(columns), zone=clock, strict=strict,
        users=None if user is None else [user],
    )  # fmt: skip
    if output.resolve() in {file.resolve() for file in found.files}:
        raise InputError(f"output must not be one of the traces, got {output}")
    if on is not None and output.exists() and output.samefile(on):
        raise InputError(f"output must not be the profile itself, got {output} for both")
    points = count == "points" or not found.timed
    if points and window:
        raise InputError("--window must be left out where points are counted, which have no times")
    if one_person or (group is None and user is None and not found.tells_people):
        found = replace(found, person="me")
    cache = None if no_cache else cache_folder()
    with _Reading(found) as reading:
        if group is None:
            made = wh.personal_profile(
                found, places, zone=zone, period=hours, window_days=window or None,
                regions=regions, cell_km=cell_km, radius_km=reach_km, smooth=smooth,
                count=count, on=known, progress=reading, cache=cache,
            )  # fmt: skip
            reading.done(made.funnel)
        else:
            if regions is None:
                size = cell_km or PAPER_CELL_KM
                regions = area_cells(
                    found, size, reach_km, zone, count=count, progress=reading, cache=cache
                )
            visits = wh.count_visits(
                found, regions, zone, count=count, progress=reading, cache=cache
            )
            if h3 is not None:
                tiles = wh.count_visits(
                    found, DegreeTiles(), zone, count=count, progress=reading, cache=cache
                )
                visits = nearby(visits, find_middle(tiles, reach_km), reach_km)
            reading.done(visits.funnel)
    if group is None:
        facts = _say_person(made, on is not None)
        wh.write_profile(output, made.profile)
    else:
        window_days = (90 if window is None and not points else window) or None
        periods = {ALL_DAY: PERIODS[ALL_DAY]} if points else PERIODS
        least = 20 if at_least is None else at_least
        if own_places:
            everybody, steps = _own(visits, places, hours, window_days, least, smooth, periods)
        else:
            cohort = wh.paper_profiles(
                visits, window_days=window_days, at_least=least, top=top or 30, places=places,
                periods=periods,
            )  # fmt: skip
            everybody, steps = _shared(cohort, hours, smooth)
        facts = _say_group(everybody, steps)
        wh.write_profiles(output, everybody)
    say(f"Wrote {output} (readable by you only).")
    if group is None:
        say(
            f"Next: whereish build {output} --ratio 2 --within 500m -o k.whereish "
            "--picture picture.png"
        )
    if as_json:
        emit({**facts, "rows": reading.facts, "output": str(output)})


class _Reading:
    """Shows how far the reading of traces has come, and says at the end what was read."""

    def __init__(self, traces: wh.Traces) -> None:
        self._kind, self._left_out = traces.kind, traces.left_out
        self._bar = ExitStack()
        self._tell: Callable[..., None] | None = None
        self._start = time.perf_counter()
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def __call__(self, done: int, files: int, rows: int) -> None:
        if self._tell is None:
            # Only now: what was kept from an earlier run needs no bar.
            self._tell = self._bar.enter_context(
                waiting(f"reading {files:,} {self._kind} file{'s' * (files != 1)}")
            )
        rate = rows / max(time.perf_counter() - self._start, 1e-9)
        self._tell(f"{done:,} files, {rows:,} rows, {rate:,.0f} rows a second", done / files)

    def done(self, funnel: wh.Funnel) -> None:
        """Say what was read and what was dropped; by file and line, never by what it says."""
        self._bar.close()
        seconds = time.perf_counter() - self._start
        took = f" in {seconds:.1f} s" if self._tell else " (kept from an earlier run)"
        files = f"{funnel.files:,} {self._kind} file{'s' * (funnel.files != 1)}"
        say(f"Read {funnel.rows:,} rows from {files}{took}.")
        for kind, count in self._left_out.items():
            say(f"Left out {count:,} {kind} file{'s' * (count != 1)}: --kind {kind} reads those.")
        kinds = {
            "unreadable": "not numbers and a time",
            "impossible": "with impossible coordinates",
            "untimely": "with impossible times",
        }
        told = [f"{getattr(funnel, n):,} {w}" for n, w in kinds.items() if getattr(funnel, n)]
        if told:
            say(f"Dropped {funnel.dropped:,} rows: {', '.join(told)}.")
            for file, line, why in funnel.where:
                say(f"  {file}, line {line}: {why}")
        for file, reason in funnel.broken[:_FILES_TOLD]:
            say(f"  {file} cannot be read, or not all of it ({reason})")
        if len(funnel.broken) > _FILES_TOLD:
            say(f"  and {len(funnel.broken) - _FILES_TOLD:,} more files")
        self.facts = {**asdict(funnel), "dropped": funnel.dropped, "seconds": seconds}


def _say_person(made: Portrait, on_places: bool) -> dict[str, Any]:
    where = made.profile.places
    size = ""
    if where.cell_km is not None:
        size = f", cells of {km(where.cell_km[0])} x {km(where.cell_km[1])}"
    if made.counted == "points":
        say(f"{made.points:,} points, each row once, whatever its time. Where rows have times, "
            "--columns time=NAME names them, and hours are counted.")  # fmt: skip
        what = "the points are"
    else:
        say(f"{made.points:,} points (a region and an hour once) in {made.hours:,} hours of "
            f"{made.days:,} days.")  # fmt: skip
        what = "the recorded time was spent"
    if on_places:
        say(
            f"{len(where)} places of the profile given: {made.at_places:.0%} of {what} there. "
            f"{made.elsewhere:,} points elsewhere are left out."
        )
    else:
        say(
            f"{len(where)} places{size}: {made.at_places:.0%} of {what} there, "
            f"{made.in_area:.0%} in the area around."
        )
    if made.visited < len(where):
        how = "have no point" if on_places else "lie around those visited, to hide among"
        say(f"{len(where) - made.visited} of them {how}.")
    if made.at_places < _POOR * made.in_area:
        say("More of it would be covered by more --places, or a larger --cell.")
    if made.in_area < _POOR and not on_places:
        say("The rest was elsewhere: --area or --radius takes in more, or another place.")
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


def _check_on(on: Path | None, flags: dict[str, Any]) -> None:
    """Refuse flags that choose places beside a profile that has them."""
    if on is None:
        return
    for name in ("places", "area", "radius", "cell", "h3", "districts", "group"):
        if name in flags:
            raise InputError(f"--{name} must be left out with --on: the profile has its places")


def _say_group(everybody: dict[str, wh.Profile], steps: tuple[Step, ...]) -> dict[str, Any]:
    for step in steps:
        say(f"{step.users:>8,} people {step.points:>12,} points  {step.name}")
    count = len(next(iter(everybody.values())).places)
    say(f"{len(everybody):,} profiles of {count} places.")
    return {
        "users": len(everybody),
        "places": count,
        "steps": [asdict(step) for step in steps],
    }


def _shared(
    cohort: wh.Cohort, hours: tuple[int, int], smooth: float
) -> tuple[dict[str, wh.Profile], tuple[Step, ...]]:
    """Return everybody's prior on the same places, in a period of the day."""
    now = _during(cohort.visits, hours)
    priors = region_priors(now, cohort.ids, {"asked": hours})
    shapes = None
    if cohort.places.cell_km is None:
        shapes = tuple(now.regions.shapes(cohort.ids))
    made = {
        user: wh.Profile(cohort.places, smoothed(found["asked"], cohort.places, smooth), shapes)
        for user, found in priors.items()
    }
    return made, now.steps


def _during(visits: Visits, hours: tuple[int, int]) -> Visits:
    """Keep what is in the period that was asked for, and whoever has anything there."""
    if hours == PERIODS[ALL_DAY]:
        return visits
    now = visits.then(f"from {hours[0]} to {hours[1]} o'clock", visits.during(hours))
    if not now.users:
        raise InputError(
            f"nobody who is left has a point from {hours[0]} to {hours[1]} o'clock: choose "
            "another period"
        )
    return now


def _own(
    visits: Visits, places: int, hours: tuple[int, int], window_days: int | None, at_least: int,
    smooth: float, periods: Mapping[str, tuple[int, int]],
) -> tuple[dict[str, wh.Profile], tuple[Step, ...]]:  # fmt: skip
    """Return everybody's own places and prior."""
    now = visits if window_days is None else busiest_window(visits, window_days)
    now = enough_points(inside(now), at_least, periods)
    if not now.users:
        raise InputError(f"nobody has {at_least} points in the area in every period")
    now = _during(now, hours)
    made = {user: portrait(now, user, places, smooth=smooth).profile for user in now.users}
    return made, now.steps


def _period(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if dash and first.strip().isdecimal() and last.strip().isdecimal():
        return as_period((int(first), int(last)))
    return as_period(text)


def _columns(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(mark and name.strip() and value.strip() for name, mark, value in pairs):
        raise InputError(f"columns must be like time=when,lat=y,lon=x, got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _regions(
    area: str | None, cell: str | None, h3: int | None, districts: Path | None
) -> tuple[Regions | None, tuple[float, float] | None]:
    """Return the regions that were asked for, if any, and the size of square ones."""
    if sum(asked is not None for asked in (h3, districts, cell)) > 1:
        raise InputError("regions are of one kind: --cell, --h3 or --districts")
    if area is not None and (h3 is not None or districts is not None):
        raise InputError("--area goes with square cells; --radius limits --h3")
    sizes = None if cell is None else [length_km(part, "cell") for part in cell.split("x")]
    if sizes is not None and len(sizes) > 2:
        raise InputError(f"cell must be like 500m or 658m x 712m, got {cell!r}")
    cell_km = None if sizes is None else as_cell_km((sizes[0], sizes[-1]))
    if h3 is not None:
        return wh.H3Cells(h3), None
    if districts is not None:
        return wh.Districts.read(districts), None
    if area is None:
        return None, cell_km
    try:
        south, west, north, east = (float(part) for part in area.split(","))
    except ValueError:
        raise InputError(f"area must be SOUTH,WEST,NORTH,EAST in degrees, got {area!r}") from None
    return wh.SquareCells.over(south, west, north, east, cell_km or PAPER_CELL_KM), cell_km
