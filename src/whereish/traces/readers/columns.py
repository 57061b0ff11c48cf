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
    """The names of a table's columns, and what separates them; user and time may be missing."""

    user: str | None
    time: str | None
    lat: str
    lon: str
    separator: str = ","
    coordinate_last: bool = False

    @property
    def named(self) -> dict[str, str]:
        """Return the names there are."""
        pairs = zip(COLUMNS, (self.user, self.time, self.lat, self.lon), strict=True)
        return {column: name for column, name in pairs if name is not None}


def match_columns(
    names: Sequence[str], given: dict[str, str] | None = None, timed: bool = True,
    separator: str = ",",
) -> Columns:  # fmt: skip
    """Find the columns of a table: as the user named them, or by their usual names."""
    lower = {plain(name): name for name in reversed(names)}
    found: dict[str, str | None] = {}
    for column in COLUMNS:
        if given and column in given:
            if plain(given[column]) not in lower:
                raise FormatError(
                    f"no column {given[column]!r} for {column}, only {column_names(list(names))}"
                )
            found[column] = lower[plain(given[column])]
        else:
            found[column] = next((lower[n] for n in OTHER_NAMES[column] if n in lower), None)
    if found["time"] is None and "prior" in lower:
        raise FormatError("it has a prior and no times: a profile, which whereish build takes")
    if not timed:
        found["time"] = None
    if (found["time"] is None and timed) or found["lat"] is None or found["lon"] is None:
        raise FormatError(
            f"no columns for time, lat and lon, only {column_names(list(names))}; name them, on "
            "the command line by --columns time=A,lat=B,lon=C"
        )
    last = bool(names) and names[-1] in (found["lat"], found["lon"])
    return Columns(found["user"], found["time"], found["lat"], found["lon"], separator, last)


def plain(name: str) -> str:
    """Return the name of a column without quotes and white space, in lower case."""
    return name.strip("\ufeff \t\r\"'").lower()
