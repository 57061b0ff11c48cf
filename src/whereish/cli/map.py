"""``whereish map``: an OpenStreetMap extract as a small map under one's own data."""

from __future__ import annotations

from pathlib import Path

from whereish.cli.console import Facts, command, say, waiting
from whereish.cli.options import AS_JSON, argument, option, output_option
from whereish.cli.reading import read_who
from whereish.errors import InputError
from whereish.everywhere import Everywhere
from whereish.files import check_writable
from whereish.format import is_mechanism_file, load_mechanism
from whereish.maps import (
    ATTRIBUTION,
    LARGEST_BYTES,
    Area,
    Kept,
    area_around,
    parse_area,
    read_extract,
    reduce_map,
    write_map,
)
from whereish.places import as_number
from whereish.units import km, length_km

_AREA = "The area"


@command
def map_(
    extract: Path = argument("EXTRACT", "An OpenStreetMap extract: .osm.pbf."),
    output: Path = output_option("The map to write: .geojson."),
    area: str | None = option(
        None, "In degrees: south,west,north,east. If not given: all of it.", _AREA, "DEGREES"
    ),
    around: Path | None = option(
        None, "The area around a profile, or around a mechanism.", _AREA, "FILE"
    ),
    margin: str | None = option(
        None, "With --around: this much on every side (a fifth of it).", _AREA, "LENGTH"
    ),
    size: float = option(LARGEST_BYTES / 1e6, "At most so large.", "Output", "MB"),
    as_json: bool = AS_JSON,
) -> Facts:
    """Make a map of an area from an OpenStreetMap extract.

    The page, the extension and pictures draw it under your own data. No coordinate is printed.
    """
    if output.suffix.lower() not in (".geojson", ".json"):
        raise InputError(f"output must end in .geojson or .json, got {output.name}")
    if area is not None and around is not None:
        raise InputError("give --area or --around, not both")
    if margin is not None and around is None:
        raise InputError("--margin must go with --around")
    as_number("size", size, unit="MB")
    wanted = None if area is None else parse_area(area)
    if around is not None:
        wanted = area_of_file(around, None if margin is None else length_km(margin, "margin"))
    check_writable(output)
    if output.exists() and extract.exists() and output.samefile(extract):
        raise InputError(f"output must not be the extract itself, got {output} for both")
    with waiting(f"reading {extract.name}") as tell:
        found = read_extract(extract, wanted, lambda news: tell(news))
        tell("simplifying")
        made, kept = reduce_map(found, round(size * 1e6))
    write_map(output, made)
    _say(kept, found.area, made.size, output)
    width, height = found.area.size_km
    return {
        "output": str(output),
        "bytes": made.size,
        "width_km": round(width, 1),
        "height_km": round(height, 1),
        "tolerance_m": kept.tolerance_m,
        "points": {f"{kind}/{name}": points for (kind, name), points in kept.points.items()},
        "left_out": ["/".join(kind) for kind in kept.left_out],
        "names": kept.names,
        "attribution": ATTRIBUTION,
    }


def area_of_file(file: Path, margin_km: float | None) -> Area:
    """Return the area around the places of a profile or of a mechanism."""
    if not file.exists():
        raise InputError(f"around must be a file that exists, got {file}")
    if is_mechanism_file(file):
        mechanism, _ = load_mechanism(file)
        places = mechanism.outputs if isinstance(mechanism, Everywhere) else mechanism.inputs
    else:
        places = read_who(file).places
    return area_around(places, margin_km)


def _say(kept: Kept, area: Area, size: int, output: Path) -> None:
    width, height = area.size_km
    kinds = sorted({kind for kind, _ in kept.points})
    points = sum(kept.points.values())
    say(
        f"An area of {km(width)} x {km(height)}: {', '.join(kinds) or 'no lines'} with "
        f"{points:,} points, and {kept.names:,} names; shapes are simplified to "
        f"{kept.tolerance_m:g} m"
    )
    if kept.left_out:
        left = ", ".join(f"{kind} ({name})" for kind, name in kept.left_out)
        say(f"Left out, so that it fits: {left}. A smaller area or a larger --size keeps them.")
    if kept.broken_coast:
        say("The coastline is not closed inside the area: no sea is drawn.")
    say(
        f"Wrote {output} ({size / 1e6:.2f} MB). {ATTRIBUTION}: show this wherever you show the map."
    )
