"""The file of a movement model: JSON, readable by its owner only."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

from whereish.errors import FormatError, InputError, described
from whereish.files import write_whole
from whereish.places import Array, LocalPlane, Places
from whereish.profiles.movement_model import MovementModel

_FORMAT, _VERSION = "whereish movement model", 1


def save_movement(path: str | Path, model: MovementModel) -> None:
    """Write a model to a file that only its owner may read, completely or not at all."""
    if not isinstance(model, MovementModel):
        raise InputError(f"a movement model is needed, got {type(model).__name__}")
    plane, degrees = model.places.plane, model.places.latlon
    known = {
        "format": _FORMAT, "version": _VERSION, "step_s": model.step_s, "hours": model.hours,
        "zone": model.zone, "places": len(model.places), "xy_km": _text(model.places.xy),
        "latlon": None if degrees is None else _text(degrees),
        "plane": None if plane is None else [plane.lat, plane.lon],
        "cell_km": model.places.cell_km, "transitions": _text(model.transitions),
        "initial": _text(model.initial), "prior": _text(model.prior),
    }  # fmt: skip
    write_whole(path, (json.dumps(known, indent=1) + "\n").encode(), private=True)


def load_movement(path: str | Path) -> MovementModel:
    """Read a model that `save_movement` wrote.

    Raises
    ------
    FormatError
        If the file is something else, or was changed so that it is no model.
    """
    if not isinstance(path, str | Path):
        raise InputError(f"path must be the name of a file, got {described(path)}")
    try:
        known = json.loads(Path(path).read_bytes())
        if known["format"] != _FORMAT or known["version"] != _VERSION:
            raise FormatError(f"{path} is not a movement model of version {_VERSION}")
        n, periods = int(known["places"]), len(known["hours"])
        plane, degrees = known["plane"], known["latlon"]
        places = Places(
            _numbers(known["xy_km"], n, 2), None if degrees is None else _numbers(degrees, n, 2),
            None if plane is None else LocalPlane(*plane), known["cell_km"],
        )  # fmt: skip
        return MovementModel(
            places, known["step_s"], tuple(known["hours"]),
            _numbers(known["transitions"], periods, n, n), _numbers(known["initial"], periods, n),
            known["zone"], _numbers(known["prior"], n),
        )  # fmt: skip
    except OSError as wrong:
        raise FormatError(f"{path} cannot be read: {wrong.strerror}") from None
    except FormatError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise FormatError(f"{path} is not a movement model, or it was changed") from None


def _text(array: Array) -> str:
    """Return an array as base64 of 64-bit floats, little-endian, row by row."""
    return base64.b64encode(np.ascontiguousarray(array, "<f8").tobytes()).decode()


def _numbers(text: str, *shape: int) -> Array:
    content = base64.b64decode(text, validate=True)
    return np.frombuffer(content, "<f8").astype(np.float64).reshape(shape)
