"""Files: written whole or not at all, a folder of them likewise; read packed or not."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from whereish.errors import InputError

_PIECE = 8192  # a gzip that is cut off gives up no more than this


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


@contextlib.contextmanager
def new_folder(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Fill a new folder beside the one that is wanted; it takes its name when it is whole.

    Parameters
    ----------
    private
        Only the owner may enter it.
    """
    try:
        target = Path(path).resolve()
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"output must be a new or empty folder, got {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except (OSError, ValueError, TypeError) as wrong:
        if isinstance(wrong, InputError):
            raise
        raise InputError(f"output {path} cannot be made a folder") from None
    try:
        yield made
        made.chmod(0o700 if private else 0o777 & ~_umask())
        os.replace(made, target)
    except OSError as wrong:
        raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def open_bytes(file: Path) -> IO[bytes]:
    """Open a file, unpacking it on the way if it is a gzip."""
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(file)) if packed else file.open("rb")


def read_steps(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield what a stream holds in steps of some size; before an error, what came before it."""
    held: list[bytes] = []
    length = 0
    try:
        while piece := stream.read(min(size, _PIECE)):
            held.append(piece)
            length += len(piece)
            if length >= size:
                yield b"".join(held)
                held, length = [], 0
    except (OSError, EOFError, zlib.error):
        if held:
            yield b"".join(held)
        raise
    if held:
        yield b"".join(held)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
