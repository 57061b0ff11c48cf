"""Parquet tables: how much they unpack to, known before they are unpacked.

A small Parquet file can hold gigabytes: its pages are compressed, a dictionary stores a repeated
text once, and DELTA_BYTE_ARRAY stores what a text shares with the one before it only once. The
readers of tables know no limits, so the sizes are added up first, and are held to the limits of all
packed files (`whereish.files`):

- the unpacked sizes that the header of each page states, which is what a reader allocates;
- the rows, eight bytes for each column and at least three columns;
- the texts, each as often as it occurs.

Headers are Thrift structs in the compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md and
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from whereish.compressed import most_unpacked, unpacks_to_more
from whereish.errors import FormatError
from whereish.lazy import pl

_MAGIC = b"PAR1"
_DAMAGED = "not a Parquet file, or a damaged one"
_MOST_FOOTER, _MOST_HEADER, _FIRST_HEADER = 2**24, 2**22, 2**10
_MOST_STRUCTS, _MOST_PAGES = 10**6, 2 * 10**6
_ROWS = 500_000
_DELTA_BYTE_ARRAY = 7
# The fields that are needed, by the numbers that parquet.thrift gives them.
_CHUNK = {3: None, 5: None, 7: None, 9: None, 11: None}  # path, values, bytes, data, dictionary
_FOOTER = {3: None, 4: {1: {3: _CHUNK}, 3: None}}
_PAGE = {2: None, 3: None, 5: {1: None, 2: None}, 8: {1: None, 4: None}}


def check_parquet(file: Path, columns: Sequence[str]) -> None:
    """Raise FormatError if the columns of a table unpack to far more than the file.

    Only the headers are unpacked, and then the texts, whose values share their memory.
    """
    most = most_unpacked(file.stat().st_size)
    try:
        rows, pages = _stated(file, frozenset(columns))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise FormatError(_DAMAGED) from None
    values = 8 * max(3, len(columns)) * rows
    with reading_parquet():
        if max(pages, values) > most or _text_bytes(file, columns, rows, most) > most:
            raise FormatError(unpacks_to_more(most))


def parquet_bytes(table: pl.DataFrame) -> bytes:
    """Return a table as the content of a Parquet file."""
    stream = io.BytesIO()
    table.write_parquet(stream)
    return stream.getvalue()


@contextmanager
def reading_parquet() -> Iterator[None]:
    """Turn what polars raises for a file that it cannot read into a FormatError."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError):
        raise FormatError(_DAMAGED) from None
    except BaseException as wrong:
        if type(wrong).__name__ == "PanicException":  # polars gives up on some damaged files
            raise FormatError(_DAMAGED) from None
        raise


def _text_bytes(file: Path, columns: Sequence[str], rows: int, most: int) -> int:
    """Return the bytes of all texts in some columns, or of so many that they are too many."""
    table = pl.scan_parquet(file, glob=False).select(columns)
    kinds = table.collect_schema()
    lengths = [length for name in columns for length in _lengths(pl.col(name), kinds[name])]
    if not lengths:
        return 0
    total = pl.sum_horizontal(length.cast(pl.UInt64).sum() for length in lengths)
    size = 0
    for start in range(0, rows, _ROWS):
        size += int(table.slice(start, _ROWS).select(total).collect().item())
        if size > most:
            break
    return size


def _lengths(column: Any, kind: Any) -> Iterator[Any]:
    """Yield the lengths of the texts in a column, and in the lists and records it may hold."""
    if kind == pl.String:
        yield column.str.len_bytes()
    elif kind == pl.Binary:
        yield column.bin.size()
    elif kind in (pl.Categorical, pl.Enum):
        yield column.cat.len_bytes()
    elif isinstance(kind, pl.List | pl.Array):
        items = column.list if isinstance(kind, pl.List) else column.arr
        yield from _lengths(items.explode(), kind.inner)
    elif isinstance(kind, pl.Struct):
        for field in kind.fields:
            yield from _lengths(column.struct.field(field.name), field.dtype)


def _stated(file: Path, columns: frozenset[str]) -> tuple[int, int]:
    """Return how many rows a file states, and to how many bytes the pages of columns unpack."""
    with file.open("rb") as stream:
        end = stream.seek(0, 2) - 8
        stream.seek(max(end, 0))
        tail = stream.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or not 0 < length <= min(end, _MOST_FOOTER):
            raise FormatError(_DAMAGED)
        stream.seek(end - length)
        footer = _Thrift(stream.read(length)).struct(_FOOTER)
        groups = footer.get(4, [])
        rows = max(footer[3], sum(group[3] for group in groups))
        values: dict[str, int] = {}
        size = packed = pages = 0
        for chunk in (c[3] for group in groups for c in group.get(1, []) if 3 in c):
            name = chunk[3][0].decode()
            if name not in columns:
                continue
            packed += chunk[7]
            if chunk[7] < 0 or packed > end:  # pieces of a file do not overlap
                raise FormatError(_DAMAGED)
            found = max(chunk[5], 0)
            for count, unpacked in _pages(stream, chunk):
                pages += 1
                size += unpacked
                found = max(found, count)
                if pages > _MOST_PAGES:
                    raise FormatError(_DAMAGED)
            values[name] = values.get(name, 0) + found
    return max(rows, *values.values(), 0), size


def _pages(stream: IO[bytes], chunk: dict[int, Any]) -> Iterator[tuple[int, int]]:
    """Yield what the header of each page states: values, and the bytes they unpack to at most."""
    data, dictionary = chunk[9], chunk.get(11) or 0
    at = dictionary if dictionary > 0 else data
    if not 0 <= at <= data:
        raise FormatError(_DAMAGED)
    end = at + chunk[7]
    while at < end:
        header, length = _page_header(stream, at)
        unpacked, packed = header[2], header[3]
        if unpacked < 0 or packed < 0:
            raise FormatError(_DAMAGED)
        about = header.get(5) or header.get(8) or {}
        values, encoding = about.get(1, 0), about.get(2, about.get(4))
        # Each text may be as long as the whole page.
        often = values if encoding == _DELTA_BYTE_ARRAY else 1
        yield values, unpacked * max(1, often)
        at += length + packed


def _page_header(stream: IO[bytes], at: int) -> tuple[dict[int, Any], int]:
    size = _FIRST_HEADER
    while True:
        stream.seek(at)
        piece = stream.read(size)
        thrift = _Thrift(piece)
        try:
            return thrift.struct(_PAGE), thrift.at
        except IndexError:
            if len(piece) < size or size >= _MOST_HEADER:
                raise
            size *= 4


class _Thrift:
    """Reads structs of Thrift's compact protocol: only the fields that are wanted are kept."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._structs = 0
        self.at = 0

    def struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        """Return the wanted fields of a struct by their numbers."""
        self._structs += 1
        if self._structs > _MOST_STRUCTS:
            raise FormatError(_DAMAGED)
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            keep = number in wanted
            value = self._value(kind, wanted[number] or {} if keep else {}, in_field=True)
            if keep:
                found[number] = value
        return found

    def _value(self, kind: int, wanted: dict[int, Any], *, in_field: bool = False) -> Any:
        if kind in (1, 2):
            if not in_field:
                self.at += 1  # in a list, a truth value is a byte
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._value(head & 15, wanted) for _ in range(self._bounded(count))]
        if kind == 11:
            count = self._unsigned()
            kinds = self._byte() if count else 0
            for _ in range(self._bounded(count)):
                self._value(kinds >> 4, {})
                self._value(kinds & 15, {})
            return None
        if kind == 12:
            return self.struct(wanted)
        raise FormatError(_DAMAGED)

    def _bounded(self, count: int) -> int:
        """Check that so many values can follow: each takes a byte."""
        if count > len(self._content) - self.at:
            raise IndexError
        return count

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        start = self.at
        self.at += self._bounded(count)
        return self._content[start : self.at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise FormatError(_DAMAGED)

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
