"""A reserve of disk space for deletions, so that a full disk does not prevent them.

SQLite needs space to delete: the pages that change are written to its log. For a large file that is
about as much as the file itself.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

LEAST = 4 * 2**20


class Reserve:
    """A file that holds disk space until the space is needed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self, size: int) -> None:
        """Hold so many bytes, or as many as are free."""
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
                        os.ftruncate(handle, has)  # some file systems keep a part of it
                        size = has + (size - has) // 2 if size - has > 64 * 1024 else has
            finally:
                os.close(handle)

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.truncate(self._file, 0)
