"""The key file of a privacy ledger: a MAC key, and a write-ahead record of the last change.

The file beside the ledger (``mine.ledger.key``) holds 32 random bytes and the last intent: the
change that is about to be written to the ledger, with a number that increases by one. There are two
slots for intents, used in turn, each with a MAC: an interrupted write leaves the other one intact.

::

    0    32 bytes   name and version of the format
    32   32 bytes   the key
    64   64 bytes   an intent with an even number
    128  64 bytes   an intent with an odd number
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

from whereish.errors import FormatError, InputError

_NAME = b"whereish ledger key, version 1\n\n"
_INTENT = struct.Struct(">Qqd")  # number, period, cost
_SLOT, _START, _SIZE = 64, 64, 192


@dataclass(frozen=True)
class Intent:
    """A write-ahead record of one change of a ledger.

    Attributes
    ----------
    number
        1 for the first change, and so on.
    period
        The period that becomes the current one.
    cost
        Epsilon of the draw; 0 if the change is no draw.
    """

    number: int
    period: int
    cost: float


def mac(key: bytes, content: bytes) -> bytes:
    """Return the HMAC-SHA256 of some bytes."""
    return hmac.digest(key, content, "sha256")


def check_private(path: Path) -> None:
    """Raise FormatError if another user than the owner may read or change a file."""
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        raise FormatError(
            f"{path} must be readable by its owner only, got mode {mode:04o}: it holds personal "
            f"data. Run: chmod 600 '{path}'"
        )


class LedgerKey:
    """The key file of a ledger. Only a holder of the lock on the ledger may use it.

    Parameters
    ----------
    ledger
        The file of the ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + ".key")

    def exists(self) -> bool:
        """Whether the key file exists."""
        return os.path.lexists(self.path)

    def make(self) -> None:
        """Create the key file atomically, with a new key and intent 0; keep one that exists."""
        key = secrets.token_bytes(32)
        content = _NAME + key + _slot(key, Intent(0, 0, 0.0)) + bytes(_SLOT)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{self.path.name}.", dir=self.path.parent
        )  # with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                try:
                    os.link(temporary, self.path)
                except (AttributeError, PermissionError, NotImplementedError):
                    if not self.exists():  # a file system without hard links
                        os.rename(temporary, self.path)
            _sync_folder(self.path.parent)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def read(self) -> tuple[bytes, Intent]:
        """Return the key and the last intent.

        Raises
        ------
        FormatError
            If the file is gone, damaged, or readable by others.
        """
        try:
            check_private(self.path)
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise FormatError(
                f"the ledger's key {self.path} is gone, and without it no change of the ledger can "
                f"be detected. {RECOVERY}"
            ) from None
        except OSError as wrong:
            raise InputError(
                f"the ledger's key {self.path} cannot be read: {wrong.strerror}"
            ) from None
        key = content[32:_START]
        intents = [
            intent
            for start in (_START, _START + _SLOT)
            if (intent := _read_slot(key, content[start : start + _SLOT])) is not None
        ]
        if len(content) != _SIZE or not content.startswith(_NAME) or not intents:
            raise FormatError(
                f"{self.path} is no key of a ledger, or is damaged ({len(content)} bytes). "
                f"{RECOVERY}"
            )
        return key, max(intents, key=lambda intent: intent.number)

    def write(self, key: bytes, intent: Intent) -> None:
        """Write an intent to disk, over the last but one."""
        with self.path.open("r+b", buffering=0) as file:
            file.seek(_START + _SLOT * (intent.number % 2))
            file.write(_slot(key, intent))
            os.fsync(file.fileno())


RECOVERY = (
    "Nothing is reported. Restore the latest ledger and key that belong together; or delete both, "
    "and begin a new ledger when the period of your last report has ended: a new ledger does not "
    "know what was spent"
)


def _slot(key: bytes, intent: Intent) -> bytes:
    packed = _INTENT.pack(intent.number, intent.period, intent.cost)
    return (packed + mac(key, b"intent" + packed)).ljust(_SLOT, b"\0")


def _read_slot(key: bytes, slot: bytes) -> Intent | None:
    packed = slot[: _INTENT.size]
    if len(slot) != _SLOT or len(key) != 32:
        return None
    intent = Intent(*_INTENT.unpack(packed))
    return intent if hmac.compare_digest(slot, _slot(key, intent)) else None


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name survives a power failure, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
