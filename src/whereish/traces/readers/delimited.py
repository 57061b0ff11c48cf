"""CSV: text with a heading, whose columns a comma, a semicolon or a tab separates."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from whereish.compressed import check_plain, open_bytes, read_line
from whereish.errors import FormatError
from whereish.lazy import pl
from whereish.traces.cleaning import COLUMNS
from whereish.traces.readers import texts
from whereish.traces.readers.columns import Columns, match_columns, plain
from whereish.traces.readers.reader import Options, first_line, start_of
from whereish.traces.readers.texts import Line, TextReader

_HEADING_BYTES = 2**16


class Csv(TextReader):
    """Tables as text."""

    name: ClassVar[str] = "csv"
    words: ClassVar[str] = (
        "tables with columns for time, lat, lon and perhaps user, under their usual names or as "
        "`--columns time=when,lat=y,lon=x` says. Commas, semicolons or tabs separate the columns; "
        "where it is semicolons, numbers may have a decimal comma."
    )
    shared_suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    has_columns: ClassVar[bool] = True

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise a table by its name, or by a heading with a latitude."""
        if start_of(head)[:1] in (b"<", b"{", b"["):
            return False
        line = first_line(head)
        name = file.name.lower().removesuffix(".gz")
        return name.endswith(self.shared_suffixes) or (b"," in line and b"lat" in line.lower())

    def columns(self, file: Path, options: Options) -> Columns:
        """Find the columns by the heading."""
        try:
            with open_bytes(file) as stream:
                head = stream.read(_HEADING_BYTES)
            check_plain(head)
            heading = first_line(head)[:10_000]
            separator = max(",;\t", key=lambda mark: heading.count(mark.encode()))
            scan = pl.scan_csv(io.BytesIO(head), infer_schema=False, separator=separator)
            names = list(scan.collect_schema())
        except FormatError:
            raise
        except Exception as wrong:
            raise FormatError(type(wrong).__name__) from None  # its words may hold a row
        return match_columns(names, options.columns, options.timed, separator)

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read files with the same heading."""
        columns = self.columns(files[0], options)
        raw = texts.scan_csv_files(files, has_header=True, separator=columns.separator)
        named = {"time": pl.lit(None, pl.String)}
        named |= {column: pl.col(name) for column, name in columns.named.items()}
        if "user" not in named and len(files) == 1:
            named["user"] = pl.lit(options.owner(files[0]))  # streams; a look-up would not
        elif "user" not in named:
            owners = {str(file): options.owner(file) for file in files}
            named["user"] = pl.col(texts.FILE).replace_strict(owners)
        empty = pl.all_horizontal(pl.all().exclude(texts.FILE, texts.LINE).is_null())
        if columns.separator == ";":  # then numbers have decimal commas
            named |= {c: named[c].str.replace(",", ".", literal=True) for c in ("lat", "lon")}
        rows = raw.select(texts.FILE, texts.LINE, **named, blank=empty)
        frames = texts.typed_frames(rows, files, 2, options.zone)
        yield from texts.without_cut_off(frames, files) if columns.coordinate_last else frames

    def line(self, file: Path, options: Options) -> Line:
        """Return how a line is read: by the places of the columns in the heading."""
        columns, user = self.columns(file, options), options.owner(file)
        with open_bytes(file) as stream:
            text = read_line(stream).decode("utf-8", "replace").strip("\ufeff\r\n")
        heading = [plain(n) for n in next(csv.reader([text], delimiter=columns.separator), [])]
        at = {column: heading.index(plain(name)) for column, name in columns.named.items()}

        def pick(fields: list[Any]) -> tuple[Any, ...]:
            found = {column: fields[place] for column, place in at.items() if place < len(fields)}
            return tuple(found.get(c) if c in at or c != "user" else user for c in COLUMNS)

        return Line(pick, 1, columns.separator)
