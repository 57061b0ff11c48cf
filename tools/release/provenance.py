"""What a release was made from: a statement in the form of in-toto, with SLSA's predicate.

The statement names every file with its digest, the commit, and the pins of everything that was
installed to make it. It holds no time but that of the commit and no name of a machine, so the same
commit gives the same statement. With a key, it is also signed (Ed25519, in a DSSE envelope).

References
----------
in-toto Attestation Framework, Statement v1; SLSA v1.0, Provenance; DSSE v1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from pathlib import Path
from typing import Any

NAME, SIGNED = "provenance.json", "provenance.intoto.jsonl"
PINS = (
    "requirements/build.txt",
    "requirements/core.txt",
    "requirements/dev.txt",
    "requirements/node.txt",
    "deploy/requirements.txt",
    "src/whereish/service/page/package-lock.json",
    "src/whereish/service/page/vendor.sha256",
)
BUILDER = "urn:whereish:make-release"
_STATEMENT, _PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
_PAYLOAD = "application/vnd.in-toto+json"


class ProvenanceError(Exception):
    """A statement is not one of these files, or not signed by this key: why, in one line."""


def statement(
    files: dict[str, str], commit: str, version: str, root: Path, builder: str = BUILDER
) -> dict[str, Any]:
    """Return the statement about files with these digests."""
    pins = [
        {"uri": f"file:{name}", "digest": {"sha256": _sha256((root / name).read_bytes())}}
        for name in PINS
    ]
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": files[name]}} for name in sorted(files)],
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:whereish:release:v1",
                "externalParameters": {"version": version, "command": "make release"},
                "internalParameters": {
                    "python": platform.python_version(),
                    "system": platform.system(),
                    "machine": platform.machine(),
                },
                "resolvedDependencies": [
                    {"uri": "git:whereish", "digest": {"gitCommit": commit}},
                    *pins,
                ],
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def sign(payload: bytes, private: bytes) -> dict[str, Any]:
    """Return an envelope with a statement and its signature by a private key (PEM)."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(private, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ProvenanceError("the key of a release must be an Ed25519 key, as whereish sign makes")
    signature = base64.b64encode(key.sign(_encoded(payload))).decode()
    public = key.public_key().public_bytes_raw().hex()
    return {
        "payloadType": _PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": public, "sig": signature}],
    }


def write(folder: Path, said: dict[str, Any], private: bytes | None) -> None:
    """Write the statement into a folder, and the envelope if there is a key."""
    payload = (json.dumps(said, indent=1) + "\n").encode()
    (folder / NAME).write_bytes(payload)
    if private is not None:
        (folder / SIGNED).write_text(json.dumps(sign(payload, private)) + "\n")


def check(folder: Path, files: dict[str, str], public: str | None = None) -> str:
    """Return the commit that a folder's statement names.

    Raises
    ------
    ProvenanceError
        If the statement is about other files; with a public key (hexadecimal), if this key has not
        signed it.
    """
    payload = (folder / NAME).read_bytes()
    said = json.loads(payload)
    subjects = {one["name"]: one["digest"]["sha256"] for one in said["subject"]}
    if subjects != {name: files[name] for name in files if name not in (NAME, SIGNED)}:
        raise ProvenanceError(f"{NAME} must name all files of the release with their digests")
    if public is not None:
        _check_signature(folder / SIGNED, payload, public)
    commit: str = said["predicate"]["buildDefinition"]["resolvedDependencies"][0]["digest"][
        "gitCommit"
    ]
    return commit


def _check_signature(file: Path, payload: bytes, public: str) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        envelope = json.loads(file.read_text())
        signature = base64.b64decode(envelope["signatures"][0]["sig"], validate=True)
        if base64.b64decode(envelope["payload"], validate=True) != payload:
            raise ProvenanceError(f"{SIGNED} must hold the statement of {NAME}")
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
            signature, _encoded(payload)
        )
    except FileNotFoundError:
        raise ProvenanceError(f"the release is not signed: there is no {SIGNED}") from None
    except (InvalidSignature, ValueError, KeyError, IndexError):
        raise ProvenanceError(f"{SIGNED} is not signed by the given key") from None


def _encoded(payload: bytes) -> bytes:
    """Return what DSSE signs: the type and the payload, each with its length."""
    kind = _PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
