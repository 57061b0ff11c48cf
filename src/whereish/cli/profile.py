"""``whereish profile``: places with a prior, from traces of where somebody was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import whereish as wh
from whereish.cli.completion import one_of
from whereish.cli.console import command, emit, say
from whereish.cli.options import AsJson, given_flags
from whereish.cli.profile_groups import group_profiles, group_visits
from whereish.cli.profile_options import (
    Area,
    Counting,
    Group,
    check_on,
    check_places,
    column_names_of,
)
from whereish.cli.profile_words import Reading, say_group, say_person
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
    "Which places", "What is counted", "Many people", "How TRACES are read",
)  # fmt: skip


@command
def profile(
    context: typer.Context,
    traces: Annotated[
        Path, typer.Argument(metavar="TRACES", help="A file or a folder of location traces.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o",
            help=".csv, .json, .parquet, .geojson; group: folder, .parquet.",
            rich_help_panel="Output",
        ),
    ],
    places: Annotated[int, typer.Option(help="How many places.", rich_help_panel=_PLACES)] = PLACES,
    cell: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Size of square cells: 500m, or 658m x 712m.",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    radius: Annotated[
        str,
        typer.Option(
            metavar="LENGTH", help="Radius of the area around its middle.",
            rich_help_panel=_PLACES,
        ),
    ] = f"{RADIUS_KM:g}km",
    area: Annotated[
        str | None,
        typer.Option(
            metavar="BOX", help="The area: SOUTH,WEST,NORTH,EAST in degrees.",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    h3: Annotated[
        int | None,
        typer.Option(
            "--h3", help="H3 hexagons of this resolution instead (extra h3).",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    districts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="GeoJSON regions of any shape instead.",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(
            metavar="PROFILE", help="The places of this profile instead.",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Time zone of hours and periods, like Europe/Paris.",
            rich_help_panel=_COUNTS,
        ),
    ] = None,
    period: Annotated[
        str,
        typer.Option(
            metavar="PERIOD", help=", ".join(PERIODS) + ", or hours like 22-6.",
            autocompletion=one_of(PERIODS), show_default=False, rich_help_panel=_COUNTS,
        ),
    ] = ALL_DAY,
    window: Annotated[
        int | None,
        typer.Option(
            help="Only the N days in a row with most traces (group: 90).",
            rich_help_panel=_COUNTS,
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT", help="hours: once per region and hour. points: each row.",
            autocompletion=one_of(COUNTS), rich_help_panel=_COUNTS,
        ),
    ] = None,
    smooth: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Spread this share over places nearby.",
            rich_help_panel=_COUNTS,
        ),
    ] = 0.0,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this person.", rich_help_panel=_MANY),
    ] = None,
    merge_users: Annotated[
        bool,
        typer.Option(
            "--merge-users", help="Treat all users of the traces as one person.",
            rich_help_panel=_MANY,
        ),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="users", help="A profile for each user, on the same places.",
            autocompletion=one_of(("users",)), rich_help_panel=_MANY,
        ),
    ] = None,
    own_places: Annotated[
        bool,
        typer.Option(
            "--own-places", help="In a group: choose places for each person.",
            rich_help_panel=_MANY,
        ),
    ] = False,
    at_least: Annotated[
        int | None,
        typer.Option(
            help="In a group: points needed in every period (20).", rich_help_panel=_MANY
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="In a group: regions of each person that score (30).", rich_help_panel=_MANY
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Format of TRACES, if not found: " + ", ".join(KINDS) + ".",
            autocompletion=one_of(KINDS), rich_help_panel=_FILES,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Names of columns: time=when,lat=y,lon=x,user=who.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Time zone of times that do not say theirs.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse bad rows.", rich_help_panel=_FILES)
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Keep no counts for the next time.", rich_help_panel=_FILES
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a profile (places with a prior) from location traces."""
    many = Group.of(group, own_places, at_least, top)
    when = Counting.of(zone, period, window, count, group is not None)
    check_on(on, given_flags(context))
    if merge_users and (many or user):
        raise InputError("--merge-users goes neither with --group nor with --user")
    check_places(places, smooth)
    known = None if on is None else wh.read_profile(on)
    if many is None:
        check_profile_file(output)
    else:
        check_profiles_target(output)
    where = Area.of(area, radius, cell, h3, districts)
    found = wh.open_traces(
        traces, kind, columns=column_names_of(columns), zone=clock, strict=strict,
        users=None if user is None else [user],
    )  # fmt: skip
    _check_output(output, found, on)
    if window and (count == "points" or not found.timed):
        raise InputError("--window must be left out where points are counted, which have no times")
    if merge_users or (many is None and user is None and not found.tells_people):
        found = replace(found, person="me")
    found = hold(found, timed=count != "points")
    facts: dict[str, Any]
    with Reading(found) as reading:
        how: CountOptions = {
            "zone": when.zone, "count": count, "progress": reading,
            "cache": None if no_cache else cache_folder(),
        }  # fmt: skip
        if many is None:
            made = wh.personal_profile(
                found, places, period=when.hours, window_days=window or None,
                regions=where.regions, cell_km=where.cell_km, radius_km=where.radius_km,
                smooth=smooth, on=known, **how,
            )  # fmt: skip
            reading.done(made.funnel)
        else:
            visits = group_visits(found, where, how)
            reading.done(visits.funnel)
    if many is None:
        facts = say_person(made, on is not None)
        wh.write_profile(output, made.profile)
    else:
        everybody, steps = group_profiles(visits, places, smooth, when, many)
        facts = say_group(everybody, steps)
        wh.write_profiles(output, everybody)
    say(f"Wrote {output} (readable by you only).")
    if many is None:
        say(f"Next: whereish build {output} --ratio 2 --within 500m -o k.whereish "
            "--picture picture.png")  # fmt: skip
    if as_json:
        emit({**facts, "rows": reading.facts, "output": str(output)})


def _check_output(output: Path, traces: wh.Traces, on: Path | None) -> None:
    """Refuse to write over what is read."""
    if output.resolve() in {file.resolve() for file in traces.files}:
        raise InputError(f"output must not be one of the traces, got {output}")
    if on is not None and output.exists() and output.samefile(on):
        raise InputError(f"output must not be the profile itself, got {output} for both")
