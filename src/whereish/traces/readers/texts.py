"""What the readers of text tables share: GeoLife, T-Drive and CSV, read by polars.

Polars reads many files at once. A file that polars cannot read is read line by line.
"""

from __future__ import annotations

import csv
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from whereish.compressed import UNREADABLE, open_bytes, read_line, unpacked_size
from whereish.errors import FormatError
from whereish.lazy import pl
from whereish.traces.cleaning import COLUMNS, read_times
from whereish.traces.readers import limits
from whereish.traces.readers.reader import Options, Reader

# Two columns beside those of a table, with names that no table has.
FILE, LINE = "whereish: file", "whereish: line"


@dataclass(frozen=True)
class Line:
    """How a line of text is read: the lines to skip, what separates fields, and which to take.

    ``pick`` returns user, time, latitude and longitude of the fields of a line. There are always
    at least seven fields; those that a line does not have are None.
    """

    pick: Callable[[list[Any]], tuple[Any, ...]]
    skip: int = 0
    separator: str = ","


class TextReader(Reader):
    """A format of lines of text."""

    reads_many: ClassVar[bool] = True

    @abstractmethod
    def line(self, file: Path, options: Options) -> Line:
        """Return how the lines of a file are read."""

    def slow_frames(self, file: Path, options: Options) -> Iterator[pl.DataFrame]:
        """Read a file line by line, as far as it goes: for files that polars cannot read.

        A quote that is never closed spoils only its line. A gzip file that was cut off gives
        what comes before the end.
        """
        rows: list[tuple[Any, ...]] = []
        broken, number = False, 0
        line = self.line(file, options)
        try:
            with open_bytes(file) as stream:
                for number, raw in enumerate(iter(lambda: read_line(stream), b""), start=1):
                    text = raw.decode("utf-8", "replace").strip("\ufeff\r\n")
                    if number > line.skip and text.strip():
                        rows.append((*line.pick(_fields(text, line.separator)), str(file), number))
                    if len(rows) == limits.ROWS_A_FRAME:
                        yield _slow_frame(rows, line.separator, options.zone)
                        rows = []
        except UNREADABLE:
            broken = True
        if rows:
            yield _slow_frame(rows, line.separator, options.zone)
        if broken:
            raise FormatError(f"damaged after line {number}")


def _fields(text: str, separator: str) -> list[str | None]:
    """Split a line into fields; seven None follow them."""
    try:
        fields = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        fields = []  # a field of more than a hundred thousand characters
    return [*(field or None for field in fields), *[None] * 7]


def _slow_frame(rows: list[tuple[Any, ...]], separator: str, zone: str) -> pl.DataFrame:
    names = (*COLUMNS, "file", "line")
    kinds = dict.fromkeys(names[:-1], pl.String) | {"line": pl.Int64}
    table = pl.DataFrame(rows, schema=kinds, orient="row")
    number = {c: table[c].str.strip_chars() for c in ("lat", "lon")}
    if separator == ";":
        number = {c: text.str.replace(",", ".", literal=True) for c, text in number.items()}
    number = {c: text.cast(pl.Float64, strict=False) for c, text in number.items()}
    return table.with_columns(time=read_times(table["time"], zone), **number)


def scan_csv_files(files: Sequence[Path], **options: Any) -> pl.LazyFrame:
    """Open CSV files as one table of text, with the file and the line of each row."""
    return pl.scan_csv(
        list(files),
        infer_schema=False,
        truncate_ragged_lines=True,
        include_file_paths=FILE,
        row_index_name=LINE,
        encoding="utf8-lossy",
        glob=False,
        **options,
    )


def scan_lines(
    files: Sequence[Path], names: Sequence[str], skip_rows: int = 0, separator: str = ","
) -> pl.LazyFrame:
    """Open files without a heading; rows that are too short end in nulls."""
    plain = {"has_header": False, "quote_char": None, "skip_rows": skip_rows}
    if len(files) > 1 or _width(files[0], skip_rows, separator) == len(names):
        schema = dict.fromkeys(names, pl.String)
        return scan_csv_files(files, schema=schema, separator=separator, **plain)
    # Polars would expect every row to have as many fields as the first, which is a bad row here.
    lines = scan_csv_files(files, schema={"whole": pl.String}, separator="\x1f", **plain)
    fields = pl.col("whole").str.split_exact(separator, len(names))
    parts = [fields.struct.field(f"field_{n}").alias(name) for n, name in enumerate(names)]
    return lines.with_columns(parts)


def _width(file: Path, skip_rows: int, separator: str) -> int:
    """Count the columns of the first row."""
    with open_bytes(file) as stream:
        for _ in range(skip_rows):
            read_line(stream)
        return read_line(stream).count(separator.encode()) + 1


def typed_frames(
    rows: pl.LazyFrame, files: Sequence[Path], first_line: int, zone: str
) -> Iterator[pl.DataFrame]:
    """Turn text into times and numbers: small files whole, large files in parts."""
    number = {c: pl.col(c).str.strip_chars(" \t\r\"'") for c in ("lat", "lon")}
    wanted = rows.select(
        pl.col("user").str.strip_chars(" \t\r\ufeff"),
        "time",
        **{c: text.cast(pl.Float64, strict=False) for c, text in number.items()},
        file=FILE,
        line=pl.col(LINE).cast(pl.Int64),
        blank="blank",
    )
    large = sum(unpacked_size(file) for file in files) > limits.LARGE_BYTES
    frames = wanted.collect_batches(chunk_size=limits.ROWS_A_FRAME) if large else [wanted.collect()]
    begun: dict[str, int] = {}
    for frame in frames:
        for file, start in frame.group_by("file").agg(pl.col("line").min()).rows():
            begun.setdefault(file, start)
        line = pl.col("line") - pl.col("file").replace_strict(begun, return_dtype=pl.Int64)
        yield (
            frame.with_columns(time=read_times(frame["time"], zone), line=line + first_line)
            .filter(~pl.col("blank"))
            .drop("blank")
        )


def all_null(*columns: str) -> pl.Expr:
    """Return whether a line is empty: such a line is not a row."""
    return pl.all_horizontal(pl.col(name).is_null() for name in columns)


def without_cut_off(
    frames: Iterator[pl.DataFrame], files: Sequence[Path]
) -> Iterator[pl.DataFrame]:
    """Yield frames without the last coordinate of files that end in the middle of it."""
    held: pl.DataFrame | None = None
    for frame in frames:
        if held is not None:
            yield held
        held = frame
    if held is None:
        return
    cut = [str(file) for file in files if _cut_off(file)]
    if cut:
        last = pl.int_range(pl.len()).over("file") == pl.len().over("file") - 1
        spoiled = last & pl.col("file").is_in(cut)
        held = held.with_columns(lat=pl.when(~spoiled).then(pl.col("lat")))
    yield held


def _cut_off(file: Path) -> bool:
    """Tell whether a file ends in the middle of a number.

    Where a coordinate is the last field, a file that was cut off ends in a number with fewer
    digits. So a last line without a line end must have as many digits as the line before.
    """
    with file.open("rb") as stream:
        if stream.read(2) == b"\x1f\x8b":
            return False  # a gzip that is cut off says so itself
        stream.seek(max(0, file.stat().st_size - 200))
        lines = stream.read().split(b"\n")
    if not lines[-1].strip() or len(lines) < 2:
        return False
    numbers = [re.split(rb"[,;\t]", line.strip())[-1] for line in lines[-2:]]
    digits = [len(number.partition(b".")[2]) for number in numbers]
    return digits[1] < digits[0]
