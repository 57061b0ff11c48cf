"""Files: written whole or not at all, a folder of them likewise; read packed or not."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from whereish.errors import FormatError, InputError

_PIECE = 8192  # a gzip that is cut off gives up no more than this
# A folder that may be entered but not listed can be opened with O_PATH only, where there is one.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# What a packed file may unpack to: traces are packed to a tenth or, at best, a fiftieth.
UNPACKED_RATIO, UNPACKED_FLOOR, UNPACKED_MOST = 200, 64 * 2**20, 16 * 2**30
LONGEST_LINE = 2**22
_UNPACK_STEP = 2**18
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_MOST_LINKS = 40
_NAME_BYTES = 200  # of a name: with the ending of a temporary one it fits what disks take


@dataclass(frozen=True)
class Target:
    """Where a file is to be: a folder that is held open, its path without links, and a name."""

    folder: int
    real: Path
    name: str

    def status(self) -> os.stat_result | None:
        """Return what has this name now: a link as a link; None if there is nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def temporary(self) -> tuple[int, str]:
        """Open a new file beside it, under a name that nobody can foresee."""
        begin = os.fsdecode(os.fsencode(self.name)[:_NAME_BYTES])
        beside = f".{begin}.{secrets.token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(beside, flags, 0o600, dir_fd=self.folder), beside


@contextlib.contextmanager
def locate(path: str | Path, *, make: int | None = None) -> Iterator[Target]:
    """Find where a file of this name is to be, without following a link that others may have made.

    - A folder on the way may be a link of this user's or of root's, unless everybody may write
      where that link is and take it away (no sticky bit); any other is refused.
    - The name itself may be a link of this user's or of root's in a folder that not everybody may
      write to: then what it points to is meant, and the link stays. Any other link stands for
      nothing: it is replaced like a file.

    Each folder is opened from the one before, so that none can be changed for another meanwhile.

    Parameters
    ----------
    make
        Make folders that are missing on the way, with this mode.

    Raises
    ------
    InputError
        If a folder on the way is a link that is not followed.
    OSError, ValueError
        If there is no such folder.
    """
    whole = Path(os.path.abspath("."), path) if not Path(path).is_absolute() else Path(path)
    left, real, hops = list(whole.parts[1:]), Path(whole.anchor), 0
    folder = os.open(real, _FOLDER)
    try:
        while left:
            name = left.pop(0)
            if name == "..":
                real = real.parent
                folder = _entered(folder, name)
                continue
            there = _status(folder, name)
            if there is not None and stat.S_ISLNK(there.st_mode):
                ours = there.st_uid in (os.geteuid(), 0)
                around = os.fstat(folder).st_mode
                anybody, sticky = around & stat.S_IWOTH, around & stat.S_ISVTX
                if left and not (ours and (sticky or not anybody)):
                    raise InputError(
                        f"output must not go through a link that others may have made, and "
                        f"{real / name} is one: give the folder itself"
                    )
                if left or (ours and not anybody):
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
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _entered(folder: int, name: str) -> int:
    """Open a folder from another, which is closed."""
    inner = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return inner


def real_path(path: str | Path) -> Path:
    """Return where a file of this name is to be: a path without links to follow (see `locate`)."""
    with _located(path) as target:
        return target.real / target.name


@contextlib.contextmanager
def _located(path: str | Path, *, make: int | None = None) -> Iterator[Target]:
    """Find where a file is to be; what goes wrong on the way is an InputError."""
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
            raise InputError(
                "output must be the name of a file, got one that cannot be used"
            ) from None
        yield target


def check_writable(path: str | Path) -> None:
    """Raise InputError unless a file can be written there: better now than after an hour."""
    with _located(path) as target:
        _check_target(path, target)
        try:
            descriptor, trial = target.temporary()
        except OSError as wrong:
            raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None
        os.close(descriptor)
        os.unlink(trial, dir_fd=target.folder)


def _check_target(path: str | Path, target: Target) -> None:
    there = target.status()
    if there is None or stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode):
        return
    if stat.S_ISDIR(there.st_mode):
        raise InputError(f"output must be a file, but {path} is a folder")
    raise InputError(f"output must be an ordinary file, but {path} is something else")


def write_whole(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a file so that no one ever sees half of it.

    The bytes go to a new file beside it, are forced to the disk, and take its name in one step.
    `locate` says which links are followed.

    Parameters
    ----------
    private
        Only the owner may read it.
    """
    with _located(path) as target:
        _check_target(path, target)
        temporary = None
        try:
            descriptor, temporary = target.temporary()
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fchmod(stream.fileno(), 0o600 if private else 0o666 & ~_umask())
                os.fsync(stream.fileno())
            os.replace(temporary, target.name, src_dir_fd=target.folder, dst_dir_fd=target.folder)
        except BaseException as wrong:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=target.folder)
            if isinstance(wrong, OSError):
                raise InputError(f"output {path} cannot be written: {wrong.strerror}") from None
            raise


def open_new(path: str | Path) -> IO[bytes]:
    """Open a file to write to that only its owner may read, and that was not there before."""
    return _opened(path, os.O_WRONLY | os.O_APPEND | os.O_EXCL)


def open_lock(path: str | Path) -> IO[bytes]:
    """Open a file to hold on to, which may be there already but must not be a link."""
    return _opened(path, os.O_WRONLY | os.O_APPEND)


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
    """Return what a file holds that nobody but its reader can have written; None if there is none.

    It is an ordinary file of this user's, in a folder of this user's to which not everybody may
    write, and no link.
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
    """Make a folder that only its owner may enter, unless it is there; return its real path."""
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
    """Fill a new folder beside the one that is wanted; it takes its name when it is whole.

    Parameters
    ----------
    private
        Only the owner may enter it.
    """
    try:
        with locate(path, make=0o777) as found:
            target, there = found.real / found.name, found.status()
        if there is not None and stat.S_ISLNK(there.st_mode):
            raise InputError(
                f"output must be a new or empty folder, and {path} is a link that others may have "
                "made: give the folder itself"
            )
        if there is not None and (not stat.S_ISDIR(there.st_mode) or any(target.iterdir())):
            raise InputError(f"output must be a new or empty folder, got {path}")
        made = Path(tempfile.mkdtemp(prefix=f".{target.name[:_NAME_BYTES]}.", dir=target.parent))
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


class _Gzip(gzip.GzipFile):
    """A gzip that refuses to unpack to far more than it is."""

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
    """Return how many bytes a packed file of so many may unpack to."""
    return min(UNPACKED_MOST, max(UNPACKED_FLOOR, UNPACKED_RATIO * packed))


def unpacks_to_more(most: int) -> str:
    """Say why a packed file is not read."""
    return (
        f"it must not unpack to more than {max(1, most >> 20):,} MB, which is far more than its "
        "size: if you trust it, unpack it yourself"
    )


def open_bytes(file: Path) -> IO[bytes]:
    """Open a file, unpacking it on the way if it is a gzip.

    Reading on where it unpacks to far more than it is raises FormatError.
    """
    with file.open("rb") as raw:
        packed = raw.read(2) == _GZIP
    return cast(IO[bytes], _Gzip(file)) if packed else file.open("rb")


def read_line(stream: IO[bytes]) -> bytes:
    """Return the next line; of one that goes on and on, its beginning."""
    line = stream.readline(LONGEST_LINE)
    more = line
    while len(more) == LONGEST_LINE and not more.endswith(b"\n"):
        more = stream.readline(LONGEST_LINE)
    return line


def check_plain(begin: bytes) -> None:
    """Raise FormatError if a text, unpacked from gzip or not, begins like something packed."""
    if begin[:4] == _ZSTD or begin[:2] in (_GZIP, *_ZLIB):
        raise FormatError("it must be plain, or packed by gzip once: unpack it yourself")


def unpacked_size(file: Path) -> int:
    """Return how many bytes a text has once it is unpacked, having seen that it can be.

    For readers that unpack without a limit. A packed text is read once, and nothing of it held.

    Raises
    ------
    FormatError
        If it unpacks to far more than it is, has a line without an end, or is packed by something
        else than gzip.
    """
    with file.open("rb") as raw:
        begin = raw.read(4)
    if begin[:2] != _GZIP:
        check_plain(begin)
        return file.stat().st_size
    size = line = 0
    with contextlib.suppress(OSError, EOFError, zlib.error), open_bytes(file) as stream:
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
