"""Read profiles from files: a table of places with a prior, or GeoJSON regions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whereish.compressed import unpacked_size
from whereish.errors import FormatError, InputError, column_names, described
from whereish.lazy import pl
from whereish.limits import MOST_PLACES
from whereish.parquet import check_parquet, reading_parquet
from whereish.places import Array, Places, normalised
from whereish.profiles.profile import Profile, VisitedPoints
from whereish.profiles.regions import crosses_date_line
from whereish.profiles.time_columns import HOUR_OF, ZONE, read_time_prior
from whereish.profiles.time_prior import TimeDependentPrior

SUFFIXES = ".csv, .json, .geojson or .parquet"
CELL_COLUMNS = ("width_km", "height_km")
_COORDINATES = (("x_km", "y_km"), ("lat", "lon"))
VISITED = "visited"
NEEDED = frozenset(
    ("user", "x_km", "y_km", "lat", "lon", "prior", VISITED, ZONE, *CELL_COLUMNS, *HOUR_OF)
)


def read_profile(path: str | Path, *, normalise: bool = False, user: str | None = None) -> Profile:
    """Read places and a prior.

    A CSV, JSON or Parquet table needs the columns ``x_km, y_km, prior`` or ``lat, lon, prior``;
    where the places are cells, ``width_km`` and ``height_km`` say how large. ``visited`` holds the
    visited points near each place, like ``48.8501 2.3502 0.25; 48.8510 2.3511 0.05``: coordinates
    as those of the places, then the weight. ``prior_00h, prior_07h, ...`` and ``time_zone`` hold
    a prior for each period of the day (`TimeDependentPrior.joint`). Other columns are ignored. JSON
    may be a list of records or a mapping of columns. In GeoJSON every feature is a region of any
    shape with a property ``prior``; its place is a representative point inside.

    Parameters
    ----------
    normalise
        Divide the prior by its sum: for tables of counts.
    user
        Whose, of a table that holds the profiles of several people in a column ``user``.

    Raises
    ------
    InputError, FormatError
        With the file, the row (counted from 1, below any heading) and the field that are wrong.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"profile must be the name of a file, got {described(path)}")
    file = Path(path)
    try:
        exists = file.is_file()
    except (OSError, ValueError):
        raise InputError("profile must be the name of a file that exists") from None
    if not exists:
        raise InputError(f"profile must be a file that exists, got {file}")
    try:
        if file.stat().st_size == 0:
            raise FormatError("the file is empty")
        kind = file.suffix.lower()
        if kind in (".csv", ".tsv", ".txt"):
            columns = _csv_columns(file, "\t" if kind == ".tsv" else ",")
            return from_columns(columns, normalise, user)
        if kind in (".parquet", ".pq"):
            return from_columns(_parquet_columns(file, user), normalise)
        if kind in (".json", ".geojson"):
            return _from_json(_load_json(file), normalise, user)
        raise FormatError(f"the name must end in {SUFFIXES}")
    except InputError as wrong:
        kind_of_error = FormatError if isinstance(wrong, FormatError) else InputError
        raise kind_of_error(f"profile {file}: {one_line(wrong)}") from wrong
    except OSError as wrong:
        raise InputError(f"profile {file} cannot be read: {wrong.strerror}") from wrong


def _csv_columns(file: Path, separator: str) -> dict[str, list[Any]]:
    try:
        unpacked_size(file)
        table = pl.read_csv(file.read_bytes(), separator=separator, infer_schema=False)
    except pl.exceptions.NoDataError:
        raise FormatError("the file is empty") from None
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as wrong:
        raise FormatError(f"not a table ({type(wrong).__name__})") from None
    names = [name.strip() for name in table.columns]
    if len(set(names)) < len(names):
        raise FormatError(f"the columns must have different names, got {column_names(names)}")
    return dict(zip(names, (column.to_list() for column in table.get_columns()), strict=True))


def _parquet_columns(file: Path, user: str | None) -> dict[str, list[Any]]:
    """Read what is needed of a Parquet table: these columns, and the rows of one person."""
    with reading_parquet():
        table = pl.scan_parquet(file, glob=False)
        names = table.collect_schema().names()
        coordinate_columns(names)
        needed = [name for name in names if name in NEEDED]
        check_parquet(file, needed)
        table = table.select(needed)
        if user is not None or "user" in needed:
            people = pl.col("user").cast(pl.String).fill_null("None")
            known = table.select(people.unique(maintain_order=True)) if "user" in needed else None
            whose = _whose([] if known is None else known.collect()["user"].to_list(), user)
            table = table.filter(people == whose).drop("user")
        frame = table.head(MOST_PLACES + 1).collect()
    return {name: frame[name].to_list() for name in frame.columns}


def _load_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as wrong:
        raise FormatError(f"not JSON: {wrong}") from None


def _from_json(document: Any, normalise: bool, user: str | None) -> Profile:
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection":
        return _from_geojson(document.get("features"), normalise)
    if kind == "Feature":
        return _from_geojson([document], normalise)
    if isinstance(document, dict) and "matrix" in document:
        raise FormatError("this is a mechanism, not a profile of places and a prior")
    if isinstance(document, list) and all(isinstance(row, dict) for row in document):
        names = {name for row in document for name in row}
        records = {name: [row.get(name) for row in document] for name in names}
        return from_columns(records, normalise, user)
    columns = document.values() if isinstance(document, dict) else ()
    if columns and all(isinstance(column, list) for column in columns):
        if len({len(column) for column in columns}) > 1:
            raise FormatError("the columns must be equally long")
        return from_columns(document, normalise, user)
    raise FormatError("must be a list of records, a mapping of columns, or GeoJSON features")


def _of_one(columns: dict[str, list[Any]], user: str | None) -> dict[str, list[Any]]:
    """Take one person's rows of a table that may be of several."""
    if user is None and "user" not in columns:
        return columns
    people = [str(name) for name in columns.get("user", [])]
    whose = _whose(list(dict.fromkeys(people)), user)
    rows = [row for row, name in enumerate(people) if name == whose]
    return {name: [values[row] for row in rows] for name, values in columns.items()}


def _whose(known: list[str], user: str | None) -> str | None:
    """Return whose rows are meant, of the people that a table is of."""
    if user is None and len(known) > 1:
        raise FormatError(
            f"the table is of {len(known)} people: name one (user={known[0]!r}, or --user "
            f"{known[0]})"
        )
    if user is not None and user not in known:
        raise FormatError(f"there is nobody called {user!r} among {len(known)} people")
    return user if user is not None or not known else known[0]


def coordinate_columns(names: Sequence[str]) -> tuple[str, str]:
    """Return the two columns that say where the places are; check that there is a prior."""
    found = [pair for pair in _COORDINATES if all(name in names for name in pair)]
    if len(found) != 1 or "prior" not in names:
        have = column_names(sorted(names)) or "none"
        problem = "not both x_km, y_km and lat, lon" if len(found) > 1 else f"got {have}"
        raise FormatError(f"the columns must be x_km, y_km, prior or lat, lon, prior; {problem}")
    return found[0]


def from_columns(
    columns: dict[str, list[Any]], normalise: bool, user: str | None = None
) -> Profile:
    """Make a profile of the columns of a table."""
    columns = _of_one(columns, user)
    first, second = coordinate_columns(list(columns))
    _check_count(len(columns["prior"]))
    points = np.column_stack([_numbers(first, columns[first]), _numbers(second, columns[second])])
    prior = _prior(columns["prior"], normalise)
    places = Places.from_xy(points) if first == "x_km" else Places.from_latlon(points)
    if all(name in columns for name in CELL_COLUMNS):
        sizes = np.column_stack([_numbers(name, columns[name]) for name in CELL_COLUMNS])
        if (sizes != sizes[0]).any() or (sizes <= 0).any():
            raise FormatError("width_km and height_km must be positive and the same in every row")
        places = replace(places, cell_km=(float(sizes[0, 0]), float(sizes[0, 1])))
    visited = _visited(columns.get(VISITED, []), first == "lat")
    return Profile(places, prior, visited=visited, by_time=_by_time(columns, normalise))


def _check_count(places: int) -> None:
    """Check how many places there are before they are looked at: that takes long for too many."""
    if places > MOST_PLACES:
        raise FormatError(f"places must be at most {MOST_PLACES:,}, and these are more")


def _from_geojson(features: Any, normalise: bool) -> Profile:
    from shapely.errors import ShapelyError
    from shapely.geometry import shape

    if not isinstance(features, list) or not features:
        raise FormatError("features must be a list with at least one region")
    _check_count(len(features))
    regions, priors = [], []
    sizes: list[tuple[Any, ...]] = []
    seen: list[Any] = []
    timed: dict[str, list[Any]] = {}
    for number, feature in enumerate(features):
        try:
            region = shape(feature["geometry"])
        except (ShapelyError, KeyError, TypeError, ArithmeticError, ValueError, LookupError,
                AttributeError):  # fmt: skip
            raise FormatError(f"feature {number} has no geometry that can be read") from None
        if region.is_empty or not region.is_valid:
            raise FormatError(f"feature {number}: the geometry is empty or crosses itself")
        if crosses_date_line(region):
            raise FormatError(
                f"feature {number} spans more than 180 degrees of longitude: where it crosses the "
                "date line, split it there into two parts (RFC 7946)"
            )
        regions.append(region)
        properties = feature.get("properties")
        known = properties if isinstance(properties, dict) else {}
        priors.append(known.get("prior"))
        sizes.append(tuple(known.get(name) for name in CELL_COLUMNS))
        seen.append(known.get(VISITED))
        for name in [name for name in known if name in HOUR_OF or name == ZONE]:
            timed.setdefault(name, [None] * len(features))[number] = known[name]
    cells = len(set(sizes)) == 1 and all(isinstance(side, int | float) for side in sizes[0])
    # The middle of a cell; of any other shape, some point inside.
    points = [region.centroid if cells else region.representative_point() for region in regions]
    places = Places.from_latlon([[point.y, point.x] for point in points])
    prior, visited = _prior(priors, normalise), _visited(seen, on_earth=True)
    by_time = _by_time(timed, normalise)
    if cells:
        places = replace(places, cell_km=sizes[0])
        return Profile(places, prior, visited=visited, by_time=by_time)
    return Profile(places, prior, tuple(regions), visited=visited, by_time=by_time)


def _by_time(columns: dict[str, list[Any]], normalise: bool) -> TimeDependentPrior | None:
    """Read the prior of each period of the day; None if there is none."""
    found = {
        name: _numbers(name, values)
        for name, values in columns.items()
        if name in HOUR_OF and any(value not in (None, "") for value in values)
    }
    return read_time_prior(found, columns.get(ZONE), normalise)


def _visited(rows: list[Any], on_earth: bool) -> VisitedPoints | None:
    """Read the visited points near each place; None if there are none."""
    points: list[list[float]] = []
    for row, text in enumerate(rows):
        if text is None or text == "":
            continue
        try:
            found = [[float(number) for number in part.split()] for part in text.split(";")]
            if any(len(point) != 3 or not point[2] >= 0 for point in found):
                raise ValueError
        except (ValueError, AttributeError, TypeError):
            # What it is would say where somebody is.
            raise FormatError(
                f"visited must be points like 48.85 2.35 0.25, with a semicolon between two, and "
                f"is not in row {row + 1}"
            ) from None
        points += found
        if len(points) > MOST_PLACES:
            raise FormatError(f"visited must be at most {MOST_PLACES:,} points, and these are more")
    if not points:
        return None
    numbers = np.array(points)
    try:
        where = (Places.from_latlon if on_earth else Places.from_xy)(numbers[:, :2])
        return VisitedPoints(where, normalised(numbers[:, 2]))
    except InputError as wrong:
        raise FormatError(f"visited: {one_line(wrong)}") from None


def _prior(values: list[Any], normalise: bool) -> Array:
    prior = _numbers("prior", values)
    return normalised(prior) if normalise else prior


def _numbers(name: str, values: list[Any]) -> Array:
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = float(value)
            if isinstance(value, str) and "_" in value:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            # What it is would say where somebody is, or how often.
            came = "nothing" if value is None else "something else"
            raise FormatError(f"{name} must be a number, got {came} in row {row + 1}") from None
    return numbers


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def one_line(wrong: Exception) -> str:
    """Return the message of an error without line ends."""
    return " ".join(str(wrong).split())
