"""Files of version 2 for tests, written without the library, as docs/format.md has them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import whereish as wh
from forgeries import Arrays, Texts, described, plain, put_together

METRIC = "Euclidean distance between any two points of the plane, in km"


def parts_of(
    m: wh.EverywhereMechanism, points: Any = None, weights: Any = None
) -> tuple[Arrays, Texts, Texts]:
    """Return the arrays of a mechanism's file, what it says of it, and its certificate."""
    xs, ys = m.lattice
    arrays: Arrays = {
        "counts": np.array(m.counts),
        "xs": np.array([round(x * 2**40) for x in xs.tolist()], np.int64),
        "ys": np.array([round(y * 2**40) for y in ys.tolist()], np.int64),
        "outputs": np.array(m.outputs.xy),
    }
    plane = m.outputs.plane
    if m.outputs.latlon is not None:
        arrays["outputs_latlon"] = np.array(m.outputs.latlon)
    loss = digest = None
    if points is not None:
        arrays |= {"points": np.array(points, float), "weights": np.array(weights, float)}
        away = np.hypot(*(arrays["points"][:, None, :] - m.outputs.xy[None, :, :]).T).T
        rows = np.array([_plane_probabilities(m, point) for point in arrays["points"]])
        loss = float((arrays["weights"][:, None] * rows * away).sum())
        digest = hashlib.sha256(
            arrays["points"].tobytes() + arrays["weights"].tobytes()
        ).hexdigest()
    told: Texts = {
        "kind": "lattice",
        "epsilon": m.epsilon,
        "epsilon_unit": "per km",
        "units_per_km": 2**40,
        "outputs": {"plane": None if plane is None else [plane.lat, plane.lon], "cell_km": None},
        "build": {"method": "given", "solver": None, "notes": []},
    }
    cells = [max(1, len(axis) - 1) for axis in (xs, ys)]
    sides = [2 if len(axis) > 1 else 1 for axis in (xs, ys)]
    corners = sides[0] * sides[1] * cells[0] * cells[1] * len(m.outputs) if len(m.lattice) > 1 else 0
    claimed: Texts = {
        "certified": True, "epsilon": m.epsilon, "epsilon_unit": "per km", "metric": METRIC,
        "kind": "lattice", "vertices": len(m.lattice), "cells": cells[0] * cells[1],
        "outputs": len(m.outputs), "corners_checked": corners,
        "tightest_epsilon": m.verdict.tightest,
        "tightest_at": {"vertex": m.verdict.vertex, "output": m.verdict.output},
        "quality_loss_km": loss, "lower_bound_km": None, "gap": None, "method": "given",
        "solver": None, "repair_mix": None, "repair_cost_km": None, "stopped": None,
        "seconds": None, "points_sha256": digest, "created": None, "versions": None,
        "guarantee": [],
    }  # fmt: skip
    return arrays, told, claimed


def _plane_probabilities(m: wh.EverywhereMechanism, point: Any) -> Any:
    corners, weights = m.lattice.weights([point])
    return weights[0] @ m.matrix[corners[0]]


def lattice_file(arrays: Arrays, told: Any, claimed: Any, **more: str) -> bytes:
    """Return the bytes of a file, with the digest it should have, whatever is in it."""
    header, data = described(arrays)
    texts = {
        "format": "whereish mechanism",
        "version": "2",
        "mechanism": told if isinstance(told, str) else plain(told),
        "certificate": claimed if isinstance(claimed, str) else plain(claimed),
        **more,
    }
    return put_together(header, texts, data)
