"""A cache of counts: named by the content of the traces, readable by its owner only.

Counts show where people are. So they are in a folder that only its owner may enter, in files named
by a digest of the content of the traces. A file is deleted 30 days after its last use, or by
`forget`. A file that another user may have written is not read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whereish.errors import InputError
from whereish.files import make_folder, read_own, write_whole

if TYPE_CHECKING:
    from whereish.traces.source import Traces

_SUFFIX = ".kept"
_OLD_S = 30 * 24 * 3600


def cache_folder() -> Path:
    """Return the folder: ``WHEREISH_CACHE``, or ``whereish`` in the user's cache folder."""
    named = os.environ.get("WHEREISH_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whereish"


def place_for(folder: Path, traces: Traces, key: Any) -> Path:
    """Return the file for the counts of these traces; the key says how they are counted."""
    text = json.dumps([traces.digest(), key], sort_keys=True)
    return folder / (hashlib.blake2b(text.encode(), digest_size=20).hexdigest() + _SUFFIX)


def cached(file: Path) -> bytes | None:
    """Return the content of a file, or None if there is none or it is damaged."""
    content = read_own(file)
    if content is None:
        return None
    with contextlib.suppress(OSError):
        os.utime(file, follow_symlinks=False)
    whole = zlib.crc32(content[4:]) == int.from_bytes(content[:4], "big")
    return content[4:] if whole and len(content) > 4 else None


def keep(file: Path, content: bytes) -> None:
    """Write a file; if it cannot be written, the next run counts again."""
    try:
        make_folder(file.parent)
        if file.parent.stat().st_mode & stat.S_IWOTH:
            return  # anybody could have written what is in there
        mark = zlib.crc32(content).to_bytes(4, "big")
        write_whole(file, mark + content, private=True)
        for other in file.parent.glob(f"*{_SUFFIX}"):
            if time.time() - other.stat().st_mtime > _OLD_S:
                other.unlink()
    except (OSError, InputError):
        return


def forget(folder: Path) -> int:
    """Delete all files of the cache, and return how many there were."""
    files = list(folder.glob(f"*{_SUFFIX}"))
    for file in [*files, *folder.glob(f".*{_SUFFIX}.*")]:  # the second: of runs that were killed
        try:
            file.unlink(missing_ok=True)
        except OSError as wrong:
            raise InputError(f"{file} cannot be deleted: {wrong.strerror}") from None
    return len(files)
