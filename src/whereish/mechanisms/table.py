"""Obfuscate a table of points: millions of rows in a stream, everything but the points kept."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whereish.errors import FormatError, InputError, WhereishError
from whereish.files import check_writable
from whereish.mechanisms.mechanism import Mechanism

_KINDS = (".csv", ".parquet")
_NAMES = {
    "latlon": (("lat", "lon"), ("latitude", "longitude"), ("lat", "lng")),
    "xy": (("x_km", "y_km"),),
}
_STRONG = frozenset(
    ("lat", "lon", "lng", "latitude", "longitude", "geom", "geometry", "wkt", "geohash", "gps",
     "h3", "address", "easting", "northing")
)  # fmt: skip
_TELLING = ("x", "y", "x_km", "y_km", "long", "point", "location", "coordinates", "coords")
_USERS = ("user", "user_id", "userid", "uid", "id", "taxi", "taxi_id", "device", "device_id")


@dataclass(frozen=True)
class Obfuscated:
    """What became of a table.

    Attributes
    ----------
    rows, blank
        How many rows there were, and how many had no point: these stay without one.
    outside
        How many points were outside the area of the places.
    columns
        The two that were replaced.
    user, users, most_per_user
        The column that says whose point it is, if there is one, how many people there are, and how
        many points the one with the most has: so many times epsilon is what that one spends.
    """

    rows: int
    blank: int
    outside: int
    columns: tuple[str, str]
    user: str | None
    users: int | None
    most_per_user: int | None


def obfuscate_table(
    mechanism: Mechanism,
    source: str | Path,
    target: str | Path,
    columns: tuple[str, str] | None = None,
    user: str | None = None,
    *,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    outside: str = "error",
    progress: Callable[[int], object] | None = None,
) -> Obfuscated:
    """Replace the points of a CSV or Parquet table by reports of them.

    Parameters
    ----------
    source, target
        ``.csv`` or ``.parquet``, both. The target is written whole or not at all.
    columns
        Latitude and longitude (or x and y in km); by default ``lat, lon``, ``latitude,
        longitude``, ``lat, lng`` or ``x_km, y_km``.
    user
        The column that says whose point it is; by default one with a usual name. It is only
        counted: points of one person are correlated, and k of them cost k epsilon.
    keep, drop
        Other columns that look like coordinates (``latitude``, ``x``, ``geometry`` and the like)
        would give the points away: each must be named, to be kept as it is or left out.
    outside
        What is done with points outside the area, see `Mechanism.sample`.
    progress
        Called with the number of rows done.
    """
    import polars as pl

    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a mechanism is needed, got {type(mechanism).__name__}")
    if not all(isinstance(name, str | Path) for name in (source, target)):
        raise InputError("source and target must be the names of files")
    from_file, to_file = Path(source), Path(target)
    for name, file in (("source", from_file), ("target", to_file)):
        if file.suffix.lower() not in _KINDS:
            raise InputError(f"{name} must be a .csv or .parquet file, got {file}")
    if not from_file.is_file():
        raise InputError(f"source must be a file that exists, got {from_file}")
    check_writable(to_file)
    if to_file.exists() and to_file.samefile(from_file):
        raise InputError(f"target must not be the table itself, got {to_file} for both")
    try:
        table = _scan(pl, from_file)
        schema = table.collect_schema()
        pair = _columns(schema, columns, mechanism, from_file.suffix.lower() == ".csv")
        whose = _user(schema, user)
        _check_others(schema, pair, keep, drop)
    except (pl.exceptions.PolarsError, OSError) as wrong:
        raise FormatError(f"{from_file} cannot be read ({type(wrong).__name__})") from None

    done = {"rows": 0, "blank": 0, "outside": 0}

    people: Counter[Any] = Counter()
    stop = threading.Event()

    def hidden_part(frame: Any) -> Any:
        if stop.is_set():
            raise WhereishError("stopped")
        numbers = [frame[name].cast(pl.Float64, strict=False) for name in pair]
        wrong = sum(
            int((frame[name].is_not_null() & number.is_null()).sum())
            for name, number in zip(pair, numbers, strict=True)
        )
        if wrong:
            raise InputError(
                f"columns {pair[0]} and {pair[1]} must hold numbers, and {wrong} of the first "
                f"{done['rows'] + len(frame):,} rows do not"
            )
        points = np.column_stack([number.to_numpy() for number in numbers])
        known = np.isfinite(points).all(axis=1)
        hidden = np.full(points.shape, np.nan)
        if known.any():
            reports = mechanism.sample(points[known], outside=outside)
            hidden[known] = reports.xy if reports.latlon is None else reports.latlon
            done["outside"] += int(reports.outside.sum())
        done["rows"] += len(frame)
        done["blank"] += int((~known).sum())
        if whose is not None:
            people.update(dict(frame[whose].value_counts().iter_rows()))
        if progress is not None:
            progress(done["rows"])
        return frame.with_columns(
            pl.Series(name, hidden[:, part]).fill_nan(None) for part, name in enumerate(pair)
        ).drop(*drop)

    # The stream calls from threads of its own, whose stacks are too small for a projection.
    def hide(frame: Any) -> Any:
        return workers.submit(hidden_part, frame).result()

    def write(out: Any) -> None:
        if to_file.suffix.lower() == ".csv":
            stream.sink_csv(out, engine="streaming")
        else:
            stream.sink_parquet(out, engine="streaming")

    # And it runs in a thread of ours, so that Ctrl-C finds this one in Python, once.
    workers = ThreadPoolExecutor(2)
    kinds = dict(schema.items()) | dict.fromkeys(pair, pl.Float64())
    for name in drop:
        del kinds[name]
    stream = table.map_batches(hide, streamable=True, schema=pl.Schema(kinds))
    descriptor, temporary = tempfile.mkstemp(
        prefix=f".{to_file.name}.", suffix=to_file.suffix, dir=to_file.resolve().parent
    )
    try:
        with os.fdopen(descriptor, "wb") as out:
            workers.submit(write, out).result()
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, to_file.resolve())
    except WhereishError:
        raise
    except (pl.exceptions.PolarsError, OSError) as wrong:
        for ours in (wrong, wrong.__cause__, wrong.__context__):
            if isinstance(ours, WhereishError):
                raise ours from None
        # What the reader says of a bad row may hold the row.
        raise FormatError(
            f"{from_file} cannot be obfuscated: a row is not as the others are, or it cannot be "
            f"written ({type(wrong).__name__})"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        stop.set()
        workers.shutdown(wait=False, cancel_futures=True)
    known_users = whose is not None
    return Obfuscated(
        **done,
        columns=pair,
        user=whose,
        users=len(people) if known_users else None,
        most_per_user=max(people.values(), default=0) if known_users else None,
    )


def _scan(pl: Any, file: Path) -> Any:
    """Open a table lazily. What is text in a CSV stays the text it is: 01234 is no number."""
    if file.suffix.lower() == ".csv":
        return pl.scan_csv(file, infer_schema=False, glob=False)
    return pl.scan_parquet(file, glob=False)


def _columns(
    schema: Any, asked: tuple[str, str] | None, mechanism: Mechanism, text: bool
) -> tuple[str, str]:
    lower: dict[str, str] = {}
    for name in schema:
        lower.setdefault(name.strip().lower(), name)
    earth = mechanism.inputs.plane is not None
    found: Any = asked
    for first, second in _NAMES["latlon" if earth else "xy"] if asked is None else ():
        if first in lower and second in lower:
            found = (lower[first], lower[second])
            break
    two = isinstance(found, tuple | list) and len(found) == 2
    if not two or any(name not in schema for name in found) or found[0] == found[1]:
        wanted = "lat and lon" if earth else "x_km and y_km"
        raise InputError(
            f"the table must have the columns {wanted}, separated by commas, or others that are "
            f"named, got {', '.join(map(str, list(schema)[:12]))}"
        )
    for name in found:
        if not text and not schema[name].is_numeric():
            raise InputError(f"column {name} must hold numbers, got {schema[name]}")
    return found[0], found[1]


def _check_others(
    schema: Any, pair: tuple[str, str], keep: Sequence[str], drop: Sequence[str]
) -> None:
    """Refuse columns that would give the points away, unless they are named."""
    for name in (*keep, *drop):
        if name not in schema or name in pair:
            raise InputError(f"{name!r} must be another column of the table to be kept or dropped")
    told = [
        name
        for name in schema
        if name not in (*pair, *keep, *drop)
        and (_plain(name) in _TELLING or _STRONG & set(re.split(r"[^a-z0-9]+", _plain(name))))
    ]
    if told:
        raise InputError(
            f"columns that look like coordinates, too, would give the points away: "
            f"{', '.join(told)}. Name each in keep (--keep A,B) or drop (--drop A,B)"
        )


def _plain(name: str) -> str:
    return name.strip().lower().split("_duplicated_")[0]


def _user(schema: Any, asked: str | None) -> str | None:
    if asked is not None:
        if asked not in schema:
            raise InputError(f"the table must have the column {asked}, got none of that name")
        return asked
    return next((name for name in schema if name.lower() in _USERS), None)
