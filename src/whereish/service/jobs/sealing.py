"""Encryption of recipes and files in the database: a copy of it shows no prior.

AES-256-GCM with a secret that is not in the database: it is in a file beside the embedded database,
or in an environment variable that several servers share.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from whereish.errors import InputError, WhereishError
from whereish.files import write_whole
from whereish.service.settings import SECRET_VARIABLE

WRONG_SECRET = (
    f"the secret must be the one that the database was written with: check {SECRET_VARIABLE}, "
    "which several servers must share, or the file named secret"
)
_NONCE = 12


class SealError(WhereishError):
    """Sealed bytes cannot be opened: they were sealed with another secret, or changed."""


class Seal:
    """Seals bytes, opens them again, and makes keyed digests."""

    def __init__(self, secret: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(hashlib.sha256(b"seal" + secret).digest())
        self._digest_key = hashlib.sha256(b"digest" + secret).digest()

    def __repr__(self) -> str:
        return "Seal()"

    def close(self, content: bytes, label: str) -> bytes:
        """Seal bytes; they can be opened with the same label only."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, content, label.encode())

    def open(self, sealed: bytes, label: str) -> bytes:
        """Open sealed bytes; raise SealError if their secret was another, or they were changed."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], label.encode())
        except InvalidTag:
            raise SealError(WRONG_SECRET) from None

    def digest(self, content: bytes) -> str:
        return hmac.new(self._digest_key, content, hashlib.sha256).hexdigest()


def seal_of(folder: Path) -> Seal:
    """Return the seal of a service: from the variable, or from a file, made if missing."""
    given = os.environ.get(SECRET_VARIABLE)
    if given is not None:
        if len(given) < 32:
            raise InputError(
                f"{SECRET_VARIABLE} must have at least 32 characters, got {len(given)}"
            )
        return Seal(given.encode())
    file = folder / "secret"
    if not file.exists():
        write_whole(file, secrets.token_hex(32).encode() + b"\n", private=True)
    return Seal(file.read_bytes().strip())
