"""Mechanisms on a lattice in the JavaScript client: the same file, verdict, words and report."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checks
import forgeries
import lattice_files
import whereish as wh
from littlesite import CHROMIUM, chromium, site
from mangled import mangled
from whereish.format import mechanism_bytes
from whereish.measures import audit_lattice
from whereish.places import Lattice
from whereish.places.lattice import to_units

CLIENT = Path(__file__).parent.parent / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
VECTORS = CLIENT / "test" / "lattice-vectors.json"
REFUSED = {"FormatError", "GuaranteeError"}
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
pytestmark = pytest.mark.xdist_group("client")
IN_A_PAGE = """async (names) => {
  const { readMechanism } = await import("/client/whereish.js");
  const said = {};
  for (const name of names) {
    const bytes = await (await fetch("/files/" + name)).arrayBuffer();
    try {
      await readMechanism(bytes, { warn: false });
      said[name] = "taken";
    } catch (wrong) {
      said[name] = wrong.constructor.name;
    }
  }
  return said;
}"""


def shared() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(VECTORS.read_text())["mechanisms"]
    return found


def slow_choice(axis: list[int], at: int, words: list[int]) -> tuple[int, int, int, int]:
    """Return the lower index, steps, width and chosen index, as docs/format.md says.

    Words after the first are further binary digits of the same uniform number.
    """
    if len(axis) == 1:
        return 0, 0, 1, 0
    at = min(max(at, axis[0]), axis[-1])
    low = max(k for k in range(len(axis) - 1) if axis[k] <= at)
    steps, width = at - axis[low], axis[low + 1] - axis[low]
    low_end, size = Fraction(0), Fraction(1)
    for word in words:
        size /= 2**63
        low_end += word * size
    share = Fraction(steps, width)
    assert not low_end < share < low_end + size, "the words do not decide"
    return low, steps, width, low + (low_end < share)


@pytest.mark.parametrize("part", shared(), ids=lambda part: part["name"])
def test_the_vectors_are_right(
    part: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The library and slow code that shares nothing with it follow every vector."""
    (tmp_path / "k").write_bytes(base64.b64decode(part["file"]))
    m, _ = wh.load_mechanism(tmp_path / "k")
    axes = [[int(x) for x in to_units(axis)] for axis in m.lattice]
    for vector in part["vectors"]:
        point, words = vector["km"], [int(word) for word in vector["words"]]
        units = [(Fraction(value) * 2**40 + Fraction(1, 2)).__floor__() for value in point]
        if max(map(abs, point)) <= 4096:  # further out the sum is rounded to a whole unit
            assert units == vector["units"]
        if "degrees" in vector:
            assert m.outputs.plane is not None
            off = to_units(m.outputs.plane.to_xy([vector["degrees"]]))[0] - vector["units"]
            assert np.abs(off).max() <= 64, "PROJ rounds a little differently elsewhere"
        # Further words belong to the axis whose first word is the quotient itself.
        split = [[words[0]], [words[1]]]
        tied = [
            word == (vector["steps"][k] << 63) // vector["widths"][k]
            and (vector["steps"][k] << 63) % vector["widths"][k] > 0
            for k, word in enumerate(words[:2])
        ]
        assert sum(tied) <= 1
        if any(tied):
            split[tied.index(True)] += words[3:]
        found = [slow_choice(axes[k], units[k], split[k]) for k in range(2)]
        assert [one[0] for one in found] == vector["corner"]
        assert [one[1] for one in found] == vector["steps"]
        assert [one[2] for one in found] == vector["widths"]
        assert vector["cell"] == found[1][0] * max(1, len(axes[0]) - 1) + found[0][0]
        ends = [(axis[0], axis[-1]) for axis in axes]
        inside = [min(max(at, low), high) for at, (low, high) in zip(units, ends, strict=True)]
        squares = [math.floor(at / (0.1 * 2**40)) + 2**20 for at in inside]
        assert vector["square"] == squares[0] * 2**21 + squares[1]
        assert vector["vertex"] == found[1][3] * len(axes[0]) + found[0][3]
        row = m.counts[vector["vertex"]].tolist()
        output = next(z for z in range(len(row)) if words[2] < sum(row[: z + 1]))
        assert vector["output"] == output
        left = [word << 1 for word in words]

        def urandom(size: int, left: list[int] = left) -> bytes:
            taken, left[:] = left[: size // 8], left[size // 8 :]
            return b"".join(word.to_bytes(8, "little") for word in taken)

        monkeypatch.setattr(os, "urandom", urandom)
        from_plane = wh.EverywhereMechanism(
            m.counts, m.lattice, wh.Places.from_xy(m.outputs.xy), m.epsilon
        )
        assert from_plane.sample(point).outputs.tolist() == [output]
        assert left == []


def run_node(draws: int) -> None:
    done = subprocess.run(
        [str(NODE), "--test", str(CLIENT / "test" / "lattice.test.js")],
        env={**os.environ, "WHEREISH_DRAWS": str(draws)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 10" in done.stdout or "ℹ pass 10" in done.stdout


@needs_node
def test_the_client_follows_the_vectors() -> None:
    run_node(100_000)


@pytest.mark.thorough
@needs_node
@pytest.mark.slow
def test_a_million_draws_of_the_client() -> None:
    """Chi-square in the client; the same words with biased corners are rejected."""
    run_node(1_000_000)


def verdicts(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "verdicts.js"), str(CLIENT / "whereish.js"), str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said: dict[str, str] = json.loads(done.stdout)
    return said


def written(folder: Path, files: dict[str, bytes]) -> list[str]:
    for number, content in enumerate(files.values()):
        (folder / str(number)).write_bytes(content)
    return list(files)


def test_python_refuses_forged_lattices_and_takes_honest_ones(tmp_path: Path) -> None:
    taken = []
    for name, content in lattice_files.forged_lattices().items():
        (tmp_path / "k").write_bytes(content)
        with contextlib.suppress(wh.FormatError, wh.GuaranteeError):
            wh.audit_file(tmp_path / "k")
            taken.append(name)
    assert taken == []
    for content in lattice_files.honest_lattices().values():
        (tmp_path / "k").write_bytes(content)
        assert wh.audit_file(tmp_path / "k")["certified"]


@needs_node
def test_node_refuses_forged_lattices_and_takes_honest_ones(tmp_path: Path) -> None:
    forged, honest = lattice_files.forged_lattices(), lattice_files.honest_lattices()
    assert len(forged) >= 100
    names = written(tmp_path, {**forged, **honest})
    said = {names[int(number)]: word for number, word in verdicts(tmp_path).items()}
    assert {name: said[name] for name in forged if said[name] not in REFUSED} == {}
    assert {name: said[name] for name in honest if said[name] != "taken"} == {}
    assert said["one double below the tightest"] == "GuaranteeError"


@pytest.mark.thorough
@pytest.mark.heavy
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_chromium_refuses_forged_lattices_and_takes_honest_ones(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    forged, honest = lattice_files.forged_lattices(), lattice_files.honest_lattices()
    names = written(tmp_path, {**forged, **honest})
    with site(files=tmp_path) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        told: dict[str, str] = page.evaluate(IN_A_PAGE, [str(k) for k in range(len(names))])
    said = {names[int(number)]: word for number, word in told.items()}
    assert {name: said[name] for name in forged if said[name] not in REFUSED} == {}
    assert {name: said[name] for name in honest if said[name] != "taken"} == {}


@needs_node
def test_corners_are_decided_as_python_decides_them(tmp_path: Path) -> None:
    """Single counts and single doubles around the limit of the tightest corner."""
    rng = np.random.default_rng(7)
    expected = {}
    for number in range(300):
        sizes = [(2, 2), (3, 2), (1, 3), (3, 1)][number % 4]
        scale = 10.0 ** rng.uniform(-2, 1)
        lattice = Lattice(*(scale * np.cumsum(rng.uniform(0.1, 1, size)) for size in sizes))
        one = rng.integers(2**61, 2**62, len(lattice), dtype=np.uint64)
        if number % 3 == 0:  # a count of one vertex only: its corners are the tightest ones
            one[:] = 2**61 + number
            one[-1] += np.uint64(rng.integers(1, 2**58))
        counts = np.column_stack([one, np.uint64(2**63) - one])
        level = wh.tightest_epsilon_everywhere(
            wh.EverywhereMechanism(counts, lattice, wh.Places.from_xy([[0, 0], [1, 0]]), 1e9)
        )
        claim = float(np.nextafter(level, level + rng.choice([-1, 0, 1])))
        if number % 5 == 0:
            step = int(rng.integers(-1, 2))
            counts[-1] = int(counts[-1, 0]) + step, int(counts[-1, 1]) - step
        broken = checks.broken_corners(
            counts.tolist(), lattice.xs.tolist(), lattice.ys.tolist(), claim
        )
        try:
            audit_lattice(counts, lattice, claim)
            expected[str(number)] = "taken"
        except wh.GuaranteeError:
            expected[str(number)] = "GuaranteeError"
        assert (expected[str(number)] == "taken") == (not broken)
        m = wh.EverywhereMechanism(counts, lattice, wh.Places.from_xy([[0, 0], [1, 0]]), 1e9)
        arrays, told, claimed = lattice_files.parts_of(m)
        content = lattice_files.lattice_file(
            arrays, {**told, "epsilon": claim}, {**claimed, "epsilon": claim}
        )
        (tmp_path / str(number)).write_bytes(content)
    taken = list(expected.values()).count("taken")
    assert 60 < taken < 240, taken
    assert verdicts(tmp_path) == expected


@needs_node
def test_lattices_that_are_changed_at_random_are_judged_alike(tmp_path: Path) -> None:
    """The client takes what Python's audit takes, and nothing that Python cannot load."""
    table = wh.planar_laplace_everywhere(np.random.default_rng(8).normal(0, 1, (12, 2)), None, 1.0)
    bases = [*lattice_files.honest_lattices().values(), *3 * [mechanism_bytes(table)]]
    made = mangled(bases, 500, 4, lattice_files.lattice_file)
    loaded, audited = set(), set()
    for number, content in enumerate(made):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with contextlib.suppress(wh.FormatError, wh.GuaranteeError):
            m, _ = wh.load_mechanism(path)
            loaded.add(str(number))
            if isinstance(m, wh.EverywhereMechanism):
                xs, ys = (axis.tolist() for axis in m.lattice)
                assert checks.broken_corners(m.counts.tolist(), xs, ys, m.epsilon) == []
            wh.audit_file(path)
            audited.add(str(number))
    said = verdicts(tmp_path)
    taken = {number for number, word in said.items() if word == "taken"}
    assert 20 < len(audited) < 400, len(audited)
    assert audited <= taken <= loaded
    assert {word for number, word in said.items() if number not in taken} == REFUSED


IN_NODE = """
import { readFileSync } from "node:fs";
const { readMechanism } = await import(process.argv[1]);
const mechanism = await readMechanism(readFileSync(process.argv[2]), { warn: false });
const { certificate } = mechanism;
process.stdout.write(JSON.stringify([certificate, mechanism.accuracyKm(), mechanism.holdsPrior]));
"""
CHECKED = {
    "certified", "epsilon", "epsilon_unit", "metric", "kind", "vertices", "cells", "outputs",
    "corners_checked", "tightest_epsilon", "points_sha256", "quality_loss_km",
}  # fmt: skip


def computed(path: Path) -> tuple[dict[str, Any], float, bool]:
    """Return the certificate that the client has computed, its accuracy, and whose file it is."""
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", IN_NODE, str(CLIENT / "whereish.js"), str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    certificate, accuracy, personal = json.loads(done.stdout)
    return certificate, accuracy, personal


@needs_node
@pytest.mark.parametrize("kept", [True, False])
def test_files_of_the_library_are_taken(tmp_path: Path, kept: bool) -> None:
    rng = np.random.default_rng(4)
    where = wh.Places.from_latlon(np.array([48.85, 2.33]) + rng.normal(0, 0.01, (25, 2)))
    m = wh.optimal_everywhere(where, None, 1.5, vertices=30, method="lattice")
    path = tmp_path / "k"
    wh.save_mechanism(path, m, (where, None) if kept else None)
    claimed = wh.audit_file(path)
    said, _, personal = computed(path)
    expected = {name: claimed[name] for name in CHECKED}
    for name in ("tightest_epsilon", "quality_loss_km"):
        if expected[name] is not None:
            expected[name] = pytest.approx(expected[name], rel=1e-12)
    assert said == expected
    assert personal is kept


@needs_node
@pytest.mark.parametrize("kept", [True, False])
def test_the_client_repeats_only_what_it_has_computed(tmp_path: Path, kept: bool) -> None:
    m = lattice_files.small_lattice()
    points, weights = lattice_files.POINTS
    arrays, told, claimed = lattice_files.parts_of(m, *(lattice_files.POINTS if kept else ()))
    lies = {"guarantee": ["Perfect."], "gap": 0.0, "lower_bound_km": 9.0, "method": "perfect"}
    path = tmp_path / "lies"
    path.write_bytes(lattice_files.lattice_file(arrays, told, {**claimed, **lies}))
    said, accuracy, personal = computed(path)
    expected = {name: claimed[name] for name in CHECKED}
    for name in ("tightest_epsilon", "quality_loss_km"):
        if expected[name] is not None:
            expected[name] = pytest.approx(expected[name], rel=1e-12)
    assert said == expected
    assert said["tightest_epsilon"] >= m.verdict.tightest
    assert personal is kept
    if kept:
        flat = wh.EverywhereMechanism(
            m.counts, m.lattice, wh.Places.from_xy(m.outputs.xy), m.epsilon
        )
        assert said["quality_loss_km"] == pytest.approx(
            wh.expected_loss(flat, points, weights), rel=1e-12
        )
        away = np.hypot(*(np.array(points)[:, None, :] - m.outputs.xy[None, :, :]).T).T
        shares = np.array(weights)[:, None] * flat.probabilities(points)
        assert shares[away <= accuracy + 1e-9].sum() >= 0.95 - 1e-9
        assert shares[away < accuracy - 1e-9].sum() < 0.95


PLANAR = """
import { readFileSync } from "node:fs";
const { PlanarLaplaceEverywhere, readMechanism, Reporter } = await import(process.argv[1]);
const { points, words } = JSON.parse(readFileSync(0, "utf8"));
const mechanism = await readMechanism(readFileSync(process.argv[2]), { warn: false });
let used = 0;
const outputs = points.map(([x, y]) => mechanism.drawKm(x, y, () => BigInt(words[used++])));
const { certificate } = mechanism;
const known = mechanism instanceof PlanarLaplaceEverywhere;
let fresh = null;
if (mechanism.plane) {
  const kept = new Map();
  const getItem = (key) => kept.get(key) ?? null;
  const setItem = (key, text) => kept.set(key, text);
  const reporter = new Reporter(mechanism, { getItem, setItem }, { newPlaces: 1 });
  fresh = [0, 1].map(() => reporter.report(48.85, 2.33).fresh);
}
process.stdout.write(JSON.stringify(
  { outputs, used, certificate, known, fresh, accuracy: mechanism.accuracyKm() }));
"""


@needs_node
@pytest.mark.parametrize("epsilon", [0.2, 1.07, 10.0])
@pytest.mark.parametrize("earth", [True, False])
def test_planar_laplace_gives_the_same_report_from_the_same_words(
    tmp_path: Path, epsilon: float, earth: bool
) -> None:
    rng = np.random.default_rng(8)
    where = wh.Places.from_latlon(np.array([48.85, 2.33]) + rng.normal(0, 0.01, (12, 2)))
    made = wh.planar_laplace_everywhere(where if earth else where.xy, None, epsilon)
    path = tmp_path / "k"
    wh.save_mechanism(path, made, (where, None) if earth else None)
    points = np.vstack([where.xy, rng.uniform(-9, 9, (60, 2)), [[0.0, 0.0], [900.0, -900.0]]])
    flat = wh.PlanarLaplaceEverywhere(
        epsilon, made.borders, made.table, wh.Places.from_xy(made.outputs.xy)
    )
    expected = flat.sample(points, rng=np.random.default_rng(5)).outputs.tolist()
    source = np.random.default_rng(5)
    words = [source.integers(0, 2**63, size=256, dtype=np.uint64) for _ in range(60)]
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", PLANAR, str(CLIENT / "whereish.js"), str(path)],
        input=json.dumps({"points": points.tolist(),
                          "words": [str(word) for word in np.concatenate(words).tolist()]}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert said["known"]
    assert said["outputs"] == expected
    assert len(set(expected)) > 3
    assert said["fresh"] == ([True, False] if earth else None)
    claimed = wh.audit_file(path)
    checked = (CHECKED - {"quality_loss_km"}) | {"vertices"}
    assert said["certificate"] == {name: claimed[name] for name in checked}
    # The accuracy is approximate: about 95 % of the reports at its points are within it.
    at = where.xy if earth else made.outputs.xy
    away = np.hypot(*(at[:, None, :] - made.outputs.xy[None, :, :]).T).T
    shares = flat.probabilities(at) / len(at)
    assert shares[away <= said["accuracy"] + 1e-9].sum() >= 0.93
    assert shares[away < said["accuracy"] - 1e-9].sum() <= 0.97


@needs_node
def test_forged_tables_are_refused(tmp_path: Path) -> None:
    points = np.random.default_rng(8).normal(0, 1, (12, 2))
    made = wh.planar_laplace_everywhere(points, None, 1.0)
    good = mechanism_bytes(made)
    arrays, told, claimed = forgeries.taken_apart(good)
    table, xs = arrays["table"], arrays["xs"]
    m = len(arrays["outputs"])
    beyond, below = table.copy(), table.copy()
    beyond[0, 0], below[-1, -1] = m, -1
    changes: dict[str, tuple[Any, Any, Any]] = {
        "an output that is not there": ({"table": beyond}, {}, {}),
        "a negative output": ({"table": below}, {}, {}),
        "a column less": ({"table": table[:, :-1].copy()}, {}, {}),
        "a border less": ({"xs": xs[:-1].copy()}, {}, {}),
        "borders the other way": ({"xs": xs[::-1].copy()}, {}, {}),
        "counts as well": ({"counts": np.full((4, m), 2**63 // m, np.uint64)}, {}, {}),
        "a kind with counts": ({}, {"kind": "lattice"}, {"kind": "lattice"}),
        "no epsilon": ({}, {"epsilon": None}, {"epsilon": None}),
        "another epsilon in the certificate": ({}, {}, {"epsilon": 0.1}),
        "corners": ({}, {}, {"corners_checked": 5}),
        "vertices": ({}, {}, {"vertices": 5}),
        "cells": ({}, {}, {"cells": 5}),
        "a tightest epsilon": ({}, {}, {"tightest_epsilon": 0.5}),
    }
    for name, (change, say, claim) in changes.items():
        content = lattice_files.lattice_file(
            {**arrays, **change}, {**told, **say}, {**claimed, **claim}
        )
        (tmp_path / name).write_bytes(content)
        with pytest.raises((wh.FormatError, wh.GuaranteeError)):
            wh.audit_file(tmp_path / name)
    (tmp_path / "good").write_bytes(good)
    said = verdicts(tmp_path)
    assert said.pop("good") == "taken"
    assert {name: word for name, word in said.items() if word not in REFUSED} == {}
