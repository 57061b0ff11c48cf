"""Version 2 of the file: round trips, what it holds, and forged files."""

from __future__ import annotations

import hashlib
import json
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forgeries
import whereish as wh
from checks import broken_corners
from forgeries import TOTAL, file_of, taken_apart
from whereish.everywhere import Visits
from whereish.format import (
    TELLS_PRIOR,
    digest_of,
    mechanism_bytes,
    new_private_key,
    public_key_of,
    signed,
    without_prior,
)

UNIT = 2**40


def person(seed: int = 2, count: int = 90) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    spots = rng.uniform(-2, 2, (4, 2))
    points = spots[rng.integers(0, 4, count)] + rng.normal(0, 0.08, (count, 2))
    weights = rng.exponential(size=count) ** 2
    return points, weights / weights.sum()


@cache
def lattice() -> wh.EverywhereMechanism:
    made = wh.optimal_everywhere(*person(), 1.07, vertices=80, method="lattice")
    assert isinstance(made, wh.EverywhereMechanism)
    return made


@cache
def noise() -> wh.PlanarLaplaceEverywhere:
    return wh.planar_laplace_everywhere(*person(), 1.07)


@cache
def on_the_earth() -> tuple[wh.EverywhereMechanism, wh.Places]:
    rng = np.random.default_rng(4)
    where = wh.Places.from_latlon(np.array([48.85, 2.33]) + rng.normal(0, 0.01, (25, 2)))
    made = wh.optimal_everywhere(where, None, 1.5, vertices=30, method="lattice")
    assert isinstance(made, wh.EverywhereMechanism)
    return made, where


@pytest.mark.parametrize("make", [lattice, noise], ids=["lattice", "planar-laplace"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_file_holds_the_same_mechanism(tmp_path: Path, make: Any, kept: bool) -> None:
    made, file = make(), tmp_path / "k.whereish"
    wh.save_mechanism(file, made, person() if kept else None)
    read, prior = wh.load_mechanism(file)
    assert type(read) is type(made)
    assert read.epsilon == made.epsilon
    assert read.outputs.same_as(made.outputs)
    if isinstance(made, wh.EverywhereMechanism):
        assert (read.counts == made.counts).all()
        assert [axis.tolist() for axis in read.lattice] == [axis.tolist() for axis in made.lattice]
        assert read.verdict == made.verdict
        if kept:
            assert made.proof is not None
            assert (read.proof.cluster == made.proof.cluster).all()
    else:
        assert (read.table == made.table).all()
        assert [axis.tolist() for axis in read.borders] == [axis.tolist() for axis in made.borders]
    seeded = [m.sample((0.3, 0.4), 200, rng=np.random.default_rng(1)).outputs for m in (read, made)]
    assert (seeded[0] == seeded[1]).all()
    if kept:
        assert isinstance(prior, Visits)
        assert (prior.xy == person()[0]).all()
        assert (prior.weights == person()[1]).all()
        assert read.build == made.build
        # What was read can be written again: the same bytes but for the time.
        again, first = (taken_apart(content) for content in
                        (mechanism_bytes(read, prior), file.read_bytes()))  # fmt: skip
        assert again[1] == first[1]
        assert {k: v for k, v in again[2].items() if k != "created"} == {
            k: v for k, v in first[2].items() if k != "created"
        }
    else:
        assert prior is None
        assert read.build.loss_km is None
        assert read.build.notes == ()


def test_the_bytes_are_those_of_the_description() -> None:
    """Read as docs/format.md has it, without the library."""
    arrays, told, claimed = taken_apart(mechanism_bytes(lattice(), person()))
    made = lattice()
    assert arrays["xs"].dtype == np.int64
    assert arrays["counts"].dtype == np.uint64
    assert arrays["xs"].tolist() == [round(x * UNIT) for x in made.lattice.xs.tolist()]
    assert arrays["ys"].tolist() == [round(y * UNIT) for y in made.lattice.ys.tolist()]
    p, q, m = len(arrays["xs"]), len(arrays["ys"]), len(arrays["outputs"])
    assert arrays["counts"].shape == (p * q, m)
    assert set(told) == {"kind", "epsilon", "epsilon_unit", "units_per_km", "outputs", "build"}
    assert told["kind"] == "lattice"
    assert told["units_per_km"] == UNIT
    assert claimed["corners_checked"] == 4 * (p - 1) * (q - 1) * m
    assert claimed["cells"] == (p - 1) * (q - 1)
    parts = arrays["points"].tobytes() + arrays["weights"].tobytes()
    assert claimed["points_sha256"] == hashlib.sha256(parts).hexdigest()
    assert broken_corners(
        arrays["counts"].tolist(), arrays["xs"].tolist(), arrays["ys"].tolist(),
        told["epsilon"] / UNIT,
    ) == []  # fmt: skip
    arrays, told, claimed = taken_apart(mechanism_bytes(noise()))
    assert told["kind"] == "planar-laplace"
    assert arrays["table"].shape == (len(arrays["ys"]) + 1, len(arrays["xs"]) + 1)
    assert arrays["table"].dtype == np.int32


def test_mechanisms_between_places_stay_in_version_1() -> None:
    content = forgeries.honest_base()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"]["version"] == "1"
    assert TELLS_PRIOR


def test_a_file_without_points_holds_nothing_of_them() -> None:
    kept, blind = mechanism_bytes(lattice(), person()), mechanism_bytes(lattice())
    stripped, direct = taken_apart(without_prior(kept)), taken_apart(blind)
    assert set(stripped[0]) == set(direct[0]) == {"counts", "xs", "ys", "outputs"}
    assert stripped[1] == direct[1]
    same = [{k: v for k, v in part[2].items() if k != "created"} for part in (stripped, direct)]
    assert same[0] == same[1]
    for name in ("quality_loss_km", "lower_bound_km", "gap", "repair_mix", "repair_cost_km",
                 "seconds", "points_sha256"):  # fmt: skip
        assert direct[2][name] is None
    build = direct[1]["build"]
    for name in ("loss_km", "program_bound_km", "other_loss_km", "lower_bound_km", "program_gap",
                 "gap", "seconds", "repair_mix", "repair_cost_km"):  # fmt: skip
        assert build[name] is None
    assert build["notes"] == []


def test_the_audit_computes_everything_again(tmp_path: Path) -> None:
    file = tmp_path / "k.whereish"
    points, weights = person()
    wh.save_mechanism(file, lattice(), person())
    found = wh.audit_file(file)
    assert found["certified"]
    assert found["needs_prior"] == []
    assert {"tightest_epsilon", "corners_checked", "quality_loss_km", "lower_bound_km", "gap",
            "points_sha256", "guarantee"} <= set(found["recomputed"])  # fmt: skip
    slow = sum(
        w * (lattice().probabilities(x) * np.hypot(*(lattice().outputs.xy - x).T)).sum()
        for x, w in zip(points, weights, strict=True)
    )
    assert found["quality_loss_km"] == pytest.approx(slow, rel=1e-9)
    assert 0 < found["lower_bound_km"] < found["quality_loss_km"]
    assert found["tightest_epsilon"] <= 1.07
    wh.save_mechanism(file, lattice())
    blind = wh.audit_file(file)
    assert blind["needs_prior"] == ["quality_loss_km", "lower_bound_km", "gap", "points_sha256"]
    assert blind["quality_loss_km"] is None
    given = wh.audit_file(file, (points, weights))
    assert given["quality_loss_km"] == pytest.approx(slow, rel=1e-9)
    assert "quality_loss_km" not in given["needs_prior"]


def test_a_bound_from_a_file_is_one_by_the_definition(tmp_path: Path) -> None:
    """The discrete optimum on the points themselves, by another solver, is not below the bound."""
    points = np.array([[0, 0], [1, 0.2], [2, 1], [0.5, 1.5]])
    weights = np.array([0.5, 0.3, 0.15, 0.05])
    made = wh.optimal_everywhere(points, weights, 1.0, vertices=40, method="lattice")
    file = tmp_path / "k.whereish"
    wh.save_mechanism(file, made, (points, weights))
    bound = wh.audit_file(file)["lower_bound_km"]
    best = wh.optimal(
        wh.Places.from_xy(points), weights, 1.0, outputs=made.outputs, solver="highs-ipm"
    )
    optimum = wh.quality_loss(best, weights)
    assert 0.99 * optimum < bound <= optimum * (1 + 1e-7)


def test_words_speak_of_any_two_points(tmp_path: Path) -> None:
    file = tmp_path / "k.whereish"
    made, where = on_the_earth()
    wh.save_mechanism(file, made, (where, np.full(25, 1 / 25)))
    words = wh.audit_file(file)["guarantee"]
    assert words[0].startswith("For any two points d km apart, wherever they are, no report is")
    assert "exp(1.5 d)" in words[0]
    assert "outside the rectangle" in words[1]
    assert "3,400 km" in words[2]
    assert "nearest place" not in " ".join(words)
    wh.save_mechanism(file, noise())
    words = wh.audit_file(file)["guarantee"]
    assert "planar Laplace noise" in words[1]
    assert "its table is fine where they are" in words[-1]
    assert not any("lattice" in word for word in words)


def test_signed_files(tmp_path: Path) -> None:
    private = new_private_key()
    content = signed(mechanism_bytes(lattice()), private)
    file = tmp_path / "k.whereish"
    file.write_bytes(content)
    wh.load_mechanism(file, key=public_key_of(private))
    assert wh.audit_file(file)["sha256"] == digest_of(content)
    with pytest.raises(wh.GuaranteeError, match="another key"):
        wh.load_mechanism(file, key=public_key_of(new_private_key()))


def test_a_proof_travels_with_a_copy() -> None:
    again = pickle.loads(pickle.dumps(lattice()))
    assert again.proof is not None
    assert mechanism_bytes(again, person())[:8] == mechanism_bytes(lattice(), person())[:8]


@pytest.mark.parametrize("prior", [[0.5, 0.5, 0.0], "me", 3, (np.zeros((2, 2)), [1.0])])
def test_points_that_cannot_be_kept(prior: Any) -> None:
    with pytest.raises(wh.InputError):
        mechanism_bytes(lattice(), prior)


# Forged files: their digests are right.


def forged() -> dict[str, bytes]:
    arrays, told, claimed = taken_apart(mechanism_bytes(lattice(), person()))
    blind = taken_apart(mechanism_bytes(lattice()))
    table = taken_apart(mechanism_bytes(noise()))
    earth, earth_told, earth_claimed = taken_apart(mechanism_bytes(on_the_earth()[0]))
    made: dict[str, bytes] = {}

    def add(
        name: str,
        change: dict[str, Any] | None = None,
        say: dict[str, Any] | None = None,
        claim: dict[str, Any] | None = None,
        base: Any = (arrays, told, claimed),
        without: tuple[str, ...] = (),
        **more: str,
    ) -> None:
        kept = {k: v for k, v in {**base[0], **(change or {})}.items() if k not in without}
        made[name] = file_of(
            kept, {**base[1], **(say or {})}, {**base[2], **(claim or {})},
            **{"version": "2", **more},
        )  # fmt: skip

    counts, xs, ys = arrays["counts"], arrays["xs"], arrays["ys"]
    n, m = counts.shape

    def recounted(change: Any) -> Any:
        copy = counts.copy()
        change(copy)
        return {"counts": copy}

    # Counts.
    def tell(copy: Any) -> None:
        copy[:] = 1
        for v in range(n):
            copy[v, v % m] = TOTAL - (m - 1)

    add("counts that tell", recounted(tell))
    add("counts that tell, without points", recounted(tell), base=blind, without=("points",))

    def more(copy: Any) -> None:
        copy[0, 0] += np.uint64(1)

    add("a row of 2^63 + 1", recounted(more))

    def wrap(copy: Any) -> None:
        copy[:] = 0
        copy[:, :3] = 2**63

    add("rows that are 2^63 modulo 2^64", recounted(wrap))
    add("rows exchanged", {"counts": counts[::-1].copy()})
    add(
        "columns exchanged in a row", recounted(lambda c: c[3].__setitem__(slice(None), c[3][::-1]))
    )

    def zero(copy: Any) -> None:
        big = int(copy[5].argmax())
        small = int(copy[5].argmin())
        copy[5, big] += copy[5, small]
        copy[5, small] = 0

    add("a zero beside positive counts", recounted(zero))

    def one_too_many(copy: Any) -> None:
        v, z = lattice().verdict.vertex, lattice().verdict.output
        # The corner with the least room: a thousandth of its count is moved to another output.
        other = int(np.argsort(copy[v])[-1 if int(np.argmax(copy[v])) != z else -2])
        moved = np.uint64(int(copy[v, z]) // 1000)
        copy[v, z] -= moved
        copy[v, other] += moved

    add("a count moved at the tightest corner", recounted(one_too_many))
    add("counts short of a row", {"counts": counts[:-1].copy()})
    add("counts short of a column", {"counts": counts[:, :-1].copy()})
    add("counts as a list", {"counts": counts.ravel().copy()})
    for kind in (np.int64, np.float64, np.int32):
        add(f"counts as {np.dtype(kind)}", {"counts": counts.astype(kind)})
    # The lattice.
    closer = xs // 2
    add("a smaller lattice", {"xs": closer, "ys": ys // 2})
    add("xs and ys exchanged", {"xs": ys, "ys": xs})
    add("xs unsorted", {"xs": xs[::-1].copy()})
    swapped = xs.copy()
    swapped[[1, 2]] = swapped[[2, 1]]
    add("two of xs exchanged", {"xs": swapped})
    twice = xs.copy()
    twice[1] = twice[0]
    add("an x twice", {"xs": twice})
    near = xs.copy()
    near[1] = near[0] + 1_099_511
    add("xs closer than a millimetre", {"xs": near})
    add("xs too short", {"xs": xs[:-1].copy()})
    add("xs empty", {"xs": xs[:0].copy()})
    add("xs as km", {"xs": xs / UNIT})
    add("xs as a table", {"xs": xs[:, None].copy()})
    for far in (2**52 + 1, -(2**63), 2**63 - 1):
        beyond = xs.copy()
        beyond[-1 if far > 0 else 0] = far
        add(f"xs at {far}", {"xs": beyond})
    add("no xs", without=("xs",))
    shifted = earth["xs"] + 3_500 * UNIT
    add("a lattice far from the plane", {"xs": shifted}, base=(earth, earth_told, earth_claimed))
    # What is said.
    levels: list[Any] = [0.5, 0, -1, True, "1.07", None, [], 1e-10, 1e10]
    for number, level in enumerate(levels):
        add(f"epsilon {number}", say={"epsilon": level}, claim={"epsilon": level})
    add("another epsilon claimed", claim={"epsilon": 0.9})
    names: list[Any] = ["planar-laplace", "places", None, [], 3]
    for name in names:
        add(f"kind {name}", say={"kind": name})
    for units in (2**39, 2**41, None, "1099511627776", True):
        add(f"units {units}", say={"units_per_km": units})
    add("per mile", say={"epsilon_unit": "per mile"})
    add("more is said", say={"more": 1})
    told_less = {k: v for k, v in told.items() if k != "kind"}
    made["no kind"] = file_of(arrays, told_less, claimed, version="2")
    add("version 1", version="1")
    add("version 3", version="3")
    add("half a signature", signature="00" * 64)
    add("more texts", note="hello")
    add("no build", say={"build": {}})
    add("build of another type", say={"build": {**told["build"], "loss_km": "x"}})
    add("another array", {"more": np.zeros(3)})
    add("a table too", {"table": np.zeros((2, 2), np.int32)})
    add("inputs too", {"inputs": np.zeros((2, 2))})
    add("a plane without degrees", say={"outputs": {"plane": [48.0, 2.0], "cell_km": None}})
    add("no outputs", {"outputs": arrays["outputs"][:0].copy()})
    add("outputs short", {"outputs": arrays["outputs"][:-1].copy()})
    same = arrays["outputs"].copy()
    same[1] = same[0]
    add("an output twice", {"outputs": same})
    add("outputs moved", {"outputs": earth["outputs"] + 0.01},
        base=(earth, earth_told, earth_claimed))  # fmt: skip
    # Points and proofs.
    points, weights = arrays["points"], arrays["weights"]
    add("points without weights", without=("weights",))
    add("weights without points", without=("points",))
    add("weights of 2", {"weights": 2 * weights})
    bare = weights.copy()
    bare[1] += bare[0]
    bare[0] = 0
    add("a weight of 0", {"weights": bare})
    add("other weights", {"weights": weights[::-1].copy()})
    add("points moved", {"points": points + 0.001})
    add("points NaN", {"points": points * np.nan})
    add("half the points", {"points": points[::2].copy()})
    add("a proof without points", without=("points", "weights"))
    add("half a proof", without=("proof_left",))
    add("no centres", without=("proof_centres",))
    cluster = arrays["proof_cluster"].copy()
    cluster[0] = cluster.max() + 1
    add("a cluster that is not there", {"proof_cluster": cluster})
    cluster = arrays["proof_cluster"].copy()
    cluster[:] = 0
    add("centres without points", {"proof_cluster": cluster})
    add("a negative cluster", {"proof_cluster": arrays["proof_cluster"] - 1})
    add("a proof of more", {"proof_value": arrays["proof_value"] * 1.5})
    add("a negative proof", {"proof_value": -arrays["proof_value"]})
    add("centres moved", {"proof_centres": arrays["proof_centres"] * 1.1})
    # Claims.
    wrong_claims: list[tuple[str, Any]] = [
        ("quality_loss_km", 0.001), ("quality_loss_km", None), ("lower_bound_km", 0.5),
        ("lower_bound_km", None), ("gap", 0.0), ("points_sha256", "0" * 64), ("vertices", n + 1),
        ("cells", 1), ("outputs", 1), ("corners_checked", 10**9), ("tightest_epsilon", 0.1),
        ("certified", False), ("kind", "planar-laplace"), ("epsilon_unit", "per mile"),
        ("metric", "miles"), ("method", 3), ("seconds", "x"), ("repair_mix", True), ("more", 1),
        ("places", 3),
    ]  # fmt: skip
    for name, claim in wrong_claims:
        add(f"claim {name} {claim}", claim={name: claim})
    for name in claimed:
        left = {k: v for k, v in claimed.items() if k != name}
        made[f"no claim {name}"] = file_of(arrays, told, left, version="2")
    first = taken_apart(forgeries.honest_base())
    made["places in version 2"] = file_of(*first, version="2")
    # Planar Laplace.
    numbers = table[0]["table"]
    for name, change in (
        ("an output that is not there", {"table": np.where(numbers == 0, 10**6, numbers)}),
        ("a negative output", {"table": numbers - 1}),
        ("a table short of a row", {"table": numbers[:-1].copy()}),
        ("a table of counts", {"table": numbers.astype(np.uint64)}),
        ("counts too", {"counts": counts}),
        ("borders unsorted", {"xs": table[0]["xs"][::-1].copy()}),
    ):
        changed = {
            k: v.astype(np.int32) if k == "table" and v.dtype == np.int64 else v
            for k, v in change.items()
        }
        add(f"noise: {name}", changed, base=table)
    add("noise: corners", claim={"corners_checked": 5}, base=table)
    add("noise: an epsilon of its own", claim={"epsilon": 0.2}, base=table)
    lossy = taken_apart(mechanism_bytes(noise(), person()))
    add("noise: a loss", claim={"quality_loss_km": 0.5 * lossy[2]["quality_loss_km"]}, base=lossy)
    # The container.
    good = mechanism_bytes(lattice(), person())
    made["bytes after it"] = good + b"\0" * 8
    made["cut short"] = good[:-8]
    made["a changed byte"] = good[:-1] + bytes([good[-1] ^ 1])
    return made


def test_forged_files_are_refused(tmp_path: Path) -> None:
    files = forged()
    assert len(files) > 120
    taken, file = {}, tmp_path / "k.whereish"
    for name, content in files.items():
        file.write_bytes(content)
        try:
            wh.audit_file(file)
            taken[name] = "taken"
        except (wh.FormatError, wh.GuaranteeError) as wrong:
            assert len(str(wrong)) < 600, name
            assert not any(f"{x:.4f}" in str(wrong) for x in person()[0].ravel()), name
    assert taken == {}


def test_loading_refuses_counts_that_are_not_private(tmp_path: Path) -> None:
    """The claims are the audit's; the integers are checked whenever a file is read."""
    files, file = forged(), tmp_path / "k.whereish"
    for name in ("counts that tell", "a row of 2^63 + 1", "a smaller lattice", "epsilon 0",
                 "a zero beside positive counts", "rows exchanged"):  # fmt: skip
        file.write_bytes(files[name])
        with pytest.raises(wh.GuaranteeError):
            wh.load_mechanism(file)


def test_the_helper_of_these_tests_forges_nothing_by_itself(tmp_path: Path) -> None:
    for made, prior in ((lattice(), person()), (lattice(), None), (noise(), person())):
        content = file_of(*taken_apart(mechanism_bytes(made, prior)), version="2")
        (tmp_path / "k.whereish").write_bytes(content)
        assert wh.audit_file(tmp_path / "k.whereish")["certified"]
