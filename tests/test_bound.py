"""A bound is never too high: forged proofs prove nothing, honest ones are rounded down."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checks
import strategies as some
import whereish as wh
import whereish.measures.bound as judge
from whereish.format import pack, unpack
from whereish.format.certificate import certify

PLACES, PRIOR, EPSILON = some.grid(4, 3), some.skewed(12, 5), 1.07
N = len(PLACES)
D = wh.euclidean(PLACES)
# The honest programs of the test below; WHEREISH_MANY=10000 is the whole count of the issue.
MANY = int(os.environ.get("WHEREISH_MANY", "200"))

LOSS = float((PRIOR @ D).mean())  # of a mechanism that tells nothing

Rows = list[tuple[int, int, int, float]]


def proof_of(rows: Rows, epsilon: float = EPSILON) -> wh.Proof:
    output, left, right, value = (np.array(part) for part in zip(*rows, strict=True))
    return wh.Proof(
        epsilon, output.astype(np.int32), left.astype(np.int32), right.astype(np.int32), value
    )


def credits(km: float, first: Rows) -> wh.Proof:
    """Rows that credit every place as much as the loss wanted, after rows that absorb debits."""
    rows = list(first)
    for x in range(N):
        other = (x + 1) % N
        y = km * PRIOR[x] / np.exp(-EPSILON * D[x, other])
        rows += [(z, x, other, y) for z in range(N)]
    return proof_of(rows)


def selves(value: float) -> Rows:
    return [(z, x, x, value) for x in range(N) for z in range(N)]


def there_and_back(value: float) -> Rows:
    return [(z, x, (x + s) % N, value) for x in range(N) for z in range(N) for s in (1, N - 1)]


def arrays_of(proof: wh.Proof) -> dict[str, Any]:
    named = {f"proof_{part}": getattr(proof, part) for part in ("output", "left", "right")}
    whole = {name: np.asarray(part, np.int32) for name, part in named.items()}
    return {**whole, "proof_value": np.asarray(proof.value, np.float64)}


def spoiled(**change: Any) -> wh.Proof:
    proof = wh.optimal(PLACES, PRIOR, EPSILON, solver="structured").proof
    assert proof is not None
    return replace(proof, **{name: with_(getattr(proof, name)) for name, with_ in change.items()})


def first(value: Any) -> Callable[[Any], Any]:
    return lambda array: np.r_[np.asarray([value]).astype(array.dtype), array[1:]]


FORGED: dict[str, Callable[[], wh.Proof]] = {
    "rows of a place and itself absorb the others": lambda: credits(LOSS, selves(1e17)),
    "of less": lambda: credits(LOSS, selves(1e9)),
    "so large that sums are infinite": lambda: credits(LOSS, selves(1e308)),
    "rows there and back absorb the others": lambda: credits(LOSS, there_and_back(1e17)),
    "and are infinite": lambda: credits(LOSS, there_and_back(1.7e308)),
    "a negative multiplier": lambda: spoiled(value=first(-5.0)),
    "a multiplier that is not a number": lambda: spoiled(value=first(np.nan)),
    "an infinite multiplier": lambda: spoiled(value=first(np.inf)),
    "a place that is none": lambda: spoiled(left=first(N)),
    "a place counted from the end": lambda: spoiled(right=first(-1)),
    "an output that is none": lambda: spoiled(output=first(N)),
    "multipliers ten times as large": lambda: spoiled(value=lambda y: 10 * y),
    "rows the other way round": lambda: replace(
        spoiled(), left=spoiled().right, right=spoiled().left
    ),
    "one row more than there are": lambda: credits(LOSS, selves(0.0) * 12),
}


@pytest.fixture(scope="module")
def uniform() -> wh.Mechanism:
    """A mechanism that tells nothing, and loses much more than it must."""
    return wh.Mechanism(np.full((N, N), 1 / N), PLACES, PLACES, EPSILON)


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_proof_proves_nothing(name: str, uniform: wh.Mechanism, tmp_path: Path) -> None:
    """Not in Python: refused, or a bound that the optimum keeps to."""
    optimum = wh.quality_loss(wh.optimal(PLACES, PRIOR, EPSILON), PRIOR)
    assert wh.quality_loss(uniform, PRIOR) > 1.2 * optimum
    try:
        found = wh.lower_bound(FORGED[name](), PRIOR, D, D)
    except wh.GuaranteeError as refused:
        assert "not a proof" in str(refused)
    else:
        assert found <= optimum


@pytest.mark.parametrize("name", FORGED)
def test_the_audit_refuses_a_forged_proof(name: str, uniform: wh.Mechanism, tmp_path: Path) -> None:
    """A file in which everything is right but its proof, which claims the loss to be the least."""
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, uniform, PRIOR)
    proof = FORGED[name]()
    assert certify(uniform, PRIOR)["quality_loss_km"] == pytest.approx(LOSS)
    some.forge(path, arrays=arrays_of(proof), claimed={"lower_bound_km": LOSS, "gap": 0.0})
    with pytest.raises((wh.GuaranteeError, wh.FormatError), match=r"proof|lower_bound_km"):
        wh.audit_file(path)


def test_forged_rows_are_refused_when_the_file_is_read(
    uniform: wh.Mechanism, tmp_path: Path
) -> None:
    """Whoever asks for no audit gets no such proof either."""
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, uniform, PRIOR)
    for name in ("rows of a place and itself absorb the others", "an infinite multiplier"):
        proof = FORGED[name]()
        some.forge(path, arrays=arrays_of(proof))
        with pytest.raises(wh.FormatError, match="its proof is not of the form"):
            wh.load_mechanism(path)


@pytest.mark.parametrize("epsilon", [-1.07, 0.0, np.nan, np.inf])
def test_a_proof_is_about_a_level(epsilon: float) -> None:
    with pytest.raises(wh.InputError, match="epsilon must be"):
        wh.lower_bound(replace(spoiled(), epsilon=epsilon), PRIOR, D, D)


def test_a_proof_about_a_lower_level_bounds_nothing() -> None:
    """With more privacy than a mechanism has, every mechanism loses more than it must."""
    strict = wh.optimal(PLACES, PRIOR, 0.5, solver="structured").proof
    loose = wh.optimal(PLACES, PRIOR, EPSILON)
    forged = wh.Mechanism(loose.matrix, PLACES, PLACES, EPSILON, proof=strict)
    with pytest.raises(wh.GuaranteeError, match="about another epsilon"):
        certify(forged, PRIOR)


@pytest.mark.parametrize(
    "change",
    [
        {"left": lambda left: left + 0.5},
        {"output": lambda output: output[1:]},
        {"value": lambda y: y.reshape(1, -1)},
        {"value": lambda y: y.astype(str).astype(object) + "x"},
        {"left": lambda left: left.astype(bool)},
    ],
)
def test_rows_of_another_kind_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(wh.GuaranteeError, match="not a proof"):
        wh.lower_bound(spoiled(**change), PRIOR, D, D)


def honest(seed: int) -> tuple[wh.Places, Any, float, Any, Any, wh.Proof]:
    """A small program of any kind, and what the structured solver proves of it."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    spread = 10.0 ** rng.uniform(-2, 2)
    places = wh.Places.from_xy(rng.uniform(0, spread, (n, 2)) + rng.uniform(-1e3, 1e3, 2))
    prior = rng.gamma(10.0 ** rng.uniform(-2, 1), size=n) + (0 if seed % 3 else 1e-12)
    if seed % 7 == 0 or not prior.sum() > 0:
        prior = np.eye(n)[seed % n]
    prior = prior / prior.sum()
    epsilon = 10.0 ** rng.uniform(-1.5, 1.5) / spread
    loss = wh.discrete(n) if seed % 5 == 0 else wh.euclidean(places)
    metric = wh.euclidean(places)
    if seed % 4 == 0:  # in its own unit, and not the same to the last digit in both directions
        metric = metric * (1 + 1e-13 * rng.uniform(-1, 1, (n, n)))
        np.fill_diagonal(metric, 0)
    built = wh.optimal(
        places, prior, epsilon, privacy_metric=metric, quality_metric=loss, solver="structured"
    )
    assert built.proof is not None
    return places, prior, epsilon, loss, metric, built.proof


@pytest.mark.slow
def test_an_honest_bound_is_never_above_exact_arithmetic() -> None:
    """Against Fractions and an exponential of the test's own, of the doubles as they are.

    A tenth of them get multipliers that prove little, so that terms cancel.
    """
    rng = np.random.default_rng(0)
    off = []
    for seed in range(MANY):
        _, prior, epsilon, loss, metric, proof = honest(seed)
        if seed % 10 == 9:
            proof = replace(proof, value=proof.value * rng.gamma(1.0, size=len(proof.value)))
        rows = list(
            zip(
                proof.output.tolist(), proof.left.tolist(), proof.right.tolist(),
                proof.value.tolist(), strict=True,
            )
        )  # fmt: skip
        exact = checks.least_proved_bound(
            rows, prior.tolist(), loss.tolist(), epsilon, metric.tolist()
        )
        found = wh.lower_bound(proof, prior, loss, metric)
        assert Fraction(found) <= exact, f"program {seed}"
        scale = float((prior[:, None] * loss).sum()) + float(proof.value.sum())
        off.append((float(exact) - found) / scale if scale else 0.0)
    assert max(off) < 1e-12


def test_true_distances_are_covered_too() -> None:
    """Between points given as doubles: Euclidean distances are irrational, and were rounded."""
    for seed in range(0, min(MANY, 500), 5):
        places, prior, epsilon, _, _, _ = honest(seed + 1)
        away = wh.euclidean(places)
        proof = wh.optimal(places, prior, epsilon, solver="structured").proof
        assert proof is not None
        rows = list(
            zip(
                proof.output.tolist(), proof.left.tolist(), proof.right.tolist(),
                proof.value.tolist(), strict=True,
            )
        )  # fmt: skip
        exact = checks.least_proved_bound(rows, prior.tolist(), None, epsilon, places.xy.tolist())
        assert Fraction(wh.lower_bound(proof, prior, away, away)) <= exact


@pytest.mark.parametrize(
    "bug", ["exp rounded to nearest and up", "limbs carried the wrong way", "debits rounded down"]
)
def test_a_planted_bug_is_noticed(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bug == "exp rounded to nearest and up":
        monkeypatch.setattr(judge, "_below", lambda numbers: np.nextafter(numbers, np.inf))
        monkeypatch.setattr(judge, "_ROOM", 0.0)
    elif bug == "debits rounded down":
        cut = judge._cut
        monkeypatch.setattr(judge, "_LIMBS", 4)
        monkeypatch.setattr(judge, "_cut", lambda numbers, top, up=False: [
            limb if i < 2 else limb * 0 for i, limb in enumerate(cut(numbers, top, up=up))
        ])  # fmt: skip
        monkeypatch.setattr(judge, "_ROOM", 0.0)
    else:
        monkeypatch.setattr(judge, "_BITS", 29)
        cut = judge._cut
        monkeypatch.setattr(judge, "_cut", lambda numbers, top, up=False: [
            limb * 2 for limb in cut(numbers, top, up=up)
        ])  # fmt: skip
    with pytest.raises(AssertionError):
        test_an_honest_bound_is_never_above_exact_arithmetic()


def test_the_gap_is_rounded_up() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        loss = float(rng.gamma(1.0))
        bound = loss * float(rng.choice([0.0, 1 - 1e-9, 0.3, 1.0]))
        gap = judge.relative_gap(loss, bound)
        assert Fraction(gap) * Fraction(loss) >= Fraction(loss) - Fraction(bound)
        assert gap <= (loss - bound) / loss + 1e-13
    assert judge.relative_gap(0.0, 0.0) == 0.0


def test_old_files_with_a_bound_that_was_not_rounded_still_pass(tmp_path: Path) -> None:
    path = tmp_path / "k.whereish"
    wh.save_mechanism(path, wh.optimal(PLACES, PRIOR, EPSILON, solver="structured"), PRIOR)
    arrays, about = unpack(path.read_bytes())
    path.write_bytes(pack(arrays, about))
    told = wh.audit_file(path)
    bound, loss = told["lower_bound_km"], told["quality_loss_km"]
    above = bound * (1 + 1e-11)
    some.forge(path, claimed={"lower_bound_km": above, "gap": (loss - above) / loss})
    assert wh.audit_file(path)["lower_bound_km"] == bound
