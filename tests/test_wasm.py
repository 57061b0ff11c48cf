"""The solver as WebAssembly, in node and in Chromium: the same program, the same loss."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whereish as wh
from littlesite import CHROMIUM, CLIENT, chromium, site
from serving import wait_until
from whereish.places import Array
from whereish.programs import greedy_spanner
from whereish.solvers import solve_structured

ROOT = Path(__file__).parent.parent
MODULE = CLIENT / "dist" / "whereish.wasm"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
LARGEST_GZIP = 150_000
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
# A tolerance at which the optimum is known to 1e-9. At looser ones a solve may end at any loss
# within the gap, and instruction sets round differently.
TIGHT = 1e-9
Program = dict[str, Any]
# memory, _initialize, and a malloc that is `unreachable`.
TRAPPING = bytes.fromhex(
    "0061736d01000000" "010902600000" "60017f017f" "0303020001" "0503010001"
    "0721" "03" "066d656d6f72790200" "0b5f696e697469616c697a650000" "066d616c6c6f630001"
    "0a08" "02" "02000b" "0300000b"
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def module() -> Path:
    """The module of these sources: built now, unless it is there."""
    subprocess.run([sys.executable, str(ROOT / "core" / "build.py"), "wasm"], check=True)
    return MODULE


def generated(seed: int, least: int = 5, most: int = 60) -> Program:
    """Places at random or on a grid, a skewed prior, eps 0.1 to 10, dilation 1 or 1.1."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(least, most + 1))
    side = math.ceil(math.sqrt(n))
    grid = np.column_stack(np.divmod(np.arange(n), side)) * 0.5
    places = rng.uniform(0, side / 2, (n, 2)) if seed % 2 else grid
    apart = places[:, None] - places[None]
    distances = np.hypot(apart[..., 0], apart[..., 1])
    prior = rng.gamma(0.3, size=n) + 1e-6
    epsilon = 10 ** float(rng.uniform(-1, 1))
    spanner = greedy_spanner(distances, (1.0, 1.1)[seed // 2 % 2])
    return {
        "prior": prior / prior.sum(),
        "loss": distances,
        "pairs": spanner.edges,
        "exponents": spanner.edge_epsilon(epsilon) * spanner.lengths,
        "reach": epsilon * distances,
    }


INSTANCES = [generated(seed) for seed in range(20)]


def native(program: Program, tolerance: float) -> float:
    found = solve_structured(
        program["prior"], program["loss"], program["pairs"], program["exponents"],
        program["reach"], tolerance, threads=1,
    )  # fmt: skip
    return found.loss


def plain(value: Any) -> Any:
    """What JSON can hold; NaN and infinity as words, which the driver turns back."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity"
    return value


def asked(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask node, in one process."""
    lines = "".join(json.dumps(plain(question)) + "\n" for question in questions)
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "solve-driver.js")],
        input=lines, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def check_solution(program: Program, found: dict[str, Any]) -> None:
    """Check by definition: a stochastic matrix, private, of this loss; the bound is proved."""
    prior, loss = program["prior"], np.asarray(program["loss"])
    n, m = loss.shape
    assert (found["places"], found["outputs"]) == (n, m)
    matrix = np.array(found["matrix"]).reshape(n, m)
    assert (matrix >= 0).all()
    assert np.abs(matrix.sum(axis=1) - 1).max() < 1e-9
    limit = {}
    for (x, y), exponent in zip(program["pairs"].tolist(), program["exponents"], strict=True):
        limit[x, y] = limit[y, x] = math.exp(-exponent)
        assert (matrix[x] <= matrix[y] * math.exp(exponent) * (1 + 1e-9) + 1e-12).all()
        assert (matrix[y] <= matrix[x] * math.exp(exponent) * (1 + 1e-9) + 1e-12).all()
    assert found["loss"] == pytest.approx(float((prior[:, None] * loss * matrix).sum()), rel=1e-9)
    assert found["bound"] == pytest.approx(proved(prior, loss, limit, found), rel=1e-9, abs=1e-12)
    assert found["bound"] <= found["loss"]
    assert found["gap"] == pytest.approx(1 - found["bound"] / found["loss"], abs=1e-12)


def proved(
    prior: Array, loss: Array, limit: dict[tuple[int, int], float], found: dict[str, Any]
) -> float:
    """The lower bound that the multipliers prove, by weak duality."""
    reduced = prior[:, None] * loss
    y = found["multipliers"]
    for z, left, right, value in zip(y["output"], y["left"], y["right"], y["value"], strict=True):
        assert value >= 0
        reduced[right, z] -= value
        reduced[left, z] += value * limit[left, right]
    return max(0.0, float(reduced.min(axis=1).sum()))


@pytest.mark.slow
@needs_node
@pytest.mark.parametrize("how", ["solve", "solveHere"])
def test_node_finds_the_loss_of_the_native_library(how: str) -> None:
    answers = asked(*({"ask": how, **one, "tolerance": TIGHT} for one in INSTANCES))
    for program, found in zip(INSTANCES, answers, strict=True):
        assert found["loss"] == pytest.approx(native(program, TIGHT), rel=1e-9)
        check_solution(program, found)


@needs_node
def test_worker_and_calling_thread_give_the_same_bits_and_the_same_progress() -> None:
    program = generated(3, 40, 40)
    in_worker, here = asked({"ask": "solve", **program}, {"ask": "solveHere", **program})
    for found in (in_worker, here):
        assert found["stopped"] == "solved"
        assert found["gap"] <= 1e-6
        assert found.pop("seconds") > 0
        steps = [call["iteration"] for call in found["calls"]]
        assert len(steps) >= found["iterations"] > 3
        assert steps == sorted(steps)
        assert steps[-1] == found["iterations"]
        assert all(call["outputs"] > 0 and call["rows"] > 0 for call in found["calls"])
        # The losses come down to that of the solution.
        assert min(call["loss"] for call in found["calls"]) <= found["loss"] * (1 + 1e-9)
    assert in_worker == here


@needs_node
@pytest.mark.parametrize("how", ["solve", "solveHere"])
def test_an_aborted_solve_gives_the_best_mechanism_so_far(how: str) -> None:
    program = generated(5, 60, 60)
    whole, stopped = asked({"ask": how, **program}, {"ask": how, **program, "abortAfter": 3})
    assert stopped["stopped"] == "asked"
    assert stopped["iterations"] < whole["iterations"]
    assert stopped["loss"] > whole["loss"]
    check_solution(program, stopped)


@needs_node
def test_after_the_time_limit_it_is_the_best_mechanism_so_far() -> None:
    program = generated(5, 60, 60)
    (found,) = asked({"ask": "solve", **program, "timeLimit": 0})
    assert found["stopped"] == "time"
    check_solution(program, found)


@needs_node
def test_what_was_aborted_before_does_not_begin() -> None:
    (found,) = asked({"ask": "abortedBefore", **generated(1)})
    assert found["error"] == "AbortError"


@needs_node
@pytest.mark.parametrize("how", ["solve", "solveHere"])
def test_an_error_of_the_callback_is_the_callers(how: str) -> None:
    program = generated(1)
    (found,) = asked({"ask": "throwing", "how": how, **program})
    assert found == {"error": "RangeError", "message": "of the caller"}


GOOD = generated(1, 6, 6)
POINTS = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
THIRDS = [0.25, 0.25, 0.5]
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "either places and epsilon, or loss"),
    "null": ({"is": None}, "needs"),
    "both": ({**GOOD, "places": POINTS}, "either places and epsilon, or loss"),
    "no prior": ({**GOOD, "prior": None}, "prior must be a list"),
    "an empty prior": ({**GOOD, "prior": []}, "prior must be a list of 1 to 30000"),
    "a negative prior": ({**GOOD, "prior": [-0.5, 1.5, 0, 0, 0, 0]}, "prior must be numbers of at"),
    "a prior of NaN": ({**GOOD, "prior": [math.nan] * 6}, "prior must be numbers of at least 0"),
    "a prior of words": ({**GOOD, "prior": ["1", "", "", "", "", ""]}, "prior must be numbers of"),
    "a prior of 2": ({**GOOD, "prior": GOOD["prior"] * 2}, "prior must sum to 1"),
    "a short loss": ({**GOOD, "loss": [1.0] * 7}, "loss must have n x m numbers"),
    "ragged rows": ({**GOOD, "loss": [[1.0] * 6] * 5 + [[1.0]]}, "rows of the same length"),
    "an infinite loss": ({**GOOD, "loss": [math.inf] * 36}, "loss must be numbers of at least 0"),
    "a pair outside": ({**GOOD, "pairs": [0, 6], "exponents": [1.0]}, "pairs must be pairs of two"),
    "a place twice": ({**GOOD, "pairs": [1, 1], "exponents": [1.0]}, "pairs must be pairs of two"),
    "half a pair": ({**GOOD, "pairs": [1, 2, 3], "exponents": [1.0]}, "pairs must be pairs of two"),
    "half a place": ({**GOOD, "pairs": [0.5, 1], "exponents": [1.0]}, "pairs must be pairs of two"),
    "too many pairs": ({**GOOD, "pairs": [0, 1] * 16, "exponents": [1.0] * 16}, "once at most"),
    "few exponents": ({**GOOD, "exponents": [1.0]}, "exponents must have one number for each"),
    "exponents below 0": ({**GOOD, "exponents": -GOOD["exponents"]}, "exponents must be numbers"),
    "a short reach": ({**GOOD, "reach": [1.0]}, "reach must have n x n"),
    "a tolerance of 0": ({**GOOD, "tolerance": 0}, "tolerance must be a number from"),
    "a tolerance of 2": ({**GOOD, "tolerance": 2}, "tolerance must be a number from"),
    "a limit below 0": ({**GOOD, "timeLimit": -1}, "timeLimit must be a number of seconds"),
    "no epsilon": ({"places": POINTS, "prior": THIRDS}, "epsilon must be a number above 0"),
    "places that are one": (
        {"places": [*POINTS[:2], [0, 0]], "prior": THIRDS, "epsilon": 1},
        "those at [0] and [2] do not",
    ),
    "places in space": (
        {"places": [[0, 0, 0]] * 3, "prior": THIRDS, "epsilon": 1},
        "places must be pairs",
    ),
    "more places than priors": (
        {"places": POINTS, "prior": [0.5, 0.5], "epsilon": 1},
        "one number for each place",
    ),
    "a dilation below 1": (
        {"places": POINTS, "prior": THIRDS, "epsilon": 1, "dilation": 0.5},
        "dilation must be a number of at least 1",
    ),
}


@needs_node
@pytest.mark.parametrize("how", ["solve", "solveHere"])
def test_bad_input_is_refused_in_words(how: str) -> None:
    answers = asked(*({"ask": how, **options} for options, _ in BAD.values()))
    for (name, (_, words)), found in zip(BAD.items(), answers, strict=True):
        assert found.get("error") == "InputError", name
        assert words in found["message"], name


@needs_node
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n": 0}, "InputError", "size"),
        ({"m": 40000}, "InputError", "size"),
        ({"tolerance": 0.0}, "InputError", "size"),
        ({"pairs": [0, 9], "exponents": [1.0]}, "InputError", "a pair names a place"),
        ({"pairs": [-1, 1], "exponents": [1.0]}, "InputError", "a pair names a place"),
        ({"prior": [math.nan] * 6}, "InputError", "a number of the program"),
        ({"loss": [-1.0] * 36}, "InputError", "a number of the program"),
        ({"reach": [math.nan] * 36}, "InputError", "a number of the program"),
    ],
)
def test_the_core_refuses_by_itself(change: dict[str, Any], error: str, words: str) -> None:
    program = {name: np.ravel(values).tolist() for name, values in GOOD.items()}
    whole = {**program, "n": 6, "m": 6, "tolerance": 1e-6, "timeLimit": math.inf}
    right, wrong = asked({"ask": "unchecked", **whole}, {"ask": "unchecked", **whole, **change})
    assert right["stopped"] == "solved"
    assert wrong["error"] == error
    assert words in wrong["message"]


@needs_node
@pytest.mark.parametrize("how", ["solve", "solveHere"])
def test_after_an_internal_error_the_next_solve_is_right(how: str) -> None:
    trapped, foreign, nothing, after = asked(
        {"ask": "otherModule", "how": how, "bytes": [*TRAPPING], **GOOD},
        {"ask": "otherModule", "how": how, "bytes": [*TRAPPING[:8]], **GOOD},
        {"ask": "otherModule", "how": how, "bytes": [], **GOOD},
        {"ask": how, **GOOD},
    )
    assert trapped["error"] == foreign["error"] == nothing["error"] == "SolveError"
    assert "internal error" in trapped["message"]
    assert "not the module of this client" in foreign["message"]
    assert "could not be compiled" in nothing["message"]
    check_solution(GOOD, after)


@needs_node
def test_spanners_are_those_of_python() -> None:
    rng = np.random.default_rng(0)
    metrics = [program["loss"] for program in INSTANCES]
    line = np.abs(np.subtract.outer(np.arange(12) * 0.1, np.arange(12) * 0.1))
    weights = rng.uniform(1, 2, (15, 15))
    metrics += [line, np.zeros((1, 1)), (weights + weights.T) * (1 - np.eye(15))]
    cases = [(metric, dilation) for metric in metrics for dilation in (1.0, 1.05, 1.5, 3.0)]
    answers = asked(
        *(
            {"ask": "spanner", "metric": metric.ravel(), "dilation": dilation}
            for metric, dilation in cases
        )
    )
    for (metric, dilation), found in zip(cases, answers, strict=True):
        spanner = greedy_spanner(metric, dilation)
        assert found["edges"] == spanner.edges.ravel().tolist()
        assert found["lengths"] == spanner.lengths.tolist()
        assert found["dilation"] == spanner.dilation
        assert found["exactDilation"] == spanner.exact_dilation


@needs_node
@pytest.mark.parametrize("metric", [[0, 1, 2, 0], [0, 1, 1, 1], [0, -1, -1, 0], [0, 1], []])
def test_a_matrix_that_is_no_metric_has_no_spanner(metric: list[float]) -> None:
    (found,) = asked({"ask": "spanner", "metric": metric, "dilation": 1})
    assert found["error"] == "InputError"
    assert found["message"].startswith("metric must")


@needs_node
@pytest.mark.parametrize("dilation", [1.0, 1.1])
def test_places_give_the_program_of_python(dilation: float) -> None:
    rng = np.random.default_rng(7)
    places = wh.Places.from_xy(rng.uniform(0, 4, (25, 2)))
    prior, epsilon = rng.gamma(0.3, size=25) + 1e-3, 1.3
    prior /= prior.sum()
    distances = wh.euclidean(places)
    spanner = greedy_spanner(distances, dilation)
    question = {"places": places.xy, "epsilon": epsilon, "dilation": dilation}
    program, found = asked(
        {"ask": "program", **question}, {"ask": "solve", **question, "prior": prior}
    )
    exponents = spanner.edge_epsilon(epsilon) * spanner.lengths
    assert program["pairs"] == spanner.edges.ravel().tolist()
    assert program["exponents"] == pytest.approx(exponents.tolist(), rel=1e-12)
    assert program["loss"] == pytest.approx(distances.ravel().tolist(), rel=1e-12)
    assert program["reach"] == pytest.approx((epsilon * distances).ravel().tolist(), rel=1e-12)
    best = wh.optimal(places, prior, epsilon, dilation)
    assert found["loss"] == pytest.approx(wh.quality_loss(best, prior), rel=1e-5)


def test_the_module_is_small(module: Path) -> None:
    assert len(gzip.compress(module.read_bytes(), 9)) < LARGEST_GZIP


# Chromium ---------------------------------------------------------------------------------------

SOLVE_ALL = """async ([programs, how]) => {
  const solver = await import("/client/solve.js");
  const answers = [];
  for (const program of programs) {
    let calls = 0;
    const { matrix, multipliers, ...rest } =
      await solver[how]({ ...program, onProgress: () => calls++ });
    const proof = Object.entries(multipliers).map(([name, values]) => [name, [...values]]);
    answers.push({ ...rest, matrix: [...matrix], multipliers: Object.fromEntries(proof), calls });
  }
  return answers;
}"""
ABORT = """async (program) => {
  const { solve } = await import("/client/solve.js");
  const controller = new AbortController();
  const onProgress = () => controller.abort();
  try {
    const found = await solve({ ...program, onProgress, signal: controller.signal });
    return [globalThis.crossOriginIsolated, found.stopped, [...found.matrix].length];
  } catch (error) {
    return [globalThis.crossOriginIsolated, error.name, 0];
  }
}"""
REFUSED = """async (program) => {
  const { solve } = await import("/client/solve.js");
  const said = (error) => error.constructor.name + ": " + error.message;
  return await solve(program).then(() => "taken", said);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with chromium() as opened:
        yield opened


@pytest.mark.thorough
@pytest.mark.heavy
@needs_chromium
def test_chromium_finds_the_loss_of_the_native_library(browser: Any) -> None:
    programs = [{**plain(one), "tolerance": TIGHT} for one in INSTANCES]
    with site() as address:
        page = browser.new_page()
        page.goto(address)
        answers = page.evaluate(SOLVE_ALL, [programs, "solve"])
        here = page.evaluate(SOLVE_ALL, [programs[:3], "solveHere"])
        page.close()
    for program, found in zip(INSTANCES, answers, strict=True):
        assert found["loss"] == pytest.approx(native(program, TIGHT), rel=1e-9)
        assert found["calls"] >= found["iterations"]
        check_solution(program, found)
    assert [one["matrix"] for one in here] == [one["matrix"] for one in answers[:3]]


@pytest.mark.heavy
@needs_chromium
@pytest.mark.parametrize(
    ("isolated", "expected"), [(True, [True, "asked", 3600]), (False, [False, "AbortError", 0])]
)
@pytest.mark.thorough
def test_an_aborted_solve_in_chromium(browser: Any, isolated: bool, expected: list[Any]) -> None:
    """With shared memory there is a mechanism; without it, the worker is terminated."""
    with site(isolated=isolated) as address:
        page = browser.new_page()
        page.goto(address)
        assert page.evaluate(ABORT, plain(generated(5, 60, 60))) == expected
        wait_until(lambda: page.evaluate("() => true") and page.workers == [])
        page.close()


@pytest.mark.heavy
@needs_chromium
def test_chromium_refuses_bad_input_and_a_missing_worker(browser: Any) -> None:
    with site() as address:
        page = browser.new_page()
        page.goto(address)
        bad = {**plain(GOOD), "prior": [1.0] * 6}
        assert page.evaluate(REFUSED, bad).startswith("InputError: prior must sum to 1")
        assert page.evaluate(REFUSED, plain(GOOD)) == "taken"
        page.route("**/solve-worker.js", lambda route: route.fulfill(status=404))
        said = page.evaluate(REFUSED, plain(GOOD))
        assert said.startswith("SolveError: the solver's worker could not run")
        page.close()
