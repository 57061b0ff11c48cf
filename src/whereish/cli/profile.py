"""``whereish profile``: places with a prior, from traces of where somebody was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import whereish as wh
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
        Path,
        typer.Argument(metavar="TRACES", help="A file or folder of traces; --kind lists formats."),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o",
            help=".csv, .json, .parquet or .geojson; of a group, a new folder or .parquet.",
        ),
    ],
    places: Annotated[int, typer.Option(help="How many.", rich_help_panel=_PLACES)] = PLACES,
    cell: Annotated[
        str | None,
        typer.Option(
            help="Size of square cells: 500m, or 658m x 712m.", rich_help_panel=_PLACES
        ),
    ] = None,
    radius: Annotated[
        str,
        typer.Option(help="How far the area reaches from its middle.", rich_help_panel=_PLACES),
    ] = f"{RADIUS_KM:g}km",
    area: Annotated[
        str | None,
        typer.Option(
            help="The area, instead of where the traces are: SOUTH,WEST,NORTH,EAST in degrees.",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    h3: Annotated[
        int | None,
        typer.Option(
            "--h3", help="Hexagons of this resolution instead (extra h3).",
            rich_help_panel=_PLACES,
        ),
    ] = None,
    districts: Annotated[
        Path | None,
        typer.Option(help="GeoJSON of regions of any shape instead.", rich_help_panel=_PLACES),
    ] = None,
    on: Annotated[
        Path | None,
        typer.Option(help="The places of this profile instead.", rich_help_panel=_PLACES),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            help="Time zone of hours and periods, like Europe/Paris.", rich_help_panel=_COUNTS
        ),
    ] = None,
    period: Annotated[
        str,
        typer.Option(
            help="One of " + ", ".join(PERIODS) + "; or hours like 22-6.",
            rich_help_panel=_COUNTS,
        ),
    ] = ALL_DAY,
    window: Annotated[
        int | None,
        typer.Option(
            help="Only so many days in a row, those with most traces. Of a group: 90; 0 is all.",
            rich_help_panel=_COUNTS,
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            help="hours: a region in an hour once. points: each row once.",
            rich_help_panel=_COUNTS,
        ),
    ] = None,
    smooth: Annotated[
        float,
        typer.Option(
            help="Share of the prior to spread over places nearby, like 0.05.",
            rich_help_panel=_COUNTS,
        ),
    ] = 0.0,
    user: Annotated[
        str | None,
        typer.Option(help="Only this person of the traces.", rich_help_panel=_MANY),
    ] = None,
    one_person: Annotated[
        bool,
        typer.Option(
            "--merge-users", "--one-person",
            help="All users of the traces are one person, you.", rich_help_panel=_MANY,
        ),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            help="users: a profile for each, on the same places.", rich_help_panel=_MANY
        ),
    ] = None,
    own_places: Annotated[
        bool,
        typer.Option(
            "--own-places", help="Of a group: each person's own places.", rich_help_panel=_MANY
        ),
    ] = False,
    at_least: Annotated[
        int | None,
        typer.Option(
            help="Of a group: points that a person needs in every period; 20.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Of a group: how many regions of each person count for the score; 30.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="The format, if not found out: " + ", ".join(KINDS) + ".",
            autocompletion=lambda: list(KINDS), rich_help_panel=_FILES,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names of columns: time=when,lat=y,lon=x,user=who.", rich_help_panel=_FILES
        ),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            help="Time zone of times that do not say theirs.", rich_help_panel=_FILES
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse bad rows.", rich_help_panel=_FILES)
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Keep nothing for the next time.", rich_help_panel=_FILES
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Make a profile, places with a prior, from traces of where somebody was.

    Says how much of the time it covers. The counts are kept for the next time, in files that
    only you may read (whereish forget deletes them).
    """
    many = Group.of(group, own_places, at_least, top)
    when = Counting.of(zone, period, window, count, group is not None)
    check_on(on, given_flags(context))
    if one_person and (many or user):
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
    if one_person or (many is None and user is None and not found.tells_people):
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
