"""The key of a ledger: what its rows are authenticated with, and how far it has come.

The file beside the ledger (``mine.ledger.key``) holds 32 random bytes, and the last intent: what
was about to be written to the ledger, with a number that goes up by one. There are two places for
intents, used in turn, each with a MAC: a write that is cut off leaves the one before.

::

    0    32 bytes   a name and a version
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
    """One change of a ledger: its number, the period that becomes current, the cost of a draw."""

    number: int
    period: int
    cost: float


def mac(key: bytes, content: bytes) -> bytes:
    """Return the HMAC-SHA256 of some bytes."""
    return hmac.digest(key, content, "sha256")


def check_private(path: Path) -> None:
    """Raise FormatError if others than the owner may read or change a file."""
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        raise FormatError(
            f"{path} must be readable by its owner only, got mode {mode:04o}: it says where "
            f"somebody was. Run: chmod 600 '{path}'"
        )


class LedgerKey:
    """The key file of a ledger. Whoever holds the ledger's lock may use it.

    Parameters
    ----------
    ledger
        The file of the ledger.
    """

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + ".key")

    def exists(self) -> bool:
        """Whether there is a file of that name."""
        return os.path.lexists(self.path)

    def make(self) -> None:
        """Make a new key, with intent 0, whole or not at all; nothing if there is one."""
        key = secrets.token_bytes(32)
        content = _NAME + key + _slot(key, Intent(0, 0, 0.0)) + bytes(_SLOT)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{self.path.name}.", dir=self.path.parent
        )  # only its owner may read it
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                try:
                    os.link(temporary, self.path)
                except (AttributeError, PermissionError, NotImplementedError):
                    if not self.exists():  # a file system without links
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
                f"the ledger's key {self.path} is gone, and nothing else can tell whether the "
                f"ledger was changed. {WAY_OUT}"
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
                f"{WAY_OUT}"
            )
        return key, max(intents, key=lambda intent: intent.number)

    def write(self, key: bytes, intent: Intent) -> None:
        """Put an intent on the disk, in the place of the last but one."""
        with self.path.open("r+b", buffering=0) as file:
            file.seek(_START + _SLOT * (intent.number % 2))
            file.write(_slot(key, intent))
            os.fsync(file.fileno())


WAY_OUT = (
    "Nothing is reported. Put back the latest ledger and key that belong together; or remove both, "
    "and begin a new ledger once the period of your last report has ended: a new one does not know "
    "what was spent"
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
    """Make sure that a new name outlives a power cut, where folders can be synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
