"""Which columns of a table hold user, time, latitude and longitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whereish.errors import FormatError, column_names
from whereish.traces.cleaning import COLUMNS

# In lower case; of several that a table has, the first here counts. The page has the same names.
OTHER_NAMES = {
    "user": ("user", "user_id", "userid", "uid", "taxi_id", "device", "device_id"),
    "time": ("time", "timestamp", "datetime", "date_time", "date", "when", "timestampms"),
    "lat": ("lat", "latitude", "lat_deg", "location-lat"),
    "lon": ("lon", "lng", "long", "longitude", "lon_deg", "location-long"),
}


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns, by what they hold, and what separates them."""

    named: dict[str, str]  # user and time may be missing
    separator: str = ","
    coordinate_last: bool = False


def match_columns(
    names: Sequence[str], given: dict[str, str] | None = None, timed: bool = True,
    separator: str = ",",
) -> Columns:  # fmt: skip
    """Find the columns of a table: as the user named them, or by their usual names."""
    lower = {plain(name): name for name in reversed(names)}
    found: dict[str, str] = {}
    for column in COLUMNS:
        named = (given or {}).get(column)
        if named is not None and plain(named) not in lower:
            only = column_names(list(names))
            raise FormatError(f"no column {named!r} for {column}, only {only}")
        wanted = OTHER_NAMES[column] if named is None else (plain(named),)
        present = [lower[name] for name in wanted if name in lower]
        if present:
            found[column] = present[0]
    if "time" not in found and "prior" in lower:
        raise FormatError("it has a prior and no times: a profile, which whereish build takes")
    if not timed:
        found.pop("time", None)
    if not found.keys() >= {"lat", "lon", *(["time"] if timed else [])}:
        raise FormatError(
            f"no columns for time, lat and lon, only {column_names(list(names))}; name them, on "
            "the command line by --columns time=A,lat=B,lon=C"
        )
    return Columns(found, separator, names[-1] in (found["lat"], found["lon"]))


def plain(name: str) -> str:
    """Return the name of a column without quotes and white space, in lower case."""
    return name.strip("\ufeff \t\r\"'").lower()
