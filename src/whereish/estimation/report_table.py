"""Read a table of reports, such as `whereish obfuscate` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.device.table_columns import Declared, find_pair, scan
from whereish.device.table_times import usual_time
from whereish.errors import FormatError, InputError
from whereish.mechanisms import Mechanism
from whereish.places import Array

_KINDS = (".csv", ".parquet")


@dataclass(frozen=True, eq=False, repr=False)
class ReportTable:
    """The reports of a table: points, and who and when if it says so.

    Attributes
    ----------
    points
        (rows, 2), without rows that have no point.
    people, periods
        Who reported, and on which day; None if the table does not say.
    blank
        Rows without a point.
    """

    points: Array
    people: NDArray[Any] | None
    periods: NDArray[Any] | None
    blank: int


def read_reports(
    path: str | Path,
    mechanism: Mechanism,
    columns: tuple[str, str] | None = None,
    user: str | None = None,
    time: str | None = None,
) -> ReportTable:
    """Read the reports of a CSV or Parquet table.

    Parameters
    ----------
    columns
        Latitude and longitude (or x and y in km); by default those with usual names.
    user, time
        The columns of people and times. With a column of people, equal reports of one person count
        once; with times as well, once a day.
    """
    import polars as pl

    file = Path(path)
    if file.suffix.lower() not in _KINDS:
        raise InputError(f"reports must be a .csv or .parquet file, got {file}")
    if not file.is_file():
        raise InputError(f"reports must be a file that exists, got {file}")
    try:
        table = scan(file)
        schema = table.collect_schema()
        pair = find_pair(schema, Declared(columns), mechanism, file.suffix.lower() == ".csv")
        for name in (user, time):
            if name is not None and name not in schema:
                raise InputError("the table of reports must have the columns of --user and --time")
        if time is None and user is not None:
            time = usual_time(schema)
        needed = [*pair, *[name for name in (user, time) if name is not None]]
        frame = table.select(list(dict.fromkeys(needed))).collect()
        numbers = frame.select(pl.col(pair).cast(pl.Float64, strict=False))
        points = numbers.to_numpy()
        people = None if user is None else frame[user].cast(pl.String).to_numpy()
        periods = None if time is None else _days(frame[time])
    except pl.exceptions.PolarsError as wrong:
        raise FormatError(f"{file} cannot be read ({type(wrong).__name__})") from None
    good = np.isfinite(points).all(axis=1)
    return ReportTable(
        points[good],
        None if people is None else people[good],
        None if periods is None or people is None else periods[good],
        int((~good).sum()),
    )


def _days(column: Any) -> NDArray[Any]:
    """Return the day of each time, as text: a date, or the first ten letters of a text."""
    import polars as pl

    if column.dtype.is_temporal():
        return np.asarray(column.cast(pl.Date).cast(pl.String).to_numpy())
    return np.asarray(column.cast(pl.String).str.slice(0, 10).to_numpy())
