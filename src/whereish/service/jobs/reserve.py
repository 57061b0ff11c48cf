"""Room on the disk that is kept for deleting: a full disk must not keep what is to be forgotten.

To delete from SQLite takes room first: the pages that change are written to its log, and for a
large file that is about as much as the file.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LEAST = 4 * 2**20


class Reserve:
    """A file that takes up room until the room is needed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self, size: int) -> None:
        """Take up so many bytes, or as many as there are."""
        with contextlib.suppress(OSError):
            handle = os.open(self._file, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                has = os.fstat(handle).st_size
                if has > size:
                    os.ftruncate(handle, size)
                while has < size:
                    try:
                        os.posix_fallocate(handle, has, size - has)
                        has = size
                    except OSError:
                        os.ftruncate(handle, has)  # some file systems keep what they had begun
                        size = has + (size - has) // 2 if size - has > 64 * 1024 else has
            finally:
                os.close(handle)

    def release(self) -> None:
        """Give the room back."""
        with contextlib.suppress(OSError):
            os.truncate(self._file, 0)
