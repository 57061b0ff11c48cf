"""Read a table of reports, such as `whereish obfuscate` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.device.table_columns import Declared, find_pair, scan
from whereish.device.table_times import seconds_of, usual_time
from whereish.errors import FormatError, InputError
from whereish.estimation.counting import Whole, WrongReportError, output_numbers
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
    outputs
        (rows,) the output of the mechanism at each point.
    seconds
        (rows,) when, in seconds since 1970; None if the table does not say.
    """

    points: Array
    people: NDArray[Any] | None
    periods: NDArray[Any] | None
    blank: int
    outputs: Whole
    seconds: Array | None

    def moves(self) -> tuple[Whole, Whole]:
        """Return the outputs before and after each move: successive reports of one person.

        A report that repeats the one before it on the same day is sticky: it is no second draw, and
        is left out.

        Raises
        ------
        InputError
            If the table does not say who reported, and when.
        """
        if self.people is None or self.seconds is None or self.periods is None:
            raise InputError("moves need to know who reported and when: give --user and --time")
        if not np.isfinite(self.seconds).all():
            raise InputError("every report must have a time for moves, and some have none")
        _, who = np.unique(self.people.astype(str), return_inverse=True)
        order = np.lexsort((self.seconds, who))
        who, outputs, days = who[order], self.outputs[order], self.periods.astype(str)[order]
        kept = np.ones(len(who), bool)
        kept[1:] = (who[1:] != who[:-1]) | (outputs[1:] != outputs[:-1]) | (days[1:] != days[:-1])
        who, outputs = who[kept], outputs[kept]
        same = who[1:] == who[:-1]
        return outputs[:-1][same], outputs[1:][same]


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
        seconds = None if time is None else seconds_of(frame[time])
    except pl.exceptions.NoDataError:
        raise FormatError(f"{file} must hold a heading and reports, and it is empty") from None
    except pl.exceptions.PolarsError as wrong:
        raise FormatError(f"{file} cannot be read ({type(wrong).__name__})") from None
    good = np.isfinite(points).all(axis=1)
    try:
        outputs = output_numbers(mechanism, points[good])
    except WrongReportError as wrong:
        row = int(np.flatnonzero(good)[wrong.row]) + 1
        raise InputError(
            wrong.words(f"in row {row:,} of {file.name}, without the heading")
        ) from None
    return ReportTable(
        points[good],
        None if people is None else people[good],
        None if periods is None or people is None else periods[good],
        int((~good).sum()),
        outputs,
        None if seconds is None else seconds[good],
    )


def _days(column: Any) -> NDArray[Any]:
    """Return the day of each time, as text: a date, or the first ten letters of a text."""
    import polars as pl

    if column.dtype.is_temporal():
        return np.asarray(column.cast(pl.Date).cast(pl.String).to_numpy())
    return np.asarray(column.cast(pl.String).str.slice(0, 10).to_numpy())
