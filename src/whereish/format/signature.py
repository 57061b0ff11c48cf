"""The signature of a file: Ed25519, of its digest, beside it in the header.

The signed text is a line that names its purpose, and the digest in hexadecimal digits: so no
signature of anything else is one of a mechanism. The digest leaves the signature out, so that a
file has the same digest before and after it is signed. The fields are in docs/format.md.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from whereish.errors import FormatError, GuaranteeError, InputError
from whereish.format.container import digest_of, pack, unpack

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_DOMAIN = b"whereish mechanism signature v1\n"
_NEEDED = (
    "key must be an Ed25519 public key: 64 hexadecimal digits, base64 of 32 bytes, or PEM "
    "(whereish sign says what it is)"
)
_P = 2**255 - 19


def new_private_key() -> bytes:
    """Return a new private key, as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key_of(private: bytes) -> str:
    """Return the public key of a private one (PEM), in hexadecimal digits."""
    return _private(private).public_key().public_bytes_raw().hex()


def signed(content: bytes, private: bytes) -> bytes:
    """Return a file with a signature by a private key (PEM) in place of any that it has."""
    key = _private(private)
    arrays, texts = unpack(content)
    signature = key.sign(_DOMAIN + digest_of(content).encode("ascii"))
    beside = {"signature": signature.hex(), "signer": key.public_key().public_bytes_raw().hex()}
    return pack(arrays, texts | beside)


def as_public_key(value: str | bytes) -> str:
    """Read a public key in any of its forms; return it in hexadecimal digits.

    >>> as_public_key("00" * 31)
    Traceback (most recent call last):
    whereish.errors.InputError: key must be an Ed25519 public key: 64 hexadecimal digits, base64 \
of 32 bytes, or PEM (whereish sign says what it is)
    """
    plain = _public_bytes(value)
    if _is_small_order(plain):
        raise InputError(
            "key must be an Ed25519 public key that whereish sign printed: this one has small "
            "order, anybody can sign for it"
        )
    return plain.hex()


def check_signature(
    texts: Mapping[str, str], digest: str, key: str | bytes | None = None
) -> str | None:
    """Check that a key has signed a file with this digest; return the key, or None without one.

    Without a key a signature proves nothing: only its form is checked.

    Raises
    ------
    FormatError
        If the signature does not have the form of one.
    GuaranteeError
        If a key was asked for, and the file is not signed by it.
    """
    for name, length in (("signature", 128), ("signer", 64)):
        if name in texts and not re.fullmatch(rf"[0-9a-f]{{{length}}}", texts[name]):
            raise FormatError(f"its {name} must be {length} hexadecimal digits")
    if ("signature" in texts) != ("signer" in texts):
        raise FormatError("a signature and its signer come together")
    if key is None:
        return None
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    wanted = as_public_key(key)
    if "signature" not in texts:
        raise GuaranteeError("the file is not signed, and a key was asked for")
    if texts["signer"] != wanted:
        raise GuaranteeError("the file is signed by another key than was asked for")
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(wanted))
        public.verify(bytes.fromhex(texts["signature"]), _DOMAIN + digest.encode("ascii"))
    except (InvalidSignature, ValueError):
        raise GuaranteeError(
            "the signature does not hold: the key has not signed this file"
        ) from None
    return wanted


def _private(pem: bytes) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            "key must be an Ed25519 private key in a PEM file without a password: "
            "make one with whereish sign --new-key FILE"
        )
    return key


def _public_bytes(value: str | bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        if isinstance(value, bytes) and len(value) == 32:
            return value
        text = (value.decode("ascii") if isinstance(value, bytes) else value).strip()
        if re.fullmatch(r"[0-9a-fA-F]{64}", text):
            return bytes.fromhex(text)
        if text.startswith("-----"):
            key = load_pem_public_key(text.encode("ascii"))
            if not isinstance(key, Ed25519PublicKey):
                raise InputError(_NEEDED)
            return key.public_bytes_raw()
        plain = base64.b64decode(text.rstrip("=") + "=", altchars=b"-_" if set("-_") & set(text)
                                 else None, validate=True)  # fmt: skip
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise InputError(_NEEDED) from None
    if len(plain) != 32:
        raise InputError(_NEEDED)
    return plain


def _is_small_order(key: bytes) -> bool:
    """Tell whether 8 times the point is the neutral one: a made-up signature would verify.

    Its y is 1 or -1 (order 1, 2), 0 (order 4), or that of a point whose double has y = 0 (order 8).
    The sign of x does not matter, nor whether y is below the modulus.
    """
    y = int.from_bytes(key, "little") & (2**255 - 1)
    doubled = 121665 * y**4 - 243332 * y**2 + 121666
    return y * (y**2 - 1) * doubled % _P == 0
