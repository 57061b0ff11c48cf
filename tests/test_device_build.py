"""Mechanisms that the JavaScript client builds: Python audits the files and compares the losses."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from littlesite import CLIENT
from whereish.errors import WhereishError
from whereish.format import unpack
from whereish.format.certificate import as_plain, certify
from whereish.format.mechanism_file import Contents, read_contents

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import device_builds

ROOT = Path(__file__).parent.parent
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
# What a certificate says of when and how it was built, and not of the mechanism.
_OF_THE_BUILD = ("created", "versions", "seconds", "rounding_cost_km", "worst_slack_at")


@pytest.fixture(scope="module", autouse=True)
def module() -> None:
    """The solver's module of these sources: built now, unless it is there."""
    subprocess.run([sys.executable, str(ROOT / "core" / "build.py"), "wasm"], check=True)


def built(asked: list[dict[str, Any]], folder: Path, client: Path = CLIENT) -> list[dict[str, Any]]:
    """Build in one process of Node.js, and return its answers; the files are 0.whereish and on."""
    lines = "".join(
        json.dumps({**one, "file": str(folder / f"{k}.whereish")}) + "\n"
        for k, one in enumerate(asked)
    )
    command = [str(NODE), str(client / "test" / "build-driver.js")]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(asked), done.stderr
    return answers


def exact_bound(contents: Contents) -> Decimal:
    """Return the bound that a proof gives, with 60 digits: by its definition, in a slow way."""
    proof, prior, xy = contents.proof, contents.prior, contents.inputs.xy
    assert proof is not None
    assert prior is not None
    with localcontext() as context:
        context.prec = 60
        at = [(Decimal(float(x)), Decimal(float(y))) for x, y in xy]

        def apart(x: int, z: int) -> Decimal:
            return ((at[x][0] - at[z][0]) ** 2 + (at[x][1] - at[z][1]) ** 2).sqrt()

        n = len(prior)
        cost = {(x, z): Decimal(float(prior[x])) * apart(x, z) for x in range(n) for z in range(n)}
        rows = zip(proof.output, proof.left, proof.right, proof.value, strict=True)
        for output, left, right, value in rows:
            y = Decimal(float(value))
            assert y >= 0
            cost[right, output] -= y
            cost[left, output] += y * (-Decimal(proof.epsilon) * apart(left, right)).exp()
        return sum((min(cost[x, z] for z in range(n)) for x in range(n)), Decimal(0))


def problems(one: dict[str, Any], answer: dict[str, Any], file: Path) -> Iterator[str]:
    """Yield what is wrong with a build, by checks that share no code with it."""
    if "error" in answer:
        yield f"{answer['error']}: {answer['message']}"
        return
    try:
        wh.audit_file(file)
    except WhereishError as refused:
        yield str(refused)
        return
    contents = read_contents(file.read_bytes())
    assert isinstance(contents, Contents)
    mechanism, claimed = contents.mechanism(), contents.claimed
    fresh = as_plain(certify(mechanism, contents.prior))
    for name in fresh:
        said, found = claimed[name], fresh[name]
        near = isinstance(found, float) and said == pytest.approx(found, rel=1e-9, abs=1e-12)
        if name not in (*_OF_THE_BUILD, "gap") and said != found and not near:
            yield f"{name}: {said} is not {found}"
    if list(claimed) != list(fresh):
        yield "the names of the certificate are in another order"
    places, prior = wh.Places.from_latlon(one["places"]), np.array(one["prior"])
    best = wh.optimal(places, prior, one["epsilon"], one["dilation"], normalise=True)
    loss = wh.quality_loss(best, prior / prior.sum())
    found_loss = answer["build"]["lossKm"]
    if not math.isclose(found_loss, loss, rel_tol=1e-6, abs_tol=1e-9):
        yield f"the loss is {found_loss}, and not {loss}"
    if contents.proof is not None:
        exact = exact_bound(contents)
        if Decimal(answer["build"]["lowerBoundKm"]) > max(exact, Decimal(0)):
            yield "the lower bound is too high"
        if len(contents.proof.value) > len(prior) * (len(prior) - 1):
            yield "the proof was not pruned"


def all_problems(folder: Path, client: Path, asked: list[dict[str, Any]]) -> list[str]:
    answers = built(asked, folder, client)
    return [
        f"{k}: {problem}"
        for k, (one, answer) in enumerate(zip(asked, answers, strict=True))
        for problem in problems(one, answer, folder / f"{k}.whereish")
    ]


def unit_tests_pass(client: Path) -> bool:
    command = [str(NODE), "--test", str(client / "test" / "build.test.js")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0


@pytest.mark.slow
def test_every_step_does_what_it_says() -> None:
    assert unit_tests_pass(CLIENT)


@pytest.mark.slow
def test_generated_places_give_files_that_python_accepts(tmp_path: Path) -> None:
    """A part of benchmarks/device_builds.py, with more checks of each file."""
    assert (
        all_problems(tmp_path, CLIENT, [device_builds.instance(seed) for seed in range(24)]) == []
    )


# The file, a text in it, and what the bug puts in its place.
PLANTED = {
    "rounding: a row does not sum to 2^63": (
        "whereish/rounding.js", "parts[most] += missing;", "",
    ),
    "rounding: no room for the rounding": (
        "whereish/rounding.js", "= parts[u] + uniform", "= parts[u]",
    ),
    "rounding: counts are changed after the audit": (
        "whereish/rounding.js", "return { counts, mix };",
        "const moved = counts[0] >> 6n; counts[0] -= moved; counts[1] += moved;"
        " return { counts, mix };",
    ),
    "repair: too much of the uniform mechanism": (
        "build/repair.js", "return mix;", "return Math.max(mix, 1e-4);",
    ),
    "repair: columns are not lifted": (
        "build/repair.js", "loops.lift(n, width,", "((...given) => given[2])(n, width,",
    ),
    "proof: a row takes nothing from its right place": (
        "whereish/bound.js", "cells[right * m + z] -= shiftedUp(y.m, y.e + UNIT);", "",
    ),
    "proof: exp(-eps d) is left out": (
        "whereish/bound.js", "(decay[left * n + right] ??= decayOf(left, right))",
        "{ size: 1n << 63n, power: -63 }",
    ),
    "proof: a sum is rounded up": ("whereish/bound.js", "* (1 - ROOM)", "* (1 + ROOM)"),
    "solve: at a larger epsilon": (
        "build/places.js", "const edgeLevel = epsilon", "const edgeLevel = 1.01 * epsilon",
    ),
    "writer: the loss of another prior": (
        "build/places.js", "sum += prior[Math.floor(at / m)]", "sum += prior[at % m]",
    ),
    "writer: another slack": (
        "build/places.js", "if (room < found.least)", "if (room > found.least)",
    ),
    "writer: another word": ("whereish/certificate.js", "whatever is known already", "mostly"),
    "writer: a claim is missing": (
        "whereish/certificate.js", "    largest_snap_km: reachKm,\n", "",
    ),
    "writer: arrays overlap": (
        "whereish/container.js", "[start, lengthOf(data)]", "[0, lengthOf(data)]",
    ),
    "writer: another digest": (
        "whereish/container.js", "all.sha256 = digestOf(described, texts, data);",
        'all.sha256 = "0".repeat(64);',
    ),
    "writer: a smaller epsilon than the one that was built for": (
        "build/places.js", "    epsilon, epsilon_unit:", "    epsilon: epsilon / 2, epsilon_unit:",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Instances with a prior in the file whose ratios are tight, without any problem."""
    asked = [{**device_builds.instance(seed), "keepPrior": True} for seed in (1, 2, 10)]
    asked += [
        {**asked[0], "epsilon": 20.0},
        {"places": [[0, 0], [0, 0.01], [0.01, 0]], "prior": [0.7, 0.2, 0.1], "epsilon": 1.0,
         "dilation": 1.0, "keepPrior": True},
    ]  # fmt: skip
    assert all_problems(tmp_path_factory.mktemp("tight"), CLIENT, asked) == []
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_caught(bug: str, tight: list[dict[str, Any]], tmp_path: Path) -> None:
    file, old, new = PLANTED[bug]
    client = tmp_path / "client"
    shutil.copytree(CLIENT, client)
    text = (client / file).read_text()
    assert text.count(old) >= 1, "the planted bug needs another place"
    (client / file).write_text(text.replace(old, new))
    assert not unit_tests_pass(client) or all_problems(tmp_path, client, tight) != []


POINTS: dict[str, Any] = {
    "points": [[48.85, 2.30], [48.86, 2.34], [48.87, 2.36], [48.851, 2.302], [48.88, 2.31]],
    "weights": [0.4, 0.3, 0.15, 0.1, 0.05],
}


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("method", ["lattice", "planar-laplace", "auto"])
def test_mechanisms_for_every_point(method: str, keep: bool, tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [
        {**POINTS, "epsilon": epsilon, "vertices": 64, "method": method, "keepPoints": keep}
        for epsilon in (0.5, 2.0)
    ]
    for k, (one, answer) in enumerate(zip(asked, built(asked, tmp_path), strict=True)):
        file = tmp_path / f"{k}.whereish"
        found = wh.audit_file(file)
        mechanism, prior = wh.load_mechanism(file)
        assert (prior is not None) is keep
        assert found["epsilon"] == one["epsilon"]
        assert found["method"].startswith("optimal" if found["kind"] == "lattice" else "planar")
        assert found["guarantee"] == read_contents(file.read_bytes()).claimed["guarantee"]
        places = wh.Places.from_latlon(one["points"])
        loss = wh.expected_loss(mechanism, places, one["weights"])
        assert answer["build"]["lossKm"] == pytest.approx(loss, rel=1e-6)
        ours = wh.optimal_everywhere(
            places, one["weights"], one["epsilon"], vertices=64, method=method
        )
        assert loss <= 1.02 * (ours.build.loss_km or 0)
        bound = answer["build"]["lowerBoundKm"]
        assert bound is None or 0 < bound <= loss
        if keep and found["kind"] == "lattice":
            assert found["lower_bound_km"] == pytest.approx(bound, rel=1e-9)


@pytest.mark.slow
def test_generated_points_give_files_that_python_accepts(tmp_path: Path) -> None:
    """One point, equal points, points on a line or within a millimetre, and others."""
    asked = [device_builds.everywhere_instance(seed) for seed in range(18)]
    for k, answer in enumerate(built(asked, tmp_path)):
        assert "error" not in answer, f"{k}: {answer}"
        wh.audit_file(tmp_path / f"{k}.whereish")


def test_without_the_prior_a_file_holds_nothing_of_it(tmp_path: Path) -> None:
    one = {**device_builds.instance(2), "keepPrior": False}
    built([one, {**POINTS, "epsilon": 1.0, "vertices": 16, "method": "lattice"}], tmp_path)
    for name in ("0.whereish", "1.whereish"):
        arrays, texts = unpack((tmp_path / name).read_bytes())
        personal = {"prior", "points", "weights"}
        assert not [n for n in arrays if n in personal or n.startswith("proof_")]
        build = json.loads(texts["mechanism"])["build"]
        kept = {name for name, value in build.items() if value not in (None, [])}
        assert kept <= {"method", "solver", "variables", "constraints", "edges", "dilation",
                        "requested_dilation", "stopped"}  # fmt: skip
        claimed = json.loads(texts["certificate"])
        for field in ("quality_loss_km", "lower_bound_km", "gap", "seconds", "repair_mix"):
            assert claimed[field] is None


GOOD: dict[str, Any] = {"places": [[1.25, 2.5], [1.26, 2.5]], "prior": [0.5, 0.5], "epsilon": 1.0}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon must be"),
    ({"epsilon": "1"}, "epsilon must be"),
    ({"prior": [0.5, 0.6]}, "prior must have"),
    ({"prior": [1.5, -0.5]}, "prior must have"),
    ({"prior": [1.0]}, "prior must have"),
    ({"places": [[1.25, 2.5]], "prior": [1.0]}, "at least two"),
    ({"places": [[1.25, 2.5], [91.25, 2.5]]}, "pairs"),
    ({"places": [[1.25, 2.5], [1.25, 2.5]]}, "must differ"),
    ({"places": [[0, 0], [0, 180]]}, "region"),
    ({"places": [[0, 0], [60, 60]]}, "3400 km"),
    ({"dilation": 0.5}, "dilation must be"),
    ({"cellKm": -1}, "cellKm must be"),
    ({"tolerance": 2}, "tolerance must be"),
    ({"timeLimit": -1}, "timeLimit must be"),
    ({"here": 3}, "here must be"),
]


@pytest.mark.slow
def test_bad_options_are_refused_without_a_coordinate(tmp_path: Path) -> None:
    answers = built([{**GOOD, **change} for change, _ in BAD], tmp_path)
    for answer, (change, words) in zip(answers, BAD, strict=True):
        assert answer.get("error") == "InputError", change
        assert words in answer["message"], answer
        for number in ("1.25", "2.5", "91.25", "1.26"):
            assert number not in answer["message"]


_SCRIPT = """
const [client, part] = process.argv.slice(2);
const { buildPlaces } = await import(client + "/build.js");
const options = JSON.parse(part);
const text = ({ bytes }) => new TextDecoder("latin1").decode(bytes)
  .replace(/[0-9a-f]{64}/g, "").replace(/created[^,]*,/g, "");
const stages = new Set();
const onProgress = ({ stage }) => stages.add(stage);
const here = await buildPlaces({ ...options, here: true, onProgress });
const there = await buildPlaces(options);
const late = await buildPlaces({ ...options, timeLimit: 0 });
const said = (change) => buildPlaces({ ...options, ...change })
  .then(() => "built", (wrong) => wrong.message);
const before = await said({ signal: AbortSignal.abort(new Error("before")) });
const stopped = [];
for (const where of [true, false]) {
  const stop = new AbortController();
  const tell = ({ iteration }) => iteration === 2 && stop.abort(new Error("during"));
  stopped.push(await said({ here: where, signal: stop.signal, onProgress: tell }));
}
process.stdout.write(JSON.stringify({ same: text(here) === text(there), stages: [...stages],
  late: late.build.stopped, epsilon: late.mechanism.epsilon, before, stopped }));
"""


@pytest.mark.slow
def test_in_a_worker_and_here_and_how_to_stop(tmp_path: Path) -> None:
    script = tmp_path / "run.mjs"
    script.write_text(_SCRIPT)
    options = {**device_builds.instance(1), "epsilon": 1.0, "dilation": 1.0, "keepPrior": False}
    done = subprocess.run(
        [str(NODE), str(script), str(CLIENT), json.dumps(options)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "same": True, "stages": ["spanner", "solve", "certify", "audit"], "late": "time",
        "epsilon": 1.0, "before": "before", "stopped": ["during", "during"],
    }  # fmt: skip
