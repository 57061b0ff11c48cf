"""The file of a mechanism: the integers that are sampled, and everything an audit of them needs.

The format is in docs/format.md. Reading has two steps: `read_contents` checks the form of a file,
and `Contents.mechanism` audits every ratio exactly. `whereish.format.audit` computes a certificate
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import FormatError, GuaranteeError, InputError, described
from whereish.files import write_whole
from whereish.format.certificate import FROM_PRIOR, as_plain, certify
from whereish.format.container import digest_of, pack, parse_object, unpack
from whereish.format.signature import as_public_key, check_signature
from whereish.limits import MOST_PLACES
from whereish.measures import Counts, Proof
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, LocalPlane, Places, as_prior, readonly

FORMAT = "whereish mechanism"
VERSION = "1"
SUFFIX = ".whereish"
_MOST_BYTES = 4 * 2**30
_BUILD_TEXTS = ("method", "solver", "form", "stopped")
_HEADER_TEXTS = {"format", "version", "mechanism", "certificate", "signature", "signer"}
_PROOF = ("proof_output", "proof_left", "proof_right", "proof_value")
_ARRAYS = {
    "counts": "u8", "inputs": "f8", "outputs": "f8", "inputs_latlon": "f8", "outputs_latlon": "f8",
    "metric": "f8", "prior": "f8",
    "proof_output": "i4", "proof_left": "i4", "proof_right": "i4", "proof_value": "f8",
}  # fmt: skip


def save_mechanism(path: str | Path, mechanism: Mechanism, prior: ArrayLike | None = None) -> None:
    """Write a mechanism to a file that only its owner may read, whole or not at all.

    Its probabilities are rounded to integers, which are audited exactly: see
    `whereish.Mechanism.released`.

    Parameters
    ----------
    prior
        Kept in the file when given, with the proof of the lower bound under it, so that an audit
        can compute both again. It is a map of somebody's life: leave it out of files that you
        pass on. Without it the file holds nothing that was computed from a prior. The counts
        still reveal most of the prior they were built for, see docs/limitations.md.

    Raises
    ------
    GuaranteeError
        If the integers do not have the epsilon. Nothing is written.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"output must be the name of a file, got {described(path)}")
    write_whole(path, mechanism_bytes(mechanism, prior), private=True)


def mechanism_bytes(mechanism: Mechanism, prior: ArrayLike | None = None) -> bytes:
    """Return the bytes that `save_mechanism` writes."""
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a Mechanism is needed, got {type(mechanism).__name__}")
    weights = None if prior is None else as_prior(prior, len(mechanism.inputs))
    build = mechanism.build if weights is not None else mechanism.build.without_prior()
    facts = {
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "outputs_are_inputs": mechanism.outputs is mechanism.inputs,
        "inputs": _frame(mechanism.inputs),
        "outputs": _frame(mechanism.outputs),
        "build": asdict(build),
    }
    return pack(_arrays(mechanism, weights), _texts(facts, certify(mechanism, weights)))


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
            for name, part in zip(_PROOF[:3], (proof.output, proof.left, proof.right), strict=True):
                arrays[name] = np.asarray(part, np.int32)
            arrays["proof_value"] = np.asarray(proof.value, np.float64)
    return arrays


def _texts(facts: dict[str, Any], certificate: dict[str, Any]) -> dict[str, str]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "mechanism": _json(facts),
        "certificate": _json(certificate),
    }


def load_mechanism(
    path: str | Path, *, key: str | bytes | None = None
) -> tuple[Mechanism, Array | None]:
    """Read a mechanism, audit it, and return it with the prior, if the file holds one.

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
    facts["build"] = asdict(_build(facts["build"]).without_prior())
    claimed |= dict.fromkeys(FROM_PRIOR)
    kept = {name: array for name, array in arrays.items() if name not in ("prior", *_PROOF)}
    return pack(kept, _texts(facts, claimed) | {"version": texts["version"]})


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


def read_contents(content: bytes, key: str | None = None) -> Contents:
    """Read the bytes of a file: check its digest, its signature and the form of all it holds."""
    arrays, texts = unpack(content)
    check_signature(texts, digest_of(content), key)
    _check_format(texts)
    if set(texts) - _HEADER_TEXTS:
        raise FormatError("its header says more than a mechanism's does")
    if texts.get("version") != VERSION:
        raise FormatError(f"version must be {VERSION}, got {str(texts.get('version'))[:20]!r}")
    for name, array in arrays.items():
        if name not in _ARRAYS or array.dtype != np.dtype(f"<{_ARRAYS[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that a mechanism has")
    facts, claimed = (parse_object(texts[name]) for name in ("mechanism", "certificate"))
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
        arrays["counts"], inputs, outputs, epsilon, arrays.get("metric"), _build(facts["build"]),
        prior, _proof(arrays, epsilon, len(inputs), len(outputs)), claimed,
    )  # fmt: skip


def _check_format(texts: dict[str, str]) -> None:
    if texts.get("format") != FORMAT:
        raise FormatError(f'not a mechanism: its header must say "format": "{FORMAT}"')


def _inputs_and_outputs(
    arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> tuple[Places, Places]:
    inputs, outputs = (_places(name, arrays, facts) for name in ("inputs", "outputs"))
    if not isinstance(facts["outputs_are_inputs"], bool):
        raise FormatError("a file must say whether outputs are the inputs")
    if facts["outputs_are_inputs"]:
        if not _same_places(inputs, outputs):
            raise FormatError("outputs must be the inputs, as it says they are")
        outputs = inputs
    if (inputs.plane is None) != (outputs.plane is None):
        raise FormatError("inputs and outputs must both lie on the earth, or neither")
    return inputs, outputs


def _proof(arrays: dict[str, NDArray[Any]], level: Any, n: int, m: int) -> Proof | None:
    if not any(name in arrays for name in _PROOF):
        return None
    parts = [arrays[name] for name in _PROOF]
    for part, most in zip(parts, (m, n, n, np.inf), strict=True):
        if part.shape != (len(parts[3]),) or not ((part >= 0) & (part < most)).all():
            raise FormatError("its proof is not of the form it must be")
    _, left, right, value = parts
    if len(value) > m * n * (n - 1) or (left == right).any():
        raise FormatError("its proof is not of the form it must be")
    return None if level is None else Proof(level, *parts)


def _json(value: Any) -> str:
    return json.dumps(as_plain(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _frame(places: Places) -> dict[str, Any]:
    plane = places.plane
    return {"plane": None if plane is None else [plane.lat, plane.lon], "cell_km": places.cell_km}


def _places(name: str, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> Places:
    plane, cell = facts[name]["plane"], facts[name]["cell_km"]
    for numbers in (plane, cell):
        if numbers is not None and not (
            len(numbers) == 2 and all(type(number) in (int, float) for number in numbers)
        ):
            raise FormatError(f"{name}: a plane and a cell are two numbers each")
    if cell is not None and not min(cell) > 0:
        raise FormatError(f"{name}: a cell must be larger than 0 km")
    places = Places(
        arrays[name],
        arrays.get(f"{name}_latlon"),
        None if plane is None else LocalPlane(*plane),
        None if cell is None else (cell[0], cell[1]),
    )
    if (places.plane is None) != (places.latlon is None):
        raise FormatError(f"{name}: degrees and a plane come together")
    if places.plane is not None and places.latlon is not None:
        off = np.abs(places.plane.to_xy(places.latlon) - places.xy).max()
        if not off < 1e-6:
            raise FormatError(f"{name}: degrees and km must be those of the same places")
    return places


def _same_places(one: Places, other: Places) -> bool:
    """Tell whether two sets of places have the same plane, cells, km and degrees."""
    if one.plane != other.plane or one.cell_km != other.cell_km:
        return False
    if one.latlon is None or other.latlon is None:
        return one.latlon is other.latlon and np.array_equal(one.xy, other.xy)
    return np.array_equal(one.xy, other.xy) and np.array_equal(one.latlon, other.latlon)


def _build(facts: dict[str, Any]) -> Build:
    known = {field.name for field in fields(Build)}
    build = {name: value for name, value in facts.items() if name in known}
    notes = [] if build.get("notes") is None else build["notes"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise FormatError("build.notes must be texts")
    build["notes"] = tuple(notes)
    if not isinstance(build.get("method"), str):
        raise FormatError("build.method has the wrong type")
    for name, value in build.items():
        wanted: Any = str if name in _BUILD_TEXTS else int | float
        fits = isinstance(value, wanted) and not isinstance(value, bool)
        if name != "notes" and value is not None and not fits:
            raise FormatError(f"build.{name} has the wrong type")
    return Build(**build)
