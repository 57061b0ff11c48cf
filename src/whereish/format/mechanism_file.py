"""The file of a mechanism: the integers that are sampled, and everything an audit of them needs.

The format is in docs/format.md. Reading has two steps: `read_contents` checks the form of a file,
and `Contents.mechanism` audits every ratio exactly. `whereish.format.audit` computes a certificate
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError, GuaranteeError, InputError, described
from whereish.everywhere import AnyMechanism, Everywhere, EverywhereBuild
from whereish.files import write_whole
from whereish.format.certificate import FROM_PRIOR, certify
from whereish.format.container import digest_of, pack, parse_object, unpack
from whereish.format.everywhere_certificate import FROM_POINTS
from whereish.format.everywhere_file import (
    PERSONAL,
    VERSION_2,
    EverywhereContents,
    everywhere_bytes,
    read_everywhere,
)
from whereish.format.parts import (
    FORMAT,
    PROOF,
    frame_of,
    proof_arrays,
    read_build,
    read_places,
    read_proof,
    texts_of,
)
from whereish.format.signature import as_public_key, check_signature
from whereish.limits import MOST_PLACES
from whereish.measures import Counts, Proof
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, Places, as_prior, readonly

VERSION = "1"
SUFFIX = ".whereish"
_MOST_BYTES = 4 * 2**30
_HEADER_TEXTS = {"format", "version", "mechanism", "certificate", "signature", "signer"}
_ARRAYS = {
    "counts": "u8", "inputs": "f8", "outputs": "f8", "inputs_latlon": "f8", "outputs_latlon": "f8",
    "metric": "f8", "prior": "f8",
    "proof_output": "i4", "proof_left": "i4", "proof_right": "i4", "proof_value": "f8",
}  # fmt: skip


def save_mechanism(path: str | Path, mechanism: AnyMechanism, prior: Any = None) -> None:
    """Write a mechanism to a file that only its owner may read, whole or not at all.

    Its probabilities are rounded to integers, which are audited exactly: see
    `whereish.Mechanism.released`. A mechanism with a guarantee for every point is written in
    version 2 of the format, all others in version 1.

    Parameters
    ----------
    prior
        The prior; for a mechanism with a guarantee for every point, (points, weights). It is kept
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


def mechanism_bytes(mechanism: AnyMechanism, prior: Any = None) -> bytes:
    """Return the bytes that `save_mechanism` writes."""
    if isinstance(mechanism, Everywhere):
        return everywhere_bytes(mechanism, prior)
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a Mechanism is needed, got {type(mechanism).__name__}")
    weights = None if prior is None else as_prior(prior, len(mechanism.inputs))
    build = mechanism.build if weights is not None else mechanism.build.without_prior()
    facts = {
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "outputs_are_inputs": mechanism.outputs is mechanism.inputs,
        "inputs": frame_of(mechanism.inputs),
        "outputs": frame_of(mechanism.outputs),
        "build": asdict(build),
    }
    return pack(_arrays(mechanism, weights), texts_of(facts, certify(mechanism, weights), VERSION))


def _arrays(mechanism: Mechanism, prior: Array | None) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "counts": mechanism.counts,
        "inputs": mechanism.inputs.xy,
        "outputs": mechanism.outputs.xy,
    }
    for name, places in (("inputs", mechanism.inputs), ("outputs", mechanism.outputs)):
        if places.latlon is not None:
            arrays[f"{name}_latlon"] = places.latlon
    if mechanism.epsilon is not None and mechanism.limits.metric is not None:
        arrays["metric"] = mechanism.limits.metric
    if prior is not None:
        arrays["prior"] = prior
        if (proof := mechanism.proof) is not None:
            arrays |= proof_arrays(proof)
    return arrays


def load_mechanism(path: str | Path, *, key: str | bytes | None = None) -> tuple[Any, Any]:
    """Read a mechanism, audit it, and return it with the prior, if the file holds one.

    A file of version 1 holds a `Mechanism` and its prior. A file of version 2 holds an
    `EverywhereMechanism` or a `PlanarLaplaceEverywhere`; its prior has ``xy``, the visited points
    in km, and their ``weights``.

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


@dataclass(frozen=True)
class Contents:
    """What a file holds. Its form is checked; its ratios are not, until `mechanism` is called."""

    counts: Counts
    inputs: Places
    outputs: Places
    epsilon: float | None
    metric: Array | None
    build: Build
    prior: Array | None
    proof: Proof | None
    claimed: dict[str, Any]

    def mechanism(self) -> Mechanism:
        """Audit every ratio exactly and return the mechanism."""
        mix = self.claimed.get("rounding_mix")
        return Mechanism.of_counts(
            self.counts, self.inputs, self.outputs, self.epsilon, self.metric, self.build,
            self.proof, mix if isinstance(mix, float) else 0.0,
        )  # fmt: skip


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


def read_contents(content: bytes, key: str | None = None) -> Contents | EverywhereContents:
    """Read the bytes of a file: check its digest, its signature and the form of all it holds."""
    arrays, texts = unpack(content)
    check_signature(texts, digest_of(content), key)
    _check_format(texts)
    if set(texts) - _HEADER_TEXTS:
        raise FormatError("its header says more than a mechanism's does")
    version = texts.get("version")
    if version not in (VERSION, VERSION_2):
        raise FormatError(f"version must be {VERSION} or {VERSION_2}, got {str(version)[:20]!r}")
    facts, claimed = (parse_object(texts[name]) for name in ("mechanism", "certificate"))
    if version == VERSION_2:
        return read_everywhere(arrays, facts, claimed)
    return _read_first(arrays, facts, claimed)


def _read_first(
    arrays: dict[str, NDArray[Any]], facts: dict[str, Any], claimed: dict[str, Any]
) -> Contents:
    """Check the form of all that a file of version 1 holds."""
    for name, array in arrays.items():
        if name not in _ARRAYS or array.dtype != np.dtype(f"<{_ARRAYS[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that a mechanism has")
    if max(arrays["counts"].shape) > MOST_PLACES:
        raise FormatError(f"a mechanism must have at most {MOST_PLACES:,} places")
    inputs, outputs = _inputs_and_outputs(arrays, facts)
    epsilon, prior = facts["epsilon"], None
    if "prior" in arrays:
        as_prior(arrays["prior"], len(inputs))
        prior = readonly(arrays["prior"])  # not normalised: its digest is that of its bytes
    if "metric" in arrays and epsilon is None:
        raise FormatError("a metric comes with an epsilon only")
    return Contents(
        arrays["counts"], inputs, outputs, epsilon, arrays.get("metric"),
        read_build(facts["build"], Build), prior,
        read_proof(arrays, epsilon, len(inputs), len(outputs)), claimed,
    )  # fmt: skip


def _check_format(texts: dict[str, str]) -> None:
    if texts.get("format") != FORMAT:
        raise FormatError(f'not a mechanism: its header must say "format": "{FORMAT}"')


def _inputs_and_outputs(
    arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> tuple[Places, Places]:
    inputs, outputs = (read_places(name, arrays, facts) for name in ("inputs", "outputs"))
    if not isinstance(facts["outputs_are_inputs"], bool):
        raise FormatError("a file must say whether outputs are the inputs")
    if facts["outputs_are_inputs"]:
        if not _same_places(inputs, outputs):
            raise FormatError("outputs must be the inputs, as it says they are")
        outputs = inputs
    if (inputs.plane is None) != (outputs.plane is None):
        raise FormatError("inputs and outputs must both lie on the earth, or neither")
    return inputs, outputs


def _same_places(one: Places, other: Places) -> bool:
    """Tell whether two sets of places have the same plane, cells, km and degrees."""
    if one.plane != other.plane or one.cell_km != other.cell_km:
        return False
    if one.latlon is None or other.latlon is None:
        return one.latlon is other.latlon and np.array_equal(one.xy, other.xy)
    return np.array_equal(one.xy, other.xy) and np.array_equal(one.latlon, other.latlon)
