"""A mechanism in a file: the integers that are sampled, and all that is needed to audit them.

The format is in docs/format.md. What is read is audited, ratio by ratio and exactly, before
anything is returned.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import FormatError, GuaranteeError, InputError, described
from whereish.files import write_whole
from whereish.format.certificate import FROM_PRIOR, certify, digest, losses
from whereish.format.claims import check_claim, check_early
from whereish.format.container import digest_of, pack, parse_object, unpack
from whereish.format.signature import as_public_key, check_signature
from whereish.limits import MOST_PLACES
from whereish.measures import Proof
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, LocalPlane, Places, as_prior, readonly

FORMAT = "whereish mechanism"
VERSION = "1"
SUFFIX = ".whereish"
_LARGEST = 4 * 2**30
_TEXTS = ("method", "solver", "form", "stopped")
_ARRAYS = {
    "counts": "u8",
    "inputs": "f8",
    "outputs": "f8",
    "inputs_latlon": "f8",
    "outputs_latlon": "f8",
    "metric": "f8",
    "prior": "f8",
    "proof_output": "i4",
    "proof_left": "i4",
    "proof_right": "i4",
    "proof_value": "f8",
}


def save_mechanism(path: str | Path, mechanism: Mechanism, prior: ArrayLike | None = None) -> None:
    """Write a mechanism to a file that only its owner may read, whole or not at all.

    Its probabilities are rounded to integers, which are audited exactly: see
    `whereish.Mechanism.released`.

    Parameters
    ----------
    prior
        Kept in the file when given, with what proves how good the mechanism is under it, so that
        both can be measured again. It is a map of somebody's life: leave it out of
        what you pass on. Without it, nothing that was computed from a prior is written; the
        counts still tell most of the prior they are best for, see docs/limitations.md.

    Raises
    ------
    GuaranteeError
        If the integers do not have the epsilon. Nothing is written.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"output must be the name of a file, got {described(path)}")
    write_whole(path, mechanism_bytes(mechanism, prior), private=True)


def mechanism_bytes(mechanism: Mechanism, prior: ArrayLike | None = None) -> bytes:
    """Return what `save_mechanism` writes, for who sends it instead."""
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"a Mechanism is needed, got {type(mechanism).__name__}")
    weights = None if prior is None else as_prior(prior, len(mechanism.inputs))
    same = mechanism.outputs is mechanism.inputs
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
    if weights is not None:
        arrays["prior"] = weights
        if mechanism.proof is not None:
            proof = mechanism.proof
            arrays |= {
                "proof_output": np.asarray(proof.output, np.int32),
                "proof_left": np.asarray(proof.left, np.int32),
                "proof_right": np.asarray(proof.right, np.int32),
                "proof_value": np.asarray(proof.value, np.float64),
            }
    build = mechanism.build if weights is not None else mechanism.build.without_prior()
    told = {
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "outputs_are_inputs": same,
        "inputs": _frame(mechanism.inputs),
        "outputs": _frame(mechanism.outputs),
        "build": asdict(build),
    }
    about = {
        "format": FORMAT,
        "version": VERSION,
        "mechanism": _json(told),
        "certificate": _json(certify(mechanism, weights)),
    }
    return pack(arrays, about)


def load_mechanism(
    path: str | Path, *, key: str | bytes | None = None
) -> tuple[Mechanism, Array | None]:
    """Read a mechanism, audit it, and return it with the prior, where that was kept.

    Parameters
    ----------
    key
        The Ed25519 public key that must have signed the file, where one is wanted: 32 bytes, or
        those in hexadecimal, base64 or PEM.

    Raises
    ------
    FormatError
        If the file is not a mechanism, or was changed.
    GuaranteeError
        If it claims an epsilon that its integers do not have, or the key has not signed it.
    """
    mechanism, prior, _ = _parts_of(*_read(path), key)
    return mechanism, prior


def without_prior(content: bytes) -> bytes:
    """Return a file without its prior and without everything that was computed from it.

    It is what `mechanism_bytes` writes without a prior. Counts, places and level stay as they are,
    and are not audited again here. A signature is left out: it is of another file.

    Raises
    ------
    FormatError
        If this is no mechanism's file.
    """
    arrays, about = unpack(content)
    if about.get("format") != FORMAT:
        raise FormatError(f'not a mechanism: its header must say "format": "{FORMAT}"')
    told, claimed = (json.loads(about[name]) for name in ("mechanism", "certificate"))
    told["build"] = asdict(_build(told["build"]).without_prior())
    claimed |= dict.fromkeys(FROM_PRIOR)
    kept = {name: a for name, a in arrays.items() if name != "prior" and "proof" not in name}
    texts = {name: about[name] for name in ("format", "version")}
    return pack(kept, texts | {"mechanism": _json(told), "certificate": _json(claimed)})


def audit_file(
    path: str | Path, prior: ArrayLike | None = None, *, key: str | bytes | None = None
) -> dict[str, Any]:
    """Work the certificate of a file out again, from the file alone, and return it.

    Every row and ratio is checked exactly. Where the file has the prior, so are the quality loss
    and the bound. ``recomputed`` names what was, ``needs_prior`` what could not be, because the
    file does not hold the prior or a proof. ``sha256`` is the digest to pin, ``signed_by`` the key,
    where one was asked for and has signed it.

    Parameters
    ----------
    prior
        Whose loss is worked out, instead of that of the prior in the file, if there is one.
    key
        The Ed25519 public key that must have signed the file, see `load_mechanism`.

    Raises
    ------
    FormatError
        If the file is not a mechanism, or was changed.
    GuaranteeError
        If something it claims does not hold, or the key has not signed it.
    """
    file, content = _read(path)
    mechanism, kept, claimed = _parts_of(file, content, key, audit=True)
    found = _audit(file, mechanism, kept, claimed)
    found |= {
        "sha256": digest_of(content), "signed_by": None if key is None else as_public_key(key)
    }  # fmt: skip
    if prior is None:
        return found
    weights = as_prior(prior, len(mechanism.inputs))
    now: dict[str, Any] = {**losses(mechanism, weights), "prior_sha256": digest(weights)}
    known = [name for name in now if now[name] is not None]
    found["recomputed"] += [name for name in known if name not in found["recomputed"]]
    found["needs_prior"] = [name for name in found["needs_prior"] if name not in known]
    return found | now


def audit_bytes(content: bytes) -> dict[str, Any]:
    """Audit what a file holds, as `audit_file` does."""
    return _audit(Path("file"), *_parts_of(Path("file"), content, audit=True))


def _audit(
    path: Path, mechanism: Mechanism, prior: Array | None, claimed: dict[str, Any]
) -> dict[str, Any]:
    fresh = _plain(certify(mechanism, prior))
    sure = ["certified", "epsilon", "epsilon_unit", "metric", "places", "outputs"]
    sure += ["ratios_checked", "worst_slack", "largest_snap_km"]
    if prior is not None:
        sure += ["quality_loss_km", "prior_sha256"]
        if mechanism.proof is not None:
            sure += ["lower_bound_km", "gap"]
    for name in sure:
        try:
            check_claim(name, claimed[name], fresh[name])
        except GuaranteeError as wrong:
            raise GuaranteeError(f"{path}: {wrong}") from None
    # Words, and where ties are decided by a last digit, are ours and not the file's.
    sure += ["worst_slack_at", "guarantee"]
    found = claimed | {name: fresh[name] for name in sure}
    needed = [] if mechanism.proof is not None else ["lower_bound_km", "gap"]
    if prior is None:
        needed = ["quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "prior_sha256"]
    return {**found, "recomputed": sure, "needs_prior": needed}


def is_mechanism_file(path: str | Path) -> bool:
    """Tell whether a file looks like a mechanism, from its first bytes."""
    try:
        with Path(path).open("rb") as stream:
            start = stream.read(8 + 64)
    except OSError:
        return False
    return start[8:].startswith(b'{"__metadata__":{"format":"' + FORMAT.encode())


def _read(path: str | Path) -> tuple[Path, bytes]:
    if not isinstance(path, str | Path):
        raise InputError(f"mechanism must be the name of a file, got {described(path)}")
    file = Path(path)
    try:
        if not file.is_file():
            raise InputError(f"mechanism must be a file that exists, got {file}")
        if file.stat().st_size > _LARGEST:
            raise FormatError(f"{file} is too large to be a mechanism")
        content = file.read_bytes()
    except (OSError, ValueError) as wrong:
        if isinstance(wrong, InputError):
            raise
        said = getattr(wrong, "strerror", None) or wrong
        raise InputError(f"mechanism {file} cannot be read: {said}") from None
    return file, content


def _parts_of(
    file: Path, content: bytes, key: str | bytes | None = None, *, audit: bool = False
) -> tuple[Mechanism, Array | None, dict[str, Any]]:
    wanted = None if key is None else as_public_key(key)
    try:
        return _parts(content, wanted, audit=audit)
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
        raise FormatError(f"{file}: something in it is not of the kind it must be") from None


def _parts(
    content: bytes, key: str | None = None, *, audit: bool = False
) -> tuple[Mechanism, Array | None, dict[str, Any]]:
    arrays, about = unpack(content)
    check_signature(about, digest_of(content), key)
    if about.get("format") != FORMAT:
        raise FormatError(f'not a mechanism: its header must say "format": "{FORMAT}"')
    if set(about) - {"format", "version", "mechanism", "certificate", "signature", "signer"}:
        raise FormatError("its header says more than a mechanism's does")
    if about.get("version") != VERSION:
        raise FormatError(f"version must be {VERSION}, got {str(about.get('version'))[:20]!r}")
    for name, array in arrays.items():
        if name not in _ARRAYS or array.dtype != np.dtype(f"<{_ARRAYS[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that a mechanism has")
    told, claimed = (parse_object(about[name]) for name in ("mechanism", "certificate"))
    if max(arrays["counts"].shape) > MOST_PLACES:
        raise FormatError(f"a mechanism must have at most {MOST_PLACES:,} places")
    inputs = _places("inputs", arrays, told)
    outputs = _places("outputs", arrays, told)
    if not isinstance(told["outputs_are_inputs"], bool):
        raise FormatError("a file must say whether outputs are the inputs")
    if told["outputs_are_inputs"]:
        if not _same_places(inputs, outputs):
            raise FormatError("outputs must be the inputs, as it says they are")
        outputs = inputs
    if (inputs.plane is None) != (outputs.plane is None):
        raise FormatError("inputs and outputs must both lie on the earth, or neither")
    prior = None
    if "prior" in arrays:
        as_prior(arrays["prior"], len(inputs))
        prior = readonly(arrays["prior"])  # as it is: its digest is that of its bytes
    if "metric" in arrays and told["epsilon"] is None:
        raise FormatError("a metric comes with an epsilon only")
    level, metric = told["epsilon"], arrays.get("metric")
    proof = _proof(arrays, level, len(inputs), len(outputs))
    if audit:  # before the ratios: there may be billions of them
        check_early(claimed, arrays["counts"], inputs, outputs, level, metric, prior, proof)
    mix = claimed.get("rounding_mix")
    mechanism = Mechanism.of_counts(
        arrays["counts"], inputs, outputs, level, metric, _build(told["build"]), proof,
        mix if isinstance(mix, float) else 0.0,
    )  # fmt: skip
    return mechanism, prior, claimed


def _proof(arrays: dict[str, NDArray[Any]], level: Any, n: int, m: int) -> Proof | None:
    if not any(name.startswith("proof_") for name in arrays):
        return None
    parts = [arrays[f"proof_{part}"] for part in ("output", "left", "right", "value")]
    for part, most in zip(parts, (m, n, n, np.inf), strict=True):
        if part.shape != (len(parts[3]),) or not ((part >= 0) & (part < most)).all():
            raise FormatError("its proof is not of the form it must be")
    _, left, right, value = parts
    if len(value) > m * n * (n - 1) or (left == right).any():
        raise FormatError("its proof is not of the form it must be")
    return None if level is None else Proof(level, *parts)


def _json(value: Any) -> str:
    return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _frame(places: Places) -> dict[str, Any]:
    plane = places.plane
    return {
        "plane": None if plane is None else [plane.lat, plane.lon],
        "cell_km": places.cell_km,
    }


def _places(name: str, arrays: dict[str, NDArray[Any]], told: dict[str, Any]) -> Places:
    plane, cell = told[name]["plane"], told[name]["cell_km"]
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
    """Tell whether everything that a file says of two sets of places is the same."""
    if one.plane != other.plane or one.cell_km != other.cell_km:
        return False
    if one.latlon is None or other.latlon is None:
        return one.latlon is other.latlon and np.array_equal(one.xy, other.xy)
    return np.array_equal(one.xy, other.xy) and np.array_equal(one.latlon, other.latlon)


def _build(told: dict[str, Any]) -> Build:
    known = {field.name for field in fields(Build)}
    build = {name: value for name, value in told.items() if name in known}
    notes = build.get("notes")
    notes = [] if notes is None else notes
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise FormatError("build.notes must be texts")
    build["notes"] = tuple(notes)
    if not isinstance(build.get("method"), str):
        raise FormatError("build.method is not of the kind it must be")
    for name, value in build.items():
        wanted: Any = str if name in _TEXTS else int | float
        fits = isinstance(value, wanted) and not isinstance(value, bool)
        if name != "notes" and value is not None and not fits:
            raise FormatError(f"build.{name} is not of the kind it must be")
    return Build(**build)
