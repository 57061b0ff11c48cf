"""The file of a mechanism: the integers that are sampled, and everything an audit of them needs.

The format is in docs/format.md. Reading has two steps: `read_contents` checks the form of a file,
and `Contents.mechanism` audits every ratio exactly. `whereish.format.audit` computes a certificate
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from whereish.errors import FormatError, GuaranteeError, InputError, described
from whereish.everywhere import AnyMechanism, Everywhere, EverywhereBuild
from whereish.files import write_whole
from whereish.format.by_time_file import (
    VERSION_3,
    ByTimeContents,
    by_time_bytes,
    by_time_without_prior,
    read_by_time,
)
from whereish.format.certificate import FROM_PRIOR, check_not_streets
from whereish.format.container import digest_of, pack, parse_object, unpack
from whereish.format.everywhere_certificate import FROM_POINTS
from whereish.format.everywhere_file import (
    PERSONAL,
    VERSION_2,
    EverywhereContents,
    everywhere_bytes,
    read_everywhere,
)
from whereish.format.parts import FORMAT, PROOF, read_build, texts_of
from whereish.format.places_file import VERSION, Contents, places_bytes, read_between_places
from whereish.format.signature import as_public_key, check_signature
from whereish.mechanisms.build import Build
from whereish.mechanisms.by_time import MechanismByTime
from whereish.mechanisms.mechanism import Mechanism

__all__ = [
    "SUFFIX", "Contents", "is_mechanism_file", "load_mechanism", "mechanism_bytes", "named",
    "read_contents", "read_file", "save_mechanism", "without_prior",
]  # fmt: skip

SUFFIX = ".whereish"
_MOST_BYTES = 4 * 2**30
_HEADER_TEXTS = {"format", "version", "mechanism", "certificate", "signature", "signer"}


def save_mechanism(
    path: str | Path, mechanism: AnyMechanism | MechanismByTime, prior: Any = None
) -> None:
    """Write a mechanism to a file that only its owner may read, whole or not at all.

    Its probabilities are rounded to integers, which are audited exactly: see
    `whereish.Mechanism.released`. A mechanism with a guarantee for every point is written in
    version 2 of the format, a `MechanismByTime` in version 3, all others in version 1.

    Parameters
    ----------
    prior
        The prior; for a mechanism with a guarantee for every point, (points, weights); for a
        `MechanismByTime`, a `TimeDependentPrior`. It is kept
        in the file when given, with the proof of the lower bound under it, so that an audit can
        compute both again. It is a map of somebody's life: leave it out of files that you pass on.
        Without it the file holds nothing that was computed from a prior. The counts still reveal
        most of the prior they were built for, see docs/limitations.md.

    Raises
    ------
    GuaranteeError
        If the integers do not have the epsilon. Nothing is written.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"output must be the name of a file, got {described(path)}")
    write_whole(path, mechanism_bytes(mechanism, prior), private=True)


def mechanism_bytes(mechanism: AnyMechanism | MechanismByTime, prior: Any = None) -> bytes:
    """Return the bytes that `save_mechanism` writes."""
    check_not_streets(mechanism)
    if isinstance(mechanism, Everywhere):
        return everywhere_bytes(mechanism, prior)
    if isinstance(mechanism, MechanismByTime):
        return by_time_bytes(mechanism, prior)
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a Mechanism is needed, got {type(mechanism).__name__}")
    return places_bytes(mechanism, prior)


def load_mechanism(path: str | Path, *, key: str | bytes | None = None) -> tuple[Any, Any]:
    """Read a mechanism, audit it, and return it with the prior, if the file holds one.

    A file of version 1 holds a `Mechanism` and its prior. A file of version 2 holds an
    `EverywhereMechanism` or a `PlanarLaplaceEverywhere`; its prior has ``xy``, the visited points
    in km, and their ``weights``. A file of version 3 holds a `MechanismByTime` and its
    `TimeDependentPrior`.

    Parameters
    ----------
    key
        The Ed25519 public key that must have signed the file: 32 bytes, or those in hexadecimal,
        base64 or PEM. Without it a signature is not checked.

    Raises
    ------
    FormatError
        If the file is not a mechanism, or was changed.
    GuaranteeError
        If it claims an epsilon that its integers do not have, or the key has not signed it.
    """
    file, content = read_file(path)
    signer = None if key is None else as_public_key(key)
    with named(file):
        contents = read_contents(content, signer)
        return contents.mechanism(), contents.prior


def without_prior(content: bytes) -> bytes:
    """Return a file without its prior and without everything that was computed from it.

    It is what `mechanism_bytes` writes without a prior. Counts, places and epsilon stay as they
    are, and are not audited again here. A signature is left out: it belongs to the file with the
    prior.

    Raises
    ------
    FormatError
        If it is not the file of a mechanism.
    """
    arrays, texts = unpack(content)
    _check_format(texts)
    facts, claimed = (json.loads(texts[name]) for name in ("mechanism", "certificate"))
    version = texts["version"]
    if version == VERSION_3:
        return by_time_without_prior(arrays, facts, claimed)
    second = version == VERSION_2
    kind = EverywhereBuild if second else Build
    facts["build"] = asdict(read_build(facts["build"], kind).without_prior())
    claimed |= dict.fromkeys(FROM_POINTS if second else FROM_PRIOR)
    personal = PERSONAL if second else ("prior", *PROOF)
    kept = {name: array for name, array in arrays.items() if name not in personal}
    return pack(kept, texts_of(facts, claimed, version))


def is_mechanism_file(path: str | Path) -> bool:
    """Tell from its first bytes whether a file looks like a mechanism."""
    try:
        with Path(path).open("rb") as stream:
            start = stream.read(8 + 64)
    except OSError:
        return False
    return start[8:].startswith(b'{"__metadata__":{"format":"' + FORMAT.encode())


def read_file(path: str | Path, name: str = "mechanism") -> tuple[Path, bytes]:
    """Return the path of a file and its bytes; errors name what it should be."""
    if not isinstance(path, str | Path):
        raise InputError(f"{name} must be the name of a file, got {described(path)}")
    file = Path(path)
    try:
        if not file.is_file():
            raise InputError(f"{name} must be a file that exists, got {file}")
        if file.stat().st_size > _MOST_BYTES:
            raise FormatError(f"{file} is too large to be a {name}")
        content = file.read_bytes()
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, InputError):
            raise
        said = getattr(wrong, "strerror", None) or wrong
        raise InputError(f"{name} {file} cannot be read: {said}") from None
    return file, content


@contextmanager
def named(file: Path) -> Iterator[None]:
    """Put the name of the file into errors; an error of any kind becomes one of the library."""
    try:
        yield
    except GuaranteeError as wrong:
        raise GuaranteeError(f"{file}: {wrong}") from None
    except InputError as wrong:
        raise FormatError(f"{file}: {wrong}") from None
    except KeyError as missing:
        raise FormatError(f"{file}: {missing} is missing") from None
    except (
        TypeError, AttributeError, ValueError, LookupError, ArithmeticError, RecursionError,
        MemoryError,
    ):  # fmt: skip
        raise FormatError(f"{file}: something in it has the wrong type") from None


def read_contents(
    content: bytes, key: str | None = None
) -> Contents | EverywhereContents | ByTimeContents:
    """Read the bytes of a file: check its digest, its signature and the form of all it holds."""
    arrays, texts = unpack(content)
    check_signature(texts, digest_of(content), key)
    _check_format(texts)
    if set(texts) - _HEADER_TEXTS:
        raise FormatError("its header says more than a mechanism's does")
    version = texts.get("version")
    if version not in (VERSION, VERSION_2, VERSION_3):
        raise FormatError(f"version must be 1, 2 or 3, got {str(version)[:20]!r}")
    facts, claimed = (parse_object(texts[name]) for name in ("mechanism", "certificate"))
    if version == VERSION_2:
        return read_everywhere(arrays, facts, claimed)
    if version == VERSION_3:
        return read_by_time(arrays, facts, claimed)
    return read_between_places(arrays, facts, claimed)


def _check_format(texts: dict[str, str]) -> None:
    if texts.get("format") != FORMAT:
        raise FormatError(f'not a mechanism: its header must say "format": "{FORMAT}"')
