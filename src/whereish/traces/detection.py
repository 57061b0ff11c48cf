"""Tell what traces a file or folder holds, whose they are, and which files to read together."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from whereish.compressed import open_bytes
from whereish.errors import FormatError, InputError, WhereishError
from whereish.traces.readers import tables as formats

KINDS = ("geolife", "t-drive", "csv", "parquet", "gpx", "geojson", "google")
_SUFFIXES = {
    ".plt": "geolife", ".txt": "t-drive", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet",
    ".pq": "parquet", ".gpx": "gpx", ".geojson": "geojson", ".json": "json",
}  # fmt: skip
# Where a folder holds several kinds, the one that says most about people is meant.
_RANK = ("geolife", "google", "gpx", "geojson", "parquet", "t-drive", "csv")
_TAXI_LINE = re.compile(rb"\xef?\xbb?\xbf?\s*\d+\s*,\s*\d{4}-\d\d?-\d\d?[ T][\d:]+\s*,[^,]*,[^,]*$")
_GOOGLE_KEYS = (b'"locations"', b'"timelineObjects"', b'"semanticSegments"', b'"rawSignals"')
FILES_A_BATCH = 200


def listed(root: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files of a folder and of those in it, sorted; hidden ones are left out.

    Only ordinary files: a pipe would be waited for for ever. Those whose names are no text come
    second, as something that can be printed.
    """
    try:
        if not root.exists():
            raise InputError(f"traces must be a file or folder that exists, got {root}")
        if root.is_file():
            return [root], ()
        if not root.is_dir():
            raise InputError(f"traces must be an ordinary file or a folder, got {root}")
        found, seen = [], set()
        for folder, inner, names in os.walk(root, followlinks=True):
            here = os.stat(folder)
            if (here.st_dev, here.st_ino) in seen:  # a link that leads back
                inner.clear()
                continue
            seen.add((here.st_dev, here.st_ino))
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            paths = [Path(folder, name) for name in sorted(names) if not name.startswith(".")]
            found += [path for path in paths if path.is_file()]
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, WhereishError):
            raise
        raise InputError("traces must be a file or folder that can be read") from None
    texts, others = [], []
    for path in found:
        try:
            str(path).encode()
            texts.append(path)
        except UnicodeEncodeError:
            others.append(str(path).encode(errors="replace").decode())
    return texts, tuple(others)


def batches_of(files: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield as many files at a time as are read at once: neither too many nor too large."""
    held: list[Path] = []
    size = 0
    for file in files:
        if held and (size + size_of(file) > formats.LARGE_BYTES or len(held) == FILES_A_BATCH):
            yield tuple(held)
            held, size = [], 0
        held.append(file)
        size += size_of(file)
    if held:
        yield tuple(held)


def kind_by_name(file: Path) -> str:
    """Return what a file's name says it is; "" if nothing, "json" if one of several."""
    name = file.name.lower().removesuffix(".gz")
    return _SUFFIXES.get("." + name.rpartition(".")[2], "") if "." in name else ""


def kind_of(file: Path, *, alone: bool) -> str:
    """Tell the kind of a file from its name, and of texts from how it begins; "" if unknown."""
    ending = kind_by_name(file)
    if ending in ("json", "t-drive", "csv") or (alone and not ending):
        return _sniffed(file)
    return ending


def recognised(root: Path, kinds: set[str]) -> str:
    """Tell which of the kinds of files in a folder is meant."""
    for kind in _RANK:
        if kind in kinds:
            return kind
    raise FormatError(
        f"{root} must hold traces of a kind that is known ({', '.join(KINDS)}), or the kind be "
        "named; an archive must be unpacked first"
    )


def _sniffed(file: Path) -> str:
    """Tell what a text is from how it begins; "" if it is nothing known."""
    head = b""
    with contextlib.suppress(OSError, EOFError, zlib.error), open_bytes(file) as stream:
        # In small steps, because a gzip that is cut off gives its last one up.
        while len(head) < 1 << 16 and (more := stream.read(512)):
            head += more
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:1] == b"<":
        return "gpx" if b"<gpx" in start else ""
    if start[:1] in (b"{", b"["):
        if any(key in start for key in _GOOGLE_KEYS):
            return "google"
        if b'"features"' in start or b'"geometry"' in start or b'"FeatureCollection"' in start:
            return "geojson"
        return "google" if start[:1] == b"[" and b'"startTime"' in start else ""
    if start[:18].lower() == b"geolife trajectory":
        return "geolife"
    line = head.split(b"\n", 1)[0].rstrip(b"\r")
    if _TAXI_LINE.match(line):
        return "t-drive"
    return "csv" if kind_by_name(file) == "csv" or (b"," in line and b"lat" in line.lower()) else ""


def grouped(
    kind: str, files: list[Path], some: frozenset[str] | None
) -> tuple[tuple[str | None, tuple[Path, ...]], ...]:
    """Put files together that are read at once: a person's, or as many as make a batch."""
    if kind == "geolife":
        people: dict[str, list[Path]] = {}
        for file in files:
            owner = file.parent.parent if file.parent.name == "Trajectory" else file.parent
            people.setdefault(owner.resolve().name, []).append(file)
        return tuple(
            (name, tuple(paths))
            for name, paths in sorted(people.items())
            if some is None or name in some
        )
    return tuple((None, batch) for batch in batches_of(files))


def whose_file(root: Path, file: Path) -> str:
    """Name the person a file is of: the folder or file at the top that it is in, or is."""
    top = file.relative_to(root).parts[0] if file.is_relative_to(root) else file.name
    if top != file.name:
        return top
    bare = top[:-3] if top.lower().endswith(".gz") else top
    return bare.rpartition(".")[0] if kind_by_name(file) else bare


def size_of(file: Path) -> int:
    """Return how many bytes a file has."""
    try:
        return file.stat().st_size
    except OSError:
        return 1  # it is there, and cannot be read: let the reader say so
