"""The command that signs a mechanism, and makes the key to do it with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from whereish.cli.console import command, emit, say
from whereish.cli.options import AsJson
from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.format import audit_bytes, digest_of, new_private_key, public_key_of, signed


@command
def sign(
    source: Annotated[
        Path | None, typer.Argument(metavar="[K]", help="A mechanism's file.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your private key, a PEM file: Ed25519.")] = None,
    new_key: Annotated[
        Path | None, typer.Option(help="Make a private key first, into this new file.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write it; else K itself."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a mechanism, so that others can tell that it comes from you.

    It is audited first. Devices check it with the public key: whereish audit --key, or
    readMechanism(bytes, {key}) in the browser.
    """
    if (key is None) == (new_key is None):
        raise InputError(
            "give either --key FILE, your private key, or --new-key FILE to make one: one of them"
        )
    if source is None and new_key is None:
        raise InputError("a mechanism's file must be given to sign it, got none")
    content = None
    if source is not None:
        content = _bytes("mechanism", source)
        audit_bytes(content)
        check_writable(output or source)
    if new_key is not None:
        private = new_private_key()
        write_new(new_key, private)
        say(f"Wrote a private key to {new_key}: only you can read it. Keep it, and show it nobody.")
    else:
        private = _bytes("key", key or Path())
    public = public_key_of(private)
    told = {"public_key": public, "sha256": None, "output": None}
    if content is not None:
        made = signed(content, private)
        target = output or source or Path()
        write_whole(target, made, private=True)
        told |= {"sha256": digest_of(made), "output": str(target)}
        say(f"Signed {target}: sha256 {told['sha256']}.")
    say(f"Public key: {public}")
    say("Who has it checks the file with: whereish audit K --key PUBLIC_KEY.")
    if as_json:
        emit(told)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole, and never over another."""
    check_writable(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, path)  # which fails where there is something already
    except FileExistsError:
        raise InputError(f"new-key must be a new file, but there is a {path}") from None
    except OSError as wrong:
        raise InputError(f"key {path} cannot be written: {wrong.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def public_key_from(text: str) -> str | bytes:
    """Take a public key from a file of that name, or as what was typed."""
    with contextlib.suppress(OSError, ValueError):
        if Path(text).is_file():
            return _bytes("key", Path(text))
    return text


def _bytes(name: str, path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InputError(f"{name} must be a file that exists, got {path}")
        return path.read_bytes()
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, InputError):
            raise
        raise InputError(f"{name} {path} cannot be read") from None
