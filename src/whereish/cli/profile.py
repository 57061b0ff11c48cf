"""``whereish profile``: places with a prior, from traces of where somebody was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

import whereish as wh
from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON, argument, flag, given_flags, option, output_option
from whereish.cli.profile_groups import group_profiles, group_visits, with_points
from whereish.cli.profile_model import write_model
from whereish.cli.profile_options import Area, Counting, Group, check_on, check_places, columns_of
from whereish.cli.profile_words import Reading, say_group, say_periods, say_person, say_visited
from whereish.errors import InputError
from whereish.profiles import (
    ALL_DAY,
    COUNTS,
    PERIODS,
    PLACES,
    RADIUS_KM,
    check_profile_file,
    check_profiles_target,
)
from whereish.profiles.visits import CountOptions
from whereish.traces import KINDS, cache_folder, hold

_PLACES, _COUNTS, _MANY, _FILES = (
    "Which places", "What is counted", "Many people", "Arguments",
)  # fmt: skip
_PERIOD = f"{', '.join(PERIODS)}, or 22-6."
_POINTS = "--points/--no-points"


@command
def profile(
    context: typer.Context,
    traces: Path = argument("TRACES", "A file or a folder of location traces."),
    output: Path = output_option(
        ".csv, .json, .parquet, .geojson, folder.", "PATH", panel="Arguments"
    ),
    places: int = option(PLACES, "How many places.", _PLACES),
    cell: str | None = option(None, "Size of square cells: 500m, or 658m x 712m.", _PLACES, "SIZE"),
    radius: str = option(
        f"{RADIUS_KM:g}km", "Radius of the area around its middle.", _PLACES, "LENGTH"
    ),
    area: str | None = option(None, "The area: SOUTH,WEST,NORTH,EAST in degrees.", _PLACES, "BOX"),
    h3: int | None = option(
        None, "H3 hexagons of this resolution instead (extra h3).", _PLACES, None, "--h3"
    ),
    districts: Path | None = option(None, "GeoJSON regions of any shape instead.", _PLACES, "FILE"),
    on: Path | None = option(None, "The places of this profile instead.", _PLACES, "PROFILE"),
    zone: str | None = option(
        None, "Time zone of hours and periods, like Europe/Paris.", _COUNTS, "ZONE"
    ),
    period: str = option(ALL_DAY, _PERIOD, _COUNTS, "PERIOD", choices=PERIODS, show_default=False),
    by_time: str | None = option(
        None, "Priors by period, too: 0,7,18 begins three.", _COUNTS, "HOURS"
    ),
    window: int | None = option(None, "The N days in a row with most traces (group: 90).", _COUNTS),
    count: str | None = option(
        None, "hours: once per region and hour. points: each row.", _COUNTS, "WHAT", choices=COUNTS
    ),
    smooth: float = option(0.0, "Spread this share over places nearby.", _COUNTS, "SHARE"),
    points: bool | None = option(
        None, "Keep visited points, homes among them (group: no).", _COUNTS, None, _POINTS
    ),
    model: Path | None = option(
        None, "Add a movement model, from other people's traces.", _COUNTS, "OTHERS"
    ),
    user: str | None = option(None, "Only this person.", _MANY, "NAME"),
    merge_users: bool = flag(
        "--merge-users", "Treat all users of the traces as one person.", _MANY
    ),
    group: str | None = option(
        None, "A profile for each user, on the same places.", _MANY, "users", choices=["users"]
    ),
    own_places: bool = flag("--own-places", "In a group: choose places for each person.", _MANY),
    at_least: int | None = option(None, "In a group: points needed in every period (20).", _MANY),
    top: int | None = option(None, "In a group: regions of each person that score (30).", _MANY),
    kind: str | None = option(None, "{names}.", _FILES, "FORMAT", choices=KINDS),
    columns: str | None = option(
        None, "Names of columns: time=when,lat=y,lon=x,user=who.", _FILES, "NAMES"
    ),
    clock: str | None = option(None, "Time zone of times that do not say theirs.", _FILES, "ZONE"),
    strict: bool = flag("--strict", "Refuse bad rows.", _FILES),
    no_cache: bool = flag("--no-cache", "Keep no counts for the next time.", _FILES),
    as_json: bool = AS_JSON,
) -> Facts:
    """Make a profile (places with a prior) from location traces."""
    many = Group.of(group, own_places, at_least, top)
    when = Counting.of(zone, period, window, count, group is not None, by_time)
    check_on(on, given_flags(context))
    if merge_users and (many or user):
        raise InputError("--merge-users goes neither with --group nor with --user")
    check_places(places, smooth)
    if model is not None and many is not None:
        raise InputError("--model goes with the profile of one person, not with --group")
    if model is not None and not model.exists():  # before anything is written
        raise InputError(f"model must be a file or folder of traces that exists, got {model}")
    known = None if on is None else wh.read_profile(on)
    if many is None:
        check_profile_file(output)
    else:
        check_profiles_target(output)
    where = Area.of(area, radius, cell, h3, districts)
    found = wh.open_traces(
        traces, kind, columns=columns_of(columns), zone=clock, strict=strict,
        users=None if user is None else [user],
    )  # fmt: skip
    _check_output(output, found, on)
    if window and (count == "points" or not found.timed):
        raise InputError("--window must be left out where points are counted, which have no times")
    if merge_users or (many is None and user is None and not found.tells_people):
        found = replace(found, person="me")
    found = hold(found, timed=count != "points")
    with Reading(found) as reading:
        how: CountOptions = {
            "zone": when.zone, "count": count, "progress": reading,
            "cache": None if no_cache else cache_folder(),
        }  # fmt: skip
        if many is None:
            made = wh.personal_profile(
                found, places, period=when.hours, window_days=window or None,
                regions=where.regions, cell_km=where.cell_km, radius_km=where.radius_km,
                smooth=smooth, on=known, points=points is not False, hours=when.by_time, **how,
            )  # fmt: skip
            reading.done(made.funnel)
            facts = say_person(made, on is not None)
            facts["visited_points"] = say_visited([made.profile])
            facts["by_time"] = say_periods(made.profile)
            wh.write_profile(output, made.profile)
            if model is not None:
                facts["model"] = str(
                    write_model(output, made, model, when.zone, named=user is not None)
                )
        else:
            visits = group_visits(found, where, how)
            reading.done(visits.funnel)
            everybody, steps = group_profiles(visits, places, smooth, when, many)
            facts = say_group(everybody, steps)
            if points:
                everybody = with_points(everybody, found, visits, where, when, many, how)
            facts["visited_points"] = say_visited(list(everybody.values()))
            wh.write_profiles(output, everybody)
    say(f"Wrote {output} (readable by you only).")
    if many is None:
        more = "--picture picture.png" if by_time is None else "--by-time"
        say(f"Next: whereish build {output} --ratio 2 --within 500m -o k.whereish {more}")
    return {**facts, "rows": reading.facts, "output": str(output)}


def _check_output(output: Path, traces: wh.Traces, on: Path | None) -> None:
    """Refuse to write over what is read."""
    if output.resolve() in {file.resolve() for file in traces.files}:
        raise InputError(f"output must not be one of the traces, got {output}")
    if on is not None and output.exists() and output.samefile(on):
        raise InputError(f"output must not be the profile itself, got {output} for both")
