"""Read files that may be compressed: gzip, within a limit on the size after decompression.

The limit is there because a small gzip file can unpack to any size (a decompression bomb).
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from whereish.errors import FormatError

_PIECE = 8192  # bytes read at once: the most that is lost of a truncated gzip file
# Limits on the unpacked size. Traces shrink to a tenth of their size or, at best, a fiftieth.
UNPACKED_RATIO, UNPACKED_FLOOR, UNPACKED_MOST = 200, 64 * 2**20, 16 * 2**30
LONGEST_LINE = 2**22
_UNPACK_STEP = 2**18
# What a read of a damaged or truncated file raises.
UNREADABLE = (OSError, EOFError, zlib.error)
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


class _Gzip(gzip.GzipFile):
    """A gzip stream that raises FormatError beyond `most_unpacked` bytes."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, "rb")
        self._most = most_unpacked(file.stat().st_size)
        self._so_far = 0

    def read(self, size: int | None = -1) -> bytes:
        return self._counted(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._counted(super().readline(-1 if size is None else size))

    def _counted(self, piece: bytes) -> bytes:
        self._so_far += len(piece)
        if self._so_far > self._most:
            raise FormatError(unpacks_to_more(self._most))
        return piece


def most_unpacked(packed: int) -> int:
    """Return the limit on the unpacked size of a file of `packed` bytes."""
    return min(UNPACKED_MOST, max(UNPACKED_FLOOR, UNPACKED_RATIO * packed))


def unpacks_to_more(most: int) -> str:
    """Return the message for a file that unpacks to more than `most` bytes."""
    return (
        f"it must not unpack to more than {max(1, most >> 20):,} MB, which is far more than its "
        "size: if you trust it, unpack it yourself"
    )


def open_bytes(file: Path) -> IO[bytes]:
    """Open a file for reading, and decompress it if it is a gzip file.

    A read beyond the limit on the unpacked size raises FormatError.
    """
    with file.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    return cast(IO[bytes], _Gzip(file)) if packed else file.open("rb")


def read_line(stream: IO[bytes]) -> bytes:
    """Return the next line; of a line longer than `LONGEST_LINE`, its first bytes."""
    line = stream.readline(LONGEST_LINE)
    more = line
    while len(more) == LONGEST_LINE and not more.endswith(b"\n"):
        more = stream.readline(LONGEST_LINE)
    return line


def check_plain(begin: bytes) -> None:
    """Raise FormatError if the first bytes of a text are those of a compressed file."""
    if begin[:4] == _ZSTD or begin[:2] in (_GZIP, *_ZLIB):
        raise FormatError("it must be plain, or packed by gzip once: unpack it yourself")


def unpacked_size(file: Path) -> int:
    """Return the unpacked size of a text in bytes, after checking that it is within the limits.

    Call it before a reader that decompresses without a limit. The text is streamed, not stored.
    It raises FormatError if the text unpacks beyond the limit, has a line longer than
    `LONGEST_LINE`, or is compressed by another program than gzip.
    """
    with file.open("rb") as raw:
        begin = raw.read(4)
    if begin[:2] != _GZIP:
        check_plain(begin)
        return file.stat().st_size
    size = line = 0
    with contextlib.suppress(*UNREADABLE), open_bytes(file) as stream:
        while piece := stream.read(_UNPACK_STEP):
            if size == 0:
                check_plain(piece)
            size += len(piece)
            first, last = piece.find(b"\n"), piece.rfind(b"\n")
            line = line + len(piece) if first < 0 else max(line + first, len(piece) - last)
            if line > LONGEST_LINE:
                raise FormatError(f"a line longer than {LONGEST_LINE >> 20} MB")
            line = line if first < 0 else len(piece) - last
    return size


def read_steps(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield a stream in steps of `size` bytes; before an error is raised, what was read so far."""
    held = bytearray()
    try:
        while piece := stream.read(min(size, _PIECE)):
            held += piece
            if len(held) >= size:
                yield bytes(held)
                held.clear()
    except UNREADABLE:
        if held:
            yield bytes(held)
        raise
    if held:
        yield bytes(held)
