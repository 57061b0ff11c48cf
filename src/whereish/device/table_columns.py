"""Choose the columns of an obfuscated table: replaced, kept, counted or left out.

Only columns that the caller declares are kept, because no list of names says which ones leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whereish.compressed import unpacked_size
from whereish.device.drawing import DeviceMechanism
from whereish.errors import InputError, column_names, described, seems_data
from whereish.parquet import check_parquet

_NAMES = {
    "latlon": (("lat", "lon"), ("latitude", "longitude"), ("lat", "lng")),
    "xy": (("x_km", "y_km"),),
}
_USERS = ("user", "user_id", "userid", "uid", "id", "taxi", "taxi_id", "device", "device_id")
_ALL = "all"


@dataclass(frozen=True)
class Declared:
    """The columns that a caller declares: see `whereish.obfuscate_table`."""

    pair: tuple[str, str] | None = None
    user: str | None = None
    time: str | None = None
    keep: str | Sequence[str] = ()
    keep_anyway: str | Sequence[str] = ()
    drop: str | Sequence[str] = ()


@dataclass(frozen=True)
class Columns:
    """The treatment of each column of a table.

    Attributes
    ----------
    pair
        The two coordinates, which are replaced.
    kinds
        The columns of the new table, in the order of the old one, and their polars types.
    left_out
        All other columns.
    declared
        The columns of users and times: refused only if they encode the locations.
    checked
        The other columns to keep: refused if they leak the locations.
    anyway
        The columns that are kept although they may leak.
    user
        The column of users, kept or only counted.
    time
        The column of times, kept or only read.
    round_s
        Seconds to which kept times are rounded down; None for exact times.
    """

    pair: tuple[str, str]
    kinds: dict[str, Any]
    left_out: tuple[str, ...]
    declared: tuple[str, ...]
    checked: tuple[str, ...]
    anyway: tuple[str, ...]
    user: str | None
    time: str | None = None
    round_s: float | None = None

    @property
    def needed(self) -> list[str]:
        """The columns to read."""
        read = [name for name in (self.user, self.time) if name is not None]
        return list(dict.fromkeys([*self.kinds, *read]))

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns of the new table besides the coordinates."""
        return tuple(name for name in self.kinds if name not in self.pair)


def choose(schema: Any, declared: Declared, pair: tuple[str, str]) -> Columns:
    """Decide about each column: one that the caller does not declare is left out."""
    import polars as pl

    named = [name for name in (declared.user, declared.time) if name is not None]
    for name in named:
        if name not in schema:
            raise InputError(
                f"the table must have the column {_shown(name)}, got none of that name"
            )
        if name in pair:
            raise InputError(
                f"column {name} is replaced: it cannot be the column of users or times as well"
            )
        if schema[name].is_nested():
            raise InputError(f"column {_shown(name)} must hold one value a row, for users or times")
    left = _listed(schema, declared.drop, [*pair, *named])
    others = [name for name in schema if name not in (*pair, *named, *left)]
    anyway = _listed(schema, declared.keep_anyway, [*pair, *named, *left], others)
    checked = _listed(schema, declared.keep, [*pair, *left], others)
    checked = [name for name in checked if name not in (*anyway, *named)]
    kinds: dict[str, Any] = {}
    for name, kind in schema.items():
        if name in pair:
            kinds[name] = pl.Float64()
        elif name in (*named, *anyway, *checked):
            # As text: a file with categories would hold those of rows that are left out.
            kinds[name] = pl.String() if isinstance(kind, pl.Categorical | pl.Enum) else kind
    usual = [
        n for n, kind in schema.items() if n.strip().lower() in _USERS and not kind.is_nested()
    ]
    return Columns(
        pair, kinds, tuple(name for name in schema if name not in kinds), tuple(named),
        tuple(checked), tuple(anyway), declared.user or next(iter(usual), None), declared.time,
    )  # fmt: skip


def _listed(
    schema: Any, names: str | Sequence[str], taken: list[str], others: list[str] | None = None
) -> list[str]:
    """Return the listed columns; "all" means all others, if there is a list of them."""
    listed = [names] if isinstance(names, str) else list(names)
    if others is not None and _ALL in listed and _ALL not in schema:
        return others
    for name in listed:
        if not isinstance(name, str) or name not in schema or name in taken:
            raise InputError(
                f"{_shown(name)} must be another column of the table to be kept or dropped"
            )
    return list(dict.fromkeys(listed))


def _shown(name: Any) -> str:
    """Show the name of a column, unless it may be a value of the table."""
    if not isinstance(name, str):
        return described(name)
    return "(a name that seems to be data)" if seems_data(name) else repr(name[:40])


def find_pair(
    schema: Any, declared: Declared, mechanism: DeviceMechanism, text: bool
) -> tuple[str, str]:
    """Return the two columns of coordinates: the declared ones, or two with usual names."""
    lower = {name.strip().lower(): name for name in reversed(list(schema))}  # the first counts
    earth = mechanism.outputs.plane is not None
    found: Any = declared.pair
    for first, second in _NAMES["latlon" if earth else "xy"] if found is None else ():
        if first in lower and second in lower:
            found = (lower[first], lower[second])
            break
    two = isinstance(found, tuple | list) and len(found) == 2
    if not two or any(name not in schema for name in found) or found[0] == found[1]:
        wanted = "lat and lon" if earth else "x_km and y_km"
        raise InputError(
            f"the table must have the columns {wanted}, separated by commas, or others that are "
            f"named, got {column_names(list(schema))}"
        )
    if any(seems_data(name) for name in found):  # the names go into the new table
        raise InputError(
            "the first line of the table must hold the names of the columns, and those of the "
            "points seem to be data; put a line of names before it, such as lat,lon"
        )
    for name in found:
        if not text and not schema[name].is_numeric():
            raise InputError(f"column {name} must hold numbers, got {schema[name]}")
    return found[0], found[1]


def scan(file: Path) -> Any:
    """Open a table lazily. Values of a CSV file stay text: 01234 is not a number."""
    import polars as pl

    if file.suffix.lower() == ".csv":
        unpacked_size(file)  # polars would unpack without a limit
        return pl.scan_csv(file, infer_schema=False, glob=False)
    return pl.scan_parquet(file, glob=False)


def size_of(table: Any, file: Path, columns: Columns) -> int:
    """Return about how many bytes of memory the new table takes."""
    import polars as pl

    if file.suffix.lower() == ".csv":
        return file.stat().st_size
    check_parquet(file, columns.needed)
    return int(table.select(pl.len()).collect().item()) * (16 + 40 * len(columns.kept))
