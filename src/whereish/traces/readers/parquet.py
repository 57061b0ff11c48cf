"""Parquet: tables whose columns have names and types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from whereish.errors import FormatError
from whereish.lazy import pl
from whereish.parquet import check_parquet
from whereish.traces.cleaning import moments, read_times
from whereish.traces.readers import limits
from whereish.traces.readers.columns import Columns, match_columns
from whereish.traces.readers.reader import Options, Reader, start_of


class Parquet(Reader):
    """Tables as columns of numbers."""

    name: ClassVar[str] = "parquet"
    words: ClassVar[str] = "tables with the same columns as `csv`."
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    has_columns: ClassVar[bool] = True

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise the first four bytes."""
        return start_of(head)[:4] == b"PAR1"

    def columns(self, file: Path, options: Options) -> Columns:
        """Find the columns by the schema."""
        try:
            names = list(pl.scan_parquet(file, glob=False).collect_schema())
        except Exception as wrong:
            raise FormatError(type(wrong).__name__) from None
        return match_columns(names, options.columns, options.timed)

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read a table, some row groups at a time."""
        (file,) = files
        columns = self.columns(file, options)
        raw = pl.scan_parquet(file, glob=False)
        kinds = raw.collect_schema()
        named = {"time": pl.lit(None, pl.String)}
        named |= {column: pl.col(name) for column, name in columns.named.items()}
        whose = named["user"].cast(pl.String) if "user" in named else pl.lit(options.owner(file))
        rows = raw.select(
            user=whose,
            time=named["time"],
            lat=named["lat"].cast(pl.Float64, strict=False),
            lon=named["lon"].cast(pl.Float64, strict=False),
        )
        is_text = "time" not in columns.named or kinds[columns.named["time"]] == pl.String
        for name in (columns.named["lat"], columns.named["lon"]):
            if not (kinds[name].is_numeric() or kinds[name] == pl.String):
                raise FormatError(f"the column {name!r:.40} must hold numbers")
        check_parquet(file, list(columns.named.values()))
        count = raw.select(pl.len()).collect().item()
        for start in range(0, count, limits.ROWS_A_FRAME):
            frame = rows.slice(start, limits.ROWS_A_FRAME).collect()
            line = pl.int_range(start + 1, start + 1 + len(frame), eager=True)
            yield frame.with_columns(
                time=(read_times if is_text else moments)(frame["time"], options.zone),
                file=pl.lit(str(file)),
                line=line.cast(pl.Int64),
            )
