"""Write files and folders atomically: completely or not at all.

No link that another user may have made is followed on the way to the target.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from whereish.errors import InputError

# A folder without read permission can only be opened with O_PATH, on systems that have it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_NAME_BYTES = 200  # of a name: with a random suffix it stays below the limit of file systems


@dataclass(frozen=True)
class Target:
    """The place of a file: a file descriptor of its folder, the folder's real path, and a name."""

    folder: int
    real: Path
    name: str

    def temporary(self) -> tuple[int, str]:
        """Create a file in the same folder, under a random name."""
        begin = os.fsdecode(os.fsencode(self.name)[:_NAME_BYTES])
        beside = f".{begin}.{secrets.token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(beside, flags, 0o600, dir_fd=self.folder), beside


@contextlib.contextmanager
def locate(path: str | Path, *, make: int | None = None) -> Iterator[Target]:
    """Resolve a path to a `Target`, without following a link that another user may have made.

    - A folder on the way may be a link that belongs to this user or to root, unless every user may
      delete that link (the folder around it is writable for all, without the sticky bit). Any other
      link is refused.
    - The name itself may be a link that belongs to this user or to root, in a folder that is not
      writable for all: the link is followed, and stays. Any other link is replaced like a file.

    Each folder is opened relative to its parent, so that none can be exchanged in between.
    Missing folders are created with the mode ``make``, if that is given. A link that is not
    followed raises InputError, a folder that is missing OSError or ValueError.
    """
    absolute = Path(os.path.abspath("."), path) if not Path(path).is_absolute() else Path(path)
    left, real, hops = list(absolute.parts[1:]), Path(absolute.anchor), 0
    folder = os.open(real, _FOLDER)
    try:
        while left:
            name = left.pop(0)
            if name == "..":
                real = real.parent
                folder = _entered(folder, name)
                continue
            there = _status(folder, name)
            if _is_followed(there, folder, real / name, last=not left):
                hops += 1
                if hops > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                to = Path(os.readlink(name, dir_fd=folder))
                left = [*to.parts[1:], *left] if to.is_absolute() else [*to.parts, *left]
                if to.is_absolute():
                    real = Path(to.anchor)
                    folder = _entered(folder, to.anchor)
                continue
            if not left:
                yield Target(folder, real, name)
                return
            if there is None and make is not None:
                os.mkdir(name, make, dir_fd=folder)
            folder = _entered(folder, name)
            real /= name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    finally:
        os.close(folder)


def _status(folder: int, name: str) -> os.stat_result | None:
    """Return the status of a file, without following a link; None if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_followed(status: os.stat_result | None, folder: int, path: Path, *, last: bool) -> bool:
    """Whether this is a link to follow, by the rules of `locate`; raise if it is refused."""
    if status is None or not stat.S_ISLNK(status.st_mode):
        return False
    trusted = status.st_uid in (os.geteuid(), 0)
    mode = os.fstat(folder).st_mode
    writable_for_all, sticky = bool(mode & stat.S_IWOTH), bool(mode & stat.S_ISVTX)
    if last:
        return trusted and not writable_for_all
    if not (trusted and (sticky or not writable_for_all)):
        raise InputError(
            f"output must not go through a link that others may have made, and {path} is one: "
            "give the folder itself"
        )
    return True


def _entered(folder: int, name: str) -> int:
    """Open a folder relative to its parent, and close the parent."""
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def is_utf8(name: str) -> bool:
    """Tell whether the name of a file can be written as UTF-8: not all names are text."""
    return name.isascii() or name == name.encode(errors="replace").decode()


def real_path(path: str | Path) -> Path:
    """Return the path that `locate` resolves a name to: one without links."""
    with _located(path) as target:
        return target.real / target.name


@contextlib.contextmanager
def _located(path: str | Path, *, make: int | None = None) -> Iterator[Target]:
    """Call `locate`, and turn the errors of the file system into InputError."""
    with contextlib.ExitStack() as stack:
        try:
            target = stack.enter_context(locate(path, make=make))
        except InputError:
            raise
        except IsADirectoryError:
            raise InputError(f"output must be a file, but {path} is a folder") from None
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"output must be in a folder that exists, got {path}") from None
        except PermissionError as wrong:
            raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None
        except (OSError, ValueError, TypeError):
            message = "output must be the name of a file, got one that cannot be used"
            raise InputError(message) from None
        yield target


def check_writable(path: str | Path) -> None:
    """Raise InputError unless a file can be written there: call it before a long computation."""
    with _located(path) as target:
        _check_target(path, target)
        with _writing(path):
            descriptor, trial = target.temporary()
        os.close(descriptor)
        os.unlink(trial, dir_fd=target.folder)


@contextlib.contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Turn an error of the file system into InputError."""
    try:
        yield
    except OSError as wrong:
        raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None


def _check_target(path: str | Path, target: Target) -> None:
    there = _status(target.folder, target.name)
    if there is None or stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode):
        return
    if stat.S_ISDIR(there.st_mode):
        raise InputError(f"output must be a file, but {path} is a folder")
    raise InputError(f"output must be an ordinary file, but {path} is something else")


def write_whole(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a file atomically: a reader sees the old content or the new one.

    The bytes go to a temporary file in the same folder, which is synced to disk and renamed.
    If it is private, only the owner may read it. See `locate` for links.
    """
    with _located(path) as target, _writing(path):
        _check_target(path, target)
        descriptor, temporary = target.temporary()
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fchmod(stream.fileno(), 0o600 if private else 0o666 & ~_umask())
                os.fsync(stream.fileno())
            os.replace(temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=target.folder)
            raise


def open_new(path: str | Path) -> IO[bytes]:
    """Create a file that only its owner may read, and open it for writing; it must be new."""
    return _opened(path, os.O_WRONLY | os.O_APPEND | os.O_EXCL)


@contextlib.contextmanager
def locked(path: str | Path, refused: str) -> Iterator[None]:
    """Lock a file, made if missing; raise InputError with these words if another process has it."""
    import fcntl

    with _opened(path, os.O_WRONLY | os.O_APPEND) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(refused) from None
        yield


def _opened(path: str | Path, flags: int) -> IO[bytes]:
    with _located(path) as target:
        flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.fdopen(os.open(target.name, flags, 0o600, dir_fd=target.folder), "ab")
        except OSError as wrong:
            if wrong.errno == errno.ELOOP:
                raise InputError(f"output {path} must be a file, and it is a link") from None
            raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None


def read_own(path: str | Path) -> bytes | None:
    """Return the content of a file that only this user can have written; None otherwise.

    It must be a regular file and no link, belong to this user, and be in a folder that belongs to
    this user and is not writable for all.
    """
    try:
        with locate(path) as target:
            around = os.fstat(target.folder)
            if around.st_uid != os.geteuid() or around.st_mode & stat.S_IWOTH:
                return None
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            with os.fdopen(os.open(target.name, flags, dir_fd=target.folder), "rb") as stream:
                about = os.fstat(stream.fileno())
                if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode):
                    return None
                return stream.read()
    except (OSError, ValueError, InputError):
        return None


def make_folder(path: str | Path) -> Path:
    """Create a folder that only its owner may enter, if it is missing; return its real path."""
    try:
        with locate(Path(path) / "file", make=0o700) as target:
            return target.real
    except InputError:
        raise
    except OSError as wrong:
        raise InputError(f"output must be a folder, got {path}: {wrong.strerror}") from None
    except (ValueError, TypeError):
        raise InputError("output must be the name of a folder") from None


@contextlib.contextmanager
def new_folder(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `path` when the block ends without error.

    If it is private, only the owner may enter it.
    """
    try:
        with locate(path, make=0o777) as found:
            target, there = found.real / found.name, _status(found.folder, found.name)
        if there is not None and stat.S_ISLNK(there.st_mode):
            raise InputError(
                f"output must be a new or empty folder, and {path} is a link that others may have "
                "made: give the folder itself"
            )
        if there is not None and (not stat.S_ISDIR(there.st_mode) or any(target.iterdir())):
            raise InputError(f"output must be a new or empty folder, got {path}")
        prefix = f".{target.name[:_NAME_BYTES]}."
        temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    except InputError:
        raise
    except (OSError, ValueError, TypeError):
        raise InputError(f"output {path} cannot be made a folder") from None
    try:
        with _writing(path):
            yield temporary
            temporary.chmod(0o700 if private else 0o777 & ~_umask())
            os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
