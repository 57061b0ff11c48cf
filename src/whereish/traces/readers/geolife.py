"""GeoLife: a folder for each person, in it ``Trajectory``, in it ``.plt`` files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from whereish.lazy import pl
from whereish.traces.readers.reader import Options, start_of
from whereish.traces.readers.texts import Line, TextReader, all_null, scan_lines, typed_frames

_HEADING_LINES = 6
_FIELDS = ("lat", "lon", "zero", "feet", "days", "day", "clock")


class GeoLife(TextReader):
    """Microsoft's GeoLife data set: six lines of heading, then seven fields."""

    name: ClassVar[str] = "geolife"
    words: ClassVar[str] = (
        "a tree of `.plt` files, like `000/Trajectory/20081023025304.plt`. The folder names the "
        "person. Times are UTC."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".plt",)
    names_people: ClassVar[bool] = True

    def sniff(self, file: Path, head: bytes) -> bool:
        """Recognise the first line of a .plt file."""
        return start_of(head)[:18].lower() == b"geolife trajectory"

    def people(self, files: Sequence[Path]) -> dict[str, list[Path]]:
        """Return the files of each person: those of one folder."""
        people: dict[str, list[Path]] = {}
        for file in files:
            owner = file.parent.parent if file.parent.name == "Trajectory" else file.parent
            people.setdefault(owner.resolve().name, []).append(file)
        return people

    def frames(self, files: Sequence[Path], options: Options) -> Iterator[pl.DataFrame]:
        """Read the files of one person."""
        rows = scan_lines(files, _FIELDS, skip_rows=_HEADING_LINES).with_columns(
            user=pl.lit(options.owner(files[0])),
            time=pl.concat_str(["day", "clock"], separator=" "),
            blank=all_null("lat", "lon", "day"),
        )
        yield from typed_frames(rows, files, _HEADING_LINES + 1, options.zone)

    def line(self, file: Path, options: Options) -> Line:
        """Return how a line is read."""
        user = options.owner(file)
        return Line(lambda f: (user, f[6] and f"{f[5]} {f[6]}", f[0], f[1]), _HEADING_LINES)
