"""Files of version 2 for tests, written without the library, as docs/format.md has them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import whereish as wh
from forgeries import Arrays, Texts, described, near_identity, plain, put_together
from whereish.places import Lattice
from whereish.release import release_lattice

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
    corners = (
        sides[0] * sides[1] * cells[0] * cells[1] * len(m.outputs) if len(m.lattice) > 1 else 0
    )
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


def lattice_of(xs: Any, ys: Any) -> Lattice:
    return Lattice(np.array(xs, float), np.array(ys, float))


def small_lattice(
    epsilon: float = 1.07, *, earth: bool = True, plane: wh.LocalPlane | None = None
) -> wh.EverywhereMechanism:
    """Return a mechanism on 4 x 3 vertices with 3 outputs; two of its corners are at the limit."""
    lattice = lattice_of([-0.6, -0.1, 0.25, 0.9], [-0.5, 0.1, 0.8])
    xy = np.array([[-0.4, 0.0], [0.3, 0.5], [0.8, -0.4]])
    away = np.hypot(*(lattice.vertices[:, None, :] - xy[None, :, :]).T).T
    shares = np.exp(-epsilon / 3 * away)
    counts = release_lattice(shares / shares.sum(axis=1, keepdims=True), lattice, epsilon).counts
    plane = plane or wh.LocalPlane(48.86, 2.35)
    outputs = wh.Places(xy, plane.to_latlon(xy), plane) if earth else wh.Places.from_xy(xy)
    return wh.EverywhereMechanism(counts, lattice, outputs, epsilon)


POINTS = ([[0.1, 0.2], [-0.3, 0.4], [2.0, 0.1]], [0.5, 0.3, 0.2])


def honest_lattices() -> dict[str, bytes]:
    """Return files that every reader must take, by name."""
    earth, plane = small_lattice(), small_lattice(3.0, earth=False)
    single = wh.EverywhereMechanism(
        plane.counts[:1], lattice_of([0.5], [0.5]), plane.outputs, epsilon=1e-9
    )
    line = wh.EverywhereMechanism(
        plane.counts[:4], lattice_of(plane.lattice.xs, [7.0]), plane.outputs, 3.0
    )
    upright = wh.EverywhereMechanism(
        np.repeat(plane.counts[:1], 3, axis=0),
        lattice_of([7.0], plane.lattice.ys),
        plane.outputs,
        1e9,
    )
    made = {
        "on the earth": lattice_file(*parts_of(earth)),
        "in a plane": lattice_file(*parts_of(plane)),
        "with points": lattice_file(*parts_of(earth, *POINTS)),
        "with points in a plane": lattice_file(*parts_of(plane, *POINTS)),
        "a vertex": lattice_file(*parts_of(single)),
        "a line": lattice_file(*parts_of(line)),
        "a line upwards": lattice_file(*parts_of(upright)),
    }
    arrays, told, claimed = parts_of(earth)
    made["arrays in another order"] = lattice_file(dict(reversed(arrays.items())), told, claimed)
    tightest = earth.verdict.tightest
    made["the tightest epsilon"] = lattice_file(
        arrays, {**told, "epsilon": tightest}, {**claimed, "epsilon": tightest}
    )
    return made


# Forged files for a test that reads each many times: what one check alone can find.
ONE_CHECK = (
    "one double below the tightest", "a peak", "row 0 of 2^63 + 1", "half the spacing",
    "ys up to 4503599627370497", "a lattice too far from the centre", "units_per_km 549755813888",
    "one thing more is said", "claimed corners_checked 0", "claimed tightest_epsilon 0.5",
    "weights of 2", "half a proof", "a prior",
)  # fmt: skip


def forged_lattices() -> dict[str, bytes]:
    """Return files that no reader may take, by name. Their digests are right."""
    made: dict[str, bytes] = {}
    earth = small_lattice()
    parts = {"": parts_of(earth), "points": parts_of(earth, *POINTS)}

    def add(
        name: str, change: Arrays | None = None, say: Any = None, claim: Any = None, *,
        base: str = "", without: str = "", **more: str,
    ) -> None:  # fmt: skip
        arrays, told, claimed = parts[base]
        kept = {key: value for key, value in {**arrays, **(change or {})}.items() if key != without}
        said = say if isinstance(say, str) else {**told, **(say or {})}
        claims = claim if isinstance(claim, str) else {**claimed, **(claim or {})}
        made[name] = lattice_file(kept, said, claims, **more)

    arrays, told, claimed = parts[""]
    counts, xs, ys = arrays["counts"], arrays["xs"], arrays["ys"]
    n, m = counts.shape
    frame = told["outputs"]

    def moved(amount: int, row: int = 5, one: int = 0, two: int = 1) -> Any:
        changed = counts.astype(object)
        changed[row, one] += amount
        changed[row, two] -= amount
        return changed.astype(np.uint64)

    # The guarantee.
    level = earth.verdict.tightest
    less = float(np.nextafter(level, 0))
    add("one double below the tightest", say={"epsilon": less}, claim={"epsilon": less})
    add("a smaller epsilon", say={"epsilon": 0.2}, claim={"epsilon": 0.2})
    add("a smaller epsilon in the certificate", claim={"epsilon": 0.2})
    add("near identity", {"counts": near_identity(n, m)})
    add("a peak", {"counts": moved(2**61)})
    add("a hollow", {"counts": moved(-(2**60))})
    zero = counts.copy()
    zero[7, 1] += zero[7, 2]
    zero[7, 2] = 0
    add("a zero beside positive counts", {"counts": zero},
        {"epsilon": 1e9}, {"epsilon": 1e9})  # fmt: skip
    for row in (0, n - 1):
        more = counts.copy()
        more[row, 0] += np.uint64(1)
        add(f"row {row} of 2^63 + 1", {"counts": more})
        more[row, 0] -= np.uint64(2)
        add(f"row {row} of 2^63 - 1", {"counts": more})
    wrapped = counts.copy()
    wrapped[:, 0] += np.uint64(2**63)
    wrapped[:, 1] += np.uint64(2**63)
    add("rows that are 2^63 modulo 2^64", {"counts": wrapped})
    add("half the spacing", {"xs": xs // 2, "ys": ys // 2})
    add("another order of rows", {"counts": counts[::-1].copy()})
    swapped = counts.reshape(3, 4, m).transpose(1, 0, 2).reshape(n, m)
    add("columns for rows", {"counts": np.ascontiguousarray(swapped)})
    add("xs and ys exchanged", {"xs": ys, "ys": xs})
    # The lattice.
    for name, axis in (("xs", xs), ("ys", ys)):
        add(f"{name} decreasing", {name: axis[::-1].copy()})
        close = axis.copy()
        close[1] = close[0] + 1_099_511
        add(f"{name} less than a millimetre apart", {name: close})
        same = axis.copy()
        same[1] = same[0]
        add(f"{name} with the same twice", {name: same})
        for far in (2**52 + 1, 2**62, 2**63 - 1):
            add(f"{name} up to {far}", {name: np.append(axis[:-1], np.int64(far))})
            add(f"{name} from -{far}", {name: np.append(np.int64(-far), axis[1:])})
        add(f"{name} wraps around", {name: np.array([*axis[:-2], 2**63 - 1, -(2**63)], np.int64)})
        add(f"{name} shorter", {name: axis[:-1].copy()})
        add(f"{name} of none", {name: axis[:0].copy()})
        add(f"{name} in two dimensions", {name: axis.reshape(1, -1)})
        add(f"{name} as doubles", {name: axis / 2.0**40})
        add(f"{name} as unsigned numbers", {name: axis.view(np.uint64)})
        add(f"no {name}", without=name)
    shift = np.int64(3300 * 2**40)
    add("a lattice too far from the centre", {"xs": xs + shift, "ys": ys + shift // 2})
    # Shapes and types.
    add("counts in one dimension", {"counts": counts.reshape(-1)})
    add("a row less", {"counts": counts[:-1].copy()})
    add("a column less", {"counts": counts[:, :-1].copy()})
    add("signed counts", {"counts": counts.view(np.int64)})
    add("no counts", without="counts")
    add("no outputs", without="outputs")
    add("no degrees", without="outputs_latlon")
    add("degrees without a plane", say={"outputs": {"plane": None, "cell_km": None}})
    add("a plane moved", say={"outputs": {**frame, "plane": [48.8, 2.3]}})
    add("outputs moved", {"outputs": arrays["outputs"] + 0.01})
    add("an output that is not finite", {"outputs": arrays["outputs"] * np.nan})
    twice = arrays["outputs"].copy()
    twice[1] = twice[0]
    degrees = arrays["outputs_latlon"].copy()
    degrees[1] = degrees[0]
    add("two outputs the same", {"outputs": twice, "outputs_latlon": degrees})
    add("a prior", {"prior": np.full(n, 1 / n)})
    add("inputs", {"inputs": np.array(earth.lattice.vertices)})
    add("a metric", {"metric": np.ones((n, n))})
    add("a table", {"table": np.zeros((3, 4), np.int32)})
    add("another array", {"more": np.zeros(3)})
    # What is said.
    for name, value in (
        ("kind", "places"), ("kind", None), ("kind", "planar-laplace"), ("kind", ["lattice"]),
        ("epsilon", None), ("epsilon", 0), ("epsilon", -1.07), ("epsilon", 1e10),
        ("epsilon", "1.07"), ("epsilon", True), ("epsilon_unit", "per m"), ("epsilon_unit", None),
        ("units_per_km", 2**39), ("units_per_km", None), ("units_per_km", str(2**40)),
        ("outputs", None), ("outputs", {}), ("build", {}), ("build", None), ("build", []),
        ("build", {"method": 3}), ("build", {"method": "x", "gap": "small"}),
        ("build", {"method": "x", "loss_km": "small"}), ("build", {"method": "x", "notes": "y"}),
    ):  # fmt: skip
        add(f"{name} {value}", say={name: value})
    add("one thing more is said", say={"more": 1})
    add("outputs_are_inputs", say={"outputs_are_inputs": False})
    short = {name: value for name, value in told.items() if name != "units_per_km"}
    add("one thing less is said", say=plain(short))
    add("epsilon twice", say='{"epsilon":60.0,' + plain(told)[1:])
    add("no JSON", say="{")
    # The certificate.
    for name, value in (
        ("certified", False), ("epsilon_unit", "per m"), ("metric", "another"), ("kind", "places"),
        ("vertices", n + 1), ("cells", 7), ("outputs", m + 1), ("corners_checked", 0),
        ("corners_checked", 10**6), ("tightest_epsilon", 0.5), ("tightest_epsilon", None),
        ("method", 3), ("seconds", "long"), ("versions", 3),
    ):  # fmt: skip
        add(f"claimed {name} {value}", claim={name: value})
    add("one claim more", claim={"more": 1})
    add("a claim of version 1", claim={"ratios_checked": 1})
    fewer = {name: value for name, value in claimed.items() if name != "gap"}
    add("one claim less", claim=plain(fewer))
    # The points.
    points, weights = (parts["points"][0][name] for name in ("points", "weights"))
    add("points without weights", base="points", without="weights")
    add("weights without points", base="points", without="points")
    add("a false loss", claim={"quality_loss_km": 0.001}, base="points")
    add("a false digest of the points", claim={"points_sha256": "0" * 64}, base="points")
    for name, change in (
        ("weights of 2", {"weights": 2 * weights}),
        ("a weight of 0", {"weights": np.array([0.5, 0.5, 0.0])}),
        ("a negative weight", {"weights": np.array([0.7, 0.5, -0.2])}),
        ("a weight less", {"weights": weights[:-1].copy()}),
        ("points of three numbers", {"points": np.ones((3, 3))}),
        ("a point that is not finite", {"points": points * np.array([1, np.nan])}),
        ("no points", {"points": points[:0].copy(), "weights": weights[:0].copy()}),
    ):  # fmt: skip
        changed = {**parts["points"][0], **change}
        digest = hashlib.sha256(changed["points"].tobytes() + changed["weights"].tobytes())
        add(name, change, claim={"points_sha256": digest.hexdigest()}, base="points")
    add("half a proof", {"proof_left": np.zeros(1, np.int32)}, base="points")
    proof = {
        "proof_centres": points[:2].copy(), "proof_cluster": np.array([0, 1, 1], np.int32),
        "proof_output": np.zeros(1, np.int32), "proof_left": np.zeros(1, np.int32),
        "proof_right": np.ones(1, np.int32), "proof_value": np.ones(1),
    }  # fmt: skip
    add("a proof without points", proof)
    for name, wrong in (
        ("proof_cluster", np.array([0, 1, 2], np.int32)), ("proof_left", np.full(1, 2, np.int32)),
        ("proof_cluster", np.array([0, 1], np.int32)), ("proof_right", np.zeros(1, np.int32)),
        ("proof_output", np.full(1, m, np.int32)), ("proof_value", -np.ones(1)),
    ):  # fmt: skip
        add(f"{name} {wrong.tolist()}", {**proof, name: wrong}, base="points")
    # The header.
    add("version 3", version="3")
    add("version 1", version="1")
    add("another format", format="whereish profile")
    add("one text more", note="hello")
    add("half a signature", signature="00" * 64)
    good = lattice_file(arrays, told, claimed)
    made["a changed byte"] = good[:-1] + bytes([good[-1] ^ 1])
    made["cut short"] = good[:-8]
    return made
