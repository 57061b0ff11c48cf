"""A mechanism as a JSON document, so that one command can hand it to the next.

Numbers are written so that they read back to the same bits, and a mechanism with an epsilon is
checked again, ratio by ratio, when it is read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whereish.errors import FormatError, InputError
from whereish.mechanisms.mechanism import Build, Mechanism
from whereish.places import Array, LocalPlane, Places, as_prior, euclidean
from whereish.release import write_whole

FORMAT = "whereish-mechanism"
VERSION = 1
_BUILD_KINDS: dict[str, Any] = {
    "method": str,
    "solver": str,
    "form": str,
    "stopped": str,
}


def save_mechanism(path: str | Path, mechanism: Mechanism, prior: ArrayLike | None = None) -> None:
    """Write a mechanism to a file that only its owner may read, whole or not at all.

    Parameters
    ----------
    prior
        Kept in the file when given, so that it can be measured without asking again. It is a
        map of somebody's life: leave it out of what you pass on.
    """
    metric = mechanism.privacy_metric
    plain = metric is None or np.array_equal(metric, euclidean(mechanism.inputs))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "epsilon": mechanism.epsilon,
        "epsilon_unit": mechanism.epsilon_unit,
        "inputs": _places(mechanism.inputs),
        "outputs": (
            "inputs" if mechanism.outputs is mechanism.inputs else _places(mechanism.outputs)
        ),
        "privacy_metric": "euclidean" if plain or metric is None else metric.tolist(),
        "build": asdict(mechanism.build),
        "prior": None if prior is None else as_prior(prior, len(mechanism.inputs)).tolist(),
        "matrix": mechanism.matrix.tolist(),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    write_whole(path, text.encode(), private=True)


def load_mechanism(path: str | Path) -> tuple[Mechanism, Array | None]:
    """Read a mechanism and, where it was kept, the prior it was built for.

    Raises
    ------
    FormatError
        If the file is not a mechanism.
    GuaranteeError
        If it claims an epsilon that its numbers do not have.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"mechanism must be the name of a file, got {path!r}")
    file = Path(path)
    try:
        if not file.is_file():
            raise InputError(f"mechanism must be a file that exists, got {file}")
        document = json.loads(file.read_text(encoding="utf-8"))
    except InputError:
        raise
    except (ValueError, RecursionError) as wrong:
        raise FormatError(f"{file} is not a mechanism: not JSON ({wrong})") from None
    except OSError as wrong:
        raise InputError(f"mechanism {file} cannot be read: {wrong.strerror}") from None
    if not is_mechanism(document):
        raise FormatError(f'{file} is not a mechanism: the field "format" must be "{FORMAT}"')
    if document.get("version") != VERSION:
        raise FormatError(
            f"mechanism {file}: version must be {VERSION}, got {document.get('version')!r}"
        )
    try:
        return _mechanism(document)
    except KeyError as missing:
        raise FormatError(f"mechanism {file}: the field {missing} is missing") from None
    except InputError as wrong:
        raise FormatError(f"mechanism {file}: {wrong}") from None
    except (TypeError, AttributeError, ValueError, LookupError, ArithmeticError):
        raise FormatError(f"mechanism {file}: a field is not of the kind it must be") from None


def is_mechanism(document: Any) -> bool:
    """Tell whether a JSON document says that it is a mechanism."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def _mechanism(document: dict[str, Any]) -> tuple[Mechanism, Array | None]:
    inputs = _to_places(document["inputs"])
    outputs = inputs if document["outputs"] == "inputs" else _to_places(document["outputs"])
    metric = document["privacy_metric"]
    known = {field.name for field in fields(Build)}
    build = {name: value for name, value in document["build"].items() if name in known}
    build["notes"] = tuple(map(str, build.get("notes", ())))
    for name, value in build.items():
        wanted = _BUILD_KINDS.get(name, int | float)
        if name != "notes" and value is not None and not isinstance(value, wanted):
            raise InputError(f"build.{name} is not of the kind it must be")
    mechanism = Mechanism(
        matrix=document["matrix"],
        inputs=inputs,
        outputs=outputs,
        epsilon=document["epsilon"],
        privacy_metric=None if metric == "euclidean" else metric,
        build=Build(**build),
    )
    prior = document["prior"]
    return mechanism, None if prior is None else as_prior(prior, len(inputs))


def _places(places: Places) -> dict[str, Any]:
    return {
        "xy_km": places.xy.tolist(),
        "latlon": None if places.latlon is None else places.latlon.tolist(),
        "plane": None if places.plane is None else [places.plane.lat, places.plane.lon],
        "cell_km": places.cell_km,
    }


def _to_places(document: dict[str, Any]) -> Places:
    latlon, plane, cell = (document[name] for name in ("latlon", "plane", "cell_km"))
    return Places(
        np.asarray(document["xy_km"], dtype=np.float64),
        None if latlon is None else np.asarray(latlon, dtype=np.float64),
        None if plane is None else LocalPlane(*plane),
        None if cell is None else (cell[0], cell[1]),
    )
