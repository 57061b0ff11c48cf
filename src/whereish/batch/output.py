"""Where a batch puts its files: a folder, or an object store by its address."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from whereish.errors import InputError
from whereish.files import locked, make_folder, write_whole


class Output(Protocol):
    """A place for files, each written whole or not at all. It is sent to workers as it is."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file under its name."""

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, or None if there is none."""

    def size(self, name: str) -> int | None:
        """Return how large a file is, or None if there is none."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file."""


@dataclass(frozen=True)
class Folder:
    """A folder on this machine, or one that all workers share. Its owner's only."""

    path: Path

    def write(self, name: str, content: bytes) -> None:
        file = self.path / name
        if not file.parent.is_dir():
            make_folder(file.parent)
        write_whole(file, content, private=True)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            return (self.path / name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(file.name for file in (self.path / folder).iterdir() if file.is_file())
        return []

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Store:
    """An object store, through fsspec: there an object is whole or not there by itself."""

    address: str

    @property
    def _system(self) -> Any:
        import fsspec

        return fsspec.core.url_to_fs(self.address)[0]

    def _at(self, name: str) -> str:
        return f"{self.address.rstrip('/')}/{name}"

    def write(self, name: str, content: bytes) -> None:
        system, at = self._system, self._at(name)
        system.makedirs(at.rsplit("/", 1)[0], exist_ok=True)
        system.pipe_file(at, content)

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(self._at(name)))
        except FileNotFoundError:
            return None

    def size(self, name: str) -> int | None:
        try:
            return int(self._system.size(self._at(name)))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            found = self._system.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(str(path).rsplit("/", 1)[-1] for path in found)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._at(name))


def open_output(where: str) -> Output:
    """Return a folder, or a store for an address like ``s3://bucket/run``, that can be written."""
    if where.startswith("memory:"):
        raise InputError(f"output must be something that stays, got {where}: give a folder")
    if re.match(r"[a-z0-9]+:/(?!/)", where):
        raise InputError(
            f"output must be a folder, or an address like s3://bucket/run, got {where}"
        )
    if "://" not in where or where.startswith("file://"):
        made: Output = Folder(make_folder(where.removeprefix("file://")))
    else:
        made = Store(where)
    try:
        made.write(".batch/trial", b"")
        made.remove(".batch/trial")
    except ImportError as wrong:
        raise InputError(f"output {where} needs a package that is missing: {wrong}") from None
    except InputError:
        raise
    except Exception as wrong:
        raise InputError(
            f"output must be a folder or an address that can be written, got {where} "
            f"({getattr(wrong, 'strerror', None) or str(wrong) or type(wrong).__name__})"
        ) from None
    return made


@contextlib.contextmanager
def alone(output: Output) -> Iterator[None]:
    """Hold a folder, so that no two runs write into it at the same time."""
    if not isinstance(output, Folder):
        yield
        return
    file = output.path / ".batch" / "lock"
    make_folder(file.parent)
    words = f"output must be used by one run at a time, and another one uses {output.path}"
    with locked(file, words):
        yield
