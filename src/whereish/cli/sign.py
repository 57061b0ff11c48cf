"""``whereish sign``: sign a mechanism, and make the key to do it with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON, argument, option, output_option
from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.format import audit_bytes, digest_of, new_private_key, public_key_of, signed
from whereish.format.mechanism_file import read_file

_KEY = "The key"


@command
def sign(
    source: Path | None = argument("[MECHANISM]", "The .whereish file of a mechanism.", None),
    key: Path | None = option(None, "Your private key: Ed25519, in a PEM file.", _KEY, "FILE"),
    new_key: Path | None = option(
        None, "Make a private key first, in this new file.", _KEY, "FILE"
    ),
    output: Path | None = output_option(
        "The signed file. If not given, MECHANISM is replaced.", default=None
    ),
    as_json: bool = AS_JSON,
) -> Facts:
    """Sign a mechanism: others can check that it is yours.

    It is audited first. Others check it with your public key: `whereish audit --key`, or
    `readMechanism(bytes, {key})` in the browser.
    """
    if (key is None) == (new_key is None):
        raise InputError(
            "one key must be given: --key FILE, your private key, or --new-key FILE to make one"
        )
    if source is None and new_key is None:
        raise InputError("MECHANISM, the file to sign, must be given with --key")
    content = None
    if source is not None:
        _, content = read_file(source)
        audit_bytes(content)
        check_writable(output or source)
    if new_key is not None:
        private = new_private_key()
        write_new(new_key, private)
        say(f"Wrote a private key to {new_key}. Only you can read it: keep it secret.")
    else:
        _, private = read_file(key or Path(), "key")
    public = public_key_of(private)
    told = {"public_key": public, "sha256": None, "output": None}
    if content is not None:
        made = signed(content, private)
        target = output or source or Path()
        write_whole(target, made, private=True)
        told |= {"sha256": digest_of(made), "output": str(target)}
        say(f"Signed {target}: sha256 {told['sha256']}.")
    say(f"Public key: {public}")
    say("Others check the file with it: whereish audit MECHANISM --key PUBLIC_KEY.")
    return told


def write_new(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole, and never over another."""
    check_writable(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, path)  # fails if the file exists
    except FileExistsError:
        raise InputError(f"new-key must be a new file, but {path} exists") from None
    except OSError as wrong:
        raise InputError(f"key {path} cannot be written: {wrong.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def public_key_from(text: str) -> str | bytes:
    """Read a public key from a file of that name; otherwise the text is the key."""
    with contextlib.suppress(OSError, ValueError):
        if Path(text).is_file():
            return read_file(text, "key")[1]
    return text
