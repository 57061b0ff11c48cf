"""The times of a table: as seconds since 1970, and rounded down before they are published."""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.errors import InputError
from whereish.places import Array

_MILLISECONDS = 1e11  # a larger number of seconds would be after the year 5000
_NAMES = ("time", "timestamp", "datetime", "date_time", "t")


def usual_time(schema: Any) -> str | None:
    """Return the column of times, if one has a usual name."""
    lower = {name.strip().lower(): name for name in reversed(list(schema))}
    return next((lower[name] for name in _NAMES if name in lower), None)


def seconds_of(times: Any) -> Array:
    """Return seconds since 1970 for a polars column of times; NaN where there is none.

    Times without a zone are in UTC. Numbers are seconds, or milliseconds if they are that large.
    """
    import polars as pl

    from whereish.traces.cleaning import read_times

    if times.dtype == pl.String:
        times = read_times(times, "UTC")
    if times.dtype.is_temporal():
        micros = times.cast(pl.Datetime("us")).dt.epoch("us").cast(pl.Float64)
        return np.asarray((micros / 1e6).fill_null(np.nan).to_numpy(), dtype=np.float64)
    numbers = times.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
    return np.asarray(np.where(np.abs(numbers) > _MILLISECONDS, numbers / 1e3, numbers))


def check_times(column: str | None, untimed: int) -> None:
    """Raise InputError if rows that need a time have none."""
    if untimed:
        raise InputError(
            f"column {column} must hold a time in every row, and {untimed:,} "
            "of them do not: give another column with --time"
        )


def rounded(times: Any, step_s: float) -> Any:
    """Return a column of times rounded down to whole steps, of the same type as far as possible.

    Text becomes ISO 8601 in UTC.
    """
    import polars as pl

    seconds = pl.Series(times.name, np.floor(seconds_of(times) / step_s) * step_s).fill_nan(None)
    if times.dtype.is_numeric():
        large = bool((times.cast(pl.Float64).abs() > _MILLISECONDS).any())
        return (seconds * (1e3 if large else 1.0)).cast(times.dtype, strict=False)
    moments = (seconds * 1e6).cast(pl.Int64).cast(pl.Datetime("us"))
    if times.dtype == pl.String:
        return moments.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    zone = getattr(times.dtype, "time_zone", None)
    if zone is not None:
        moments = moments.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    return moments.cast(times.dtype)
