"""Values as a header has them: plain JSON, digests of numbers, when and with what it was made."""

from __future__ import annotations

import hashlib
import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np

from whereish.places import Array


def as_plain(value: Any) -> Any:
    """Return a value as JSON has it: no tuples, no NumPy numbers, null for what is not finite."""
    if isinstance(value, dict):
        return {name: as_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def digest(*parts: Array) -> str:
    """Return the SHA-256 of numbers, as little-endian doubles: a prior, or points and weights."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return found.hexdigest()


def made_now() -> dict[str, Any]:
    """Return the fields ``created`` and ``versions`` of a certificate."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "whereish": _version(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }


def _version() -> str:
    """Return the version of Whereish. The package imports this module, so it is imported late."""
    from whereish import __version__

    return __version__
