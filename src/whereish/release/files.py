"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from whereish.errors import InputError


def check_writable(path: str | Path) -> None:
    """Raise InputError unless a file can be written there: better now than after an hour.

    A link is followed: what it points to is written, the link stays.
    """
    try:
        file = Path(path).resolve()
        folder = file.parent
        a_folder, something, ordinary = file.is_dir(), file.exists(), file.is_file()
    except (OSError, ValueError, RuntimeError, TypeError):
        raise InputError("output must be the name of a file, got one that cannot be used") from None
    if a_folder:
        raise InputError(f"output must be a file, but {path} is a folder")
    if something and not ordinary:
        raise InputError(f"output must be an ordinary file, but {path} is something else")
    if not folder.is_dir():
        raise InputError(f"output must be in a folder that exists, got {path}")
    try:
        descriptor, trial = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
    except OSError as wrong:
        raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None
    os.close(descriptor)
    os.unlink(trial)


def write_whole(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a file so that no one ever sees half of it.

    The bytes go to a new file beside it, are forced to the disk, and take its name in one step.

    Parameters
    ----------
    private
        Only the owner may read it.
    """
    check_writable(path)
    file = Path(path).resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o600 if private else 0o666 & ~_umask())
        os.replace(temporary, file)
    except BaseException as wrong:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(wrong, OSError):
            raise InputError(f"output {file} cannot be written: {wrong.strerror}") from None
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
