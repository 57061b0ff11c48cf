"""Find the files of traces, their format and their owners, and which to read together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from whereish.compressed import UNREADABLE, open_bytes
from whereish.errors import FormatError, InputError
from whereish.files import is_utf8
from whereish.traces.readers import KINDS, READERS, limits

FILES_A_BATCH = 200


def listed(root: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Return the files in a folder and below it, sorted, without hidden ones.

    Only ordinary files: to read a pipe could take for ever. Second come the files whose names are
    not UTF-8, as text that can be printed.
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
    except InputError:
        raise
    except (OSError, ValueError):
        raise InputError("traces must be a file or folder that can be read") from None
    texts = [path for path in found if is_utf8(str(path))]
    others = (str(path) for path in found if not is_utf8(str(path)))
    return texts, tuple(name.encode(errors="replace").decode() for name in others)


def batches_of(files: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """Split files into batches that are read at once: neither too many nor too large."""
    held: list[Path] = []
    size = 0
    for file in files:
        if held and (size + size_of(file) > limits.LARGE_BYTES or len(held) == FILES_A_BATCH):
            yield tuple(held)
            held, size = [], 0
        held.append(file)
        size += size_of(file)
    if held:
        yield tuple(held)


def ending(file: Path) -> str:
    """Return how the name of a file ends, without .gz, in lower case: ".csv", or ""."""
    name = file.name.lower().removesuffix(".gz")
    return "." + name.rpartition(".")[2] if "." in name else ""


def kinds_by_name(file: Path) -> tuple[str, ...]:
    """Return the formats that a file may have by its name."""
    suffix = ending(file)
    return tuple(
        reader.name
        for reader in READERS.values()
        if suffix in reader.suffixes or suffix in reader.shared_suffixes
    )


def kind_of(file: Path, *, alone: bool) -> str:
    """Tell the format of a file: by its name, or by its beginning; "" if neither tells."""
    suffix = ending(file)
    for reader in READERS.values():
        if suffix in reader.suffixes:
            return reader.name
    return _sniffed(file) if alone or kinds_by_name(file) else ""


def recognised(root: Path, kinds: set[str]) -> str:
    """Tell which of the formats in a folder is read: the first of the registry."""
    for kind in KINDS:
        if kind in kinds:
            return kind
    raise FormatError(
        f"{root} must hold traces of a known format ({', '.join(KINDS)}), or the format must be "
        "named; an archive must be unpacked first"
    )


def _sniffed(file: Path) -> str:
    """Tell the format of a file by its beginning; "" if no reader recognises it."""
    head = b""
    with contextlib.suppress(*UNREADABLE), open_bytes(file) as stream:
        # In small steps: a gzip file that was cut off loses the step in which it ends.
        while len(head) < 1 << 16 and (more := stream.read(512)):
            head += more
    return next((reader.name for reader in READERS.values() if reader.sniff(file, head)), "")


def grouped(
    kind: str, files: list[Path], some: frozenset[str] | None
) -> tuple[tuple[str | None, tuple[Path, ...]], ...]:
    """Put files together that are read at once: a person's, or as many as make a batch."""
    people = READERS[kind].people(files)
    if people is None:
        return tuple((None, batch) for batch in batches_of(files))
    chosen = sorted(name for name in people if some is None or name in some)
    return tuple((name, tuple(people[name])) for name in chosen)


def whose_file(root: Path, file: Path) -> str:
    """Name the person of a file: by the folder or file at the top of the tree."""
    top = file.relative_to(root).parts[0] if file.is_relative_to(root) else file.name
    if top != file.name:
        return top
    bare = top[:-3] if top.lower().endswith(".gz") else top
    return bare.rpartition(".")[0] if kinds_by_name(file) else bare


def size_of(file: Path) -> int:
    """Return how many bytes a file has."""
    try:
        return file.stat().st_size
    except OSError:
        return 1  # it cannot be read: the reader will say so
