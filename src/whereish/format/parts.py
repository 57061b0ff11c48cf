"""Parts of a file that both versions have: texts, places, the build record, a proof."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError
from whereish.format.plain import as_plain
from whereish.measures import Proof
from whereish.mechanisms.build import Build
from whereish.places import LocalPlane, Places

FORMAT = "whereish mechanism"
PROOF = ("proof_output", "proof_left", "proof_right", "proof_value")
_BUILD_TEXTS = ("method", "solver", "form", "stopped", "metric")
_Build = TypeVar("_Build", bound=Build)


def texts_of(facts: dict[str, Any], certificate: dict[str, Any], version: str) -> dict[str, str]:
    """Return the texts of a header."""
    return {
        "format": FORMAT,
        "version": version,
        "mechanism": _json(facts),
        "certificate": _json(certificate),
    }


def frame_of(places: Places) -> dict[str, Any]:
    """Return what a header says about places: their plane and the size of their cells."""
    plane = places.plane
    return {"plane": None if plane is None else [plane.lat, plane.lon], "cell_km": places.cell_km}


def read_places(name: str, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Places:
    """Return the places of this name, and check that they are consistent."""
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


def read_build(facts: dict[str, Any], kind: type[_Build]) -> _Build:
    """Return a build record of this kind."""
    known = {field.name for field in fields(kind)}
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
        # JSON has no number that is not finite, but 1e999 is read as one.
        fits = fits and (wanted is str or math.isfinite(value))
        if name != "notes" and value is not None and not fits:
            raise FormatError(f"build.{name} has the wrong type")
    return kind(**build)


def proof_arrays(proof: Proof) -> dict[str, NDArray[Any]]:
    """Return the arrays of a proof."""
    rows = (proof.output, proof.left, proof.right)
    arrays: dict[str, NDArray[Any]] = {
        name: np.asarray(part, np.int32) for name, part in zip(PROOF[:3], rows, strict=True)
    }
    return arrays | {"proof_value": np.asarray(proof.value, np.float64)}


def read_proof(arrays: Mapping[str, NDArray[Any]], level: Any, n: int, m: int) -> Proof | None:
    """Return the multipliers of a file, for n places and m outputs."""
    if not any(name in arrays for name in PROOF):
        return None
    parts = [arrays[name] for name in PROOF]
    for part, most in zip(parts, (m, n, n, np.inf), strict=True):
        if part.shape != (len(parts[3]),) or not ((part >= 0) & (part < most)).all():
            raise FormatError("its proof is not of the form it must be")
    _, left, right, value = parts
    if len(value) > m * n * (n - 1) or (left == right).any():
        raise FormatError("its proof is not of the form it must be")
    return None if level is None else Proof(level, *parts)


def _json(value: Any) -> str:
    return json.dumps(as_plain(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
