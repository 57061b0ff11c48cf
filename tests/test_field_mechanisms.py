"""The mechanisms of the field against their definitions: plain linear programs, plain recounts."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import strategies as some
import whereish as wh
from checks import exp_lower, exp_upper
from effort import examples
from whereish.measures import TOTAL, exact_tightest_epsilon
from whereish.mechanisms import Request
from whereish.solvers.mixture import maximise
from whereish.studies.field.anonymity_sets import anonymity_sets, diameter, fixed_sets, level_for
from whereish.studies.field.cloaking import cloaking, cloaking_for_loss
from whereish.studies.field.dropped_constraints import (
    connecting_km,
    dropped_constraints,
    path_lengths,
)
from whereish.studies.field.joint_optimum import joint_optimum
from whereish.studies.field.map_error import map_error
from whereish.studies.field.qif_peer import optimal_by_qif
from whereish.studies.field.registry import FIELD, field_mechanisms, register_field
from whereish.studies.field.scores import right_guess

EPSILON = 1.07


def plain_program(
    places: wh.Places,
    prior: Any,
    epsilon: float,
    *,
    bound_km: float = math.inf,
    allowed_km: float | None = None,
) -> float:
    """Solve with scipy, constraint by constraint; return the least loss, or the most error.

    With `allowed_km`: the largest adversary error within that loss. Pairs further apart than the
    bound have no constraint.
    """
    n = len(places)
    xy = places.xy.tolist()
    away = [[math.dist(a, b) for b in xy] for a in xy]
    extra = 0 if allowed_km is None else n
    rows, right = [], []
    for x, other, z in product(range(n), repeat=3):
        if x != other and away[x][other] <= bound_km:
            row = [0.0] * (n * n + extra)
            row[x * n + z] = math.exp(-epsilon * away[x][other])
            row[other * n + z] = -1.0
            rows.append(row)
            right.append(0.0)
    losses = [prior[x] * away[x][z] for x in range(n) for z in range(n)]
    cost = losses + [0.0] * extra
    if allowed_km is not None:
        rows.append(losses + [0.0] * n)
        right.append(allowed_km)
        for z, guess in product(range(n), repeat=2):
            row = [0.0] * (n * n + n)
            for x in range(n):
                row[x * n + z] = -prior[x] * away[x][guess]
            row[n * n + z] = 1.0
            rows.append(row)
            right.append(0.0)
        cost = [0.0] * (n * n) + [-1.0] * n
    sums = [[1.0 if k // n == x and k < n * n else 0.0 for k in range(len(cost))] for x in range(n)]
    found = linprog(cost, rows, right, sums, [1.0] * n)
    assert found.status == 0, found.message
    assert found.fun is not None
    return float(found.fun) if allowed_km is None else -float(found.fun)


# -- the tightest epsilon of counts


def some_counts(n: int, m: int, seed: int, zeros: bool) -> Any:
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.5, size=(n, m)) + 1e-6
    if zeros:
        weights[rng.random((n, m)) < 0.2] = 0.0
        weights[:, 0] += 0.1
    counts = [[int(v * 2**62) for v in row / row.sum()] for row in weights]
    for row in counts:
        row[0] += TOTAL - sum(row)
    return np.array(counts, np.uint64)


@examples(40)
@given(places=some.places(2, 6), m=st.integers(1, 5), seed=st.integers(0, 999), zeros=st.booleans())
def test_the_exact_tightest_epsilon_is_the_least_that_holds(
    places: wh.Places, m: int, seed: int, zeros: bool
) -> None:
    counts = some_counts(len(places), m, seed, zeros)
    found = exact_tightest_epsilon(counts, places.xy)
    rows = [[int(v) for v in row] for row in counts]
    pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows)) if a != b]
    never = any(rows[a][z] and not rows[b][z] for a, b in pairs for z in range(m))
    assert math.isinf(found) == never
    if never:
        (x, other), z = found.pair, found.output
        assert rows[x][z] > 0 == rows[other][z]
        return
    below = Fraction(float(found)) * (1 - Fraction(1, 2**50))
    least_breaks = m == 1 or float(found) == 0
    for a, b in pairs:
        square = sum((Fraction(p) - Fraction(q)) ** 2 for p, q in zip(
            places.xy[a].tolist(), places.xy[b].tolist(), strict=True))  # fmt: skip
        # A distance between two rationals, to 2^-80.
        low = Fraction(math.isqrt(int(square * 2**160)), 2**80)
        high = low + Fraction(1, 2**80)
        for z in range(m):
            if rows[a][z] == rows[b][z] == 0:
                continue
            ratio = Fraction(rows[a][z], rows[b][z])
            assert ratio <= exp_upper(Fraction(float(found)) * high)
            least_breaks |= ratio > exp_lower(below * low) * (1 + Fraction(1, 2**60))
    assert least_breaks
    x, other = found.pair
    assert math.isclose(
        math.log(Fraction(rows[x][found.output], rows[other][found.output]))
        / math.dist(places.xy[x], places.xy[other]),
        found, rel_tol=1e-9, abs_tol=1e-12,
    )  # fmt: skip


def test_a_certified_mechanism_keeps_its_epsilon_to_the_last_digit() -> None:
    places, prior = some.grid(4, 3), some.skewed(12)
    for made in (wh.optimal(places, prior, EPSILON), wh.planar_laplace(places, EPSILON),
                 wh.exponential(places, EPSILON)):  # fmt: skip
        found = exact_tightest_epsilon(made.counts, places.xy)
        assert 0.7 * EPSILON < found <= EPSILON
    with pytest.raises(wh.InputError, match="at least two places"):
        exact_tightest_epsilon(np.array([[TOTAL]], np.uint64), np.zeros((1, 2)))


# -- constraints between distant places are dropped


@examples(25)
@given(profile=some.profiles(3, 6), share=st.floats(0.0, 1.0))
def test_dropped_constraints_are_those_of_distant_pairs(
    profile: tuple[wh.Places, Any], share: float
) -> None:
    places, prior = profile
    least = connecting_km(places)
    bound = least + share * (wh.euclidean(places).max() - least)
    made = dropped_constraints(places, prior, EPSILON, bound)
    assert made.epsilon is None
    expected = plain_program(places, prior, EPSILON, bound_km=bound * (1 + 1e-9))
    assert wh.quality_loss(made, prior) == pytest.approx(expected, rel=1e-5, abs=2e-7)
    distances = wh.euclidean(places)
    stretch = np.divide(path_lengths(distances, bound), distances, where=distances > 0,
                        out=np.ones_like(distances)).max()  # fmt: skip
    assert wh.tightest_epsilon(made) <= EPSILON * stretch * (1 + 1e-9)


def test_dropping_distant_constraints_breaks_epsilon() -> None:
    places, prior = some.grid(4, 4), some.skewed(16)
    least = connecting_km(places)
    made = dropped_constraints(places, prior, EPSILON, least)
    assert exact_tightest_epsilon(made.counts, places.xy) > 1.05 * EPSILON
    best = wh.quality_loss(wh.optimal(places, prior, EPSILON), prior)
    assert wh.quality_loss(made, prior) < best
    with pytest.raises(wh.InputError, match="connect all places"):
        dropped_constraints(places, prior, EPSILON, 0.9 * least)


# -- the joint optimum


@examples(25)
@given(profile=some.profiles(2, 5), more=st.floats(1.02, 2.0), dilation=st.sampled_from([1.0, 1.1]))
def test_the_joint_optimum_has_the_largest_error(
    profile: tuple[wh.Places, Any], more: float, dilation: float
) -> None:
    places, prior = profile
    spanned = wh.optimal(places, prior, EPSILON, dilation)
    allowed = more * wh.quality_loss(spanned, prior) + 1e-4
    made = joint_optimum(places, prior, EPSILON, allowed, dilation=dilation)
    assert made.epsilon == EPSILON
    assert exact_tightest_epsilon(made.counts, places.xy) <= EPSILON
    assert wh.quality_loss(made, prior) <= allowed * (1 + 1e-5) + 1e-6
    error = wh.adversary_error(made, prior)
    most = plain_program(places, prior, EPSILON, allowed_km=allowed)
    assert error <= most + 1e-5
    if dilation == 1.0:
        assert error == pytest.approx(most, rel=1e-4, abs=1e-5)


def test_no_mechanism_has_less_loss_than_the_optimal_one() -> None:
    places, prior = some.grid(3, 2), some.skewed(6)
    least = wh.quality_loss(wh.optimal(places, prior, EPSILON), prior)
    with pytest.raises(wh.SolveError):
        joint_optimum(places, prior, EPSILON, 0.9 * least)


# -- cloaking, anonymity sets, qif


@examples(40)
@given(places=some.places(2, 9), side=st.floats(0.02, 12.0))
def test_cloaking_reports_the_square_of_a_place(places: wh.Places, side: float) -> None:
    made = cloaking(places, side)
    west, south = places.xy.min(axis=0).tolist()
    squares = [(math.floor((x - west) / side), math.floor((y - south) / side))
               for x, y in places.xy.tolist()]  # fmt: skip
    assert made.epsilon is None
    assert len(made.outputs) == len(set(squares))
    for x, y in product(range(len(places)), repeat=2):
        same = bool((made.matrix[x] == made.matrix[y]).all())
        assert same == (squares[x] == squares[y])
    for place, row in zip(places.xy, made.matrix, strict=True):
        (at,) = np.flatnonzero(row)
        assert row[at] == 1
        assert np.abs(made.outputs.xy[at] - place).max() <= side / 2 * (1 + 1e-9)
    infinite = math.isinf(exact_tightest_epsilon(made.counts, places.xy))
    assert infinite == (len(set(squares)) > 1)


def test_cloaking_for_a_loss_is_near_it() -> None:
    places, prior = some.grid(7, 7), some.skewed(49)
    for loss in (0.4, 0.8, 1.5):
        assert wh.quality_loss(cloaking_for_loss(places, prior, loss), prior) == pytest.approx(
            loss, rel=0.15
        )


@examples(15)
@given(places=some.places(4, 9), k=st.integers(2, 4), level=st.floats(0.2, 3.0))
def test_places_of_an_anonymity_set_differ_by_its_level(
    places: wh.Places, k: int, level: float
) -> None:
    made = anonymity_sets(places, k, level)
    assert made.epsilon is None
    sets = fixed_sets(wh.euclidean(places), k)
    assert sorted(x for members in sets for x in members.tolist()) == list(range(len(places)))
    assert all(len(members) >= min(k, len(places)) for members in sets)
    for members in sets:
        rows = made.matrix[members]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(rows[:, None] / rows[None])
        assert np.nanmax(logs[np.isfinite(logs)]) <= level + 1e-6
        rate = level / diameter(wh.euclidean(places), members)
        expected = wh.planar_laplace(places, rate).matrix[members]
        assert rows == pytest.approx(expected, abs=1e-9)


def test_the_level_of_anonymity_sets_is_that_of_their_mean_diameter() -> None:
    places = wh.Places.from_xy([[0, 0], [1, 0], [10, 0], [13, 0]])
    assert level_for(places, 2, 0.5) == pytest.approx(0.5 * (1 + 3) / 2)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("qif") is None, reason="qif is not installed")
def test_qif_gives_the_least_loss_and_no_epsilon() -> None:
    places, prior = some.grid(4, 3), some.skewed(12)
    made = optimal_by_qif(Request(places, prior, EPSILON, time_limit_s=60.0))
    assert made.epsilon is None
    assert wh.quality_loss(made, prior) == pytest.approx(
        plain_program(places, prior, EPSILON), rel=1e-6
    )


def test_without_qif_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whereish.studies.field.qif_peer.find_spec", lambda name: None)
    monkeypatch.setattr("whereish.studies.field.registry.find_spec", lambda name: None)
    with pytest.raises(wh.InputError, match=r"pip install 'whereish\[bench\]'"):
        optimal_by_qif(Request(some.grid(2, 2), some.skewed(4), EPSILON))
    assert "qif" not in field_mechanisms()


@pytest.mark.parametrize(("script", "said"), [
    ("import sys; sys.exit(3)", "return code 3"), ("print('noise')", "return code 0"),
    ("import time; time.sleep(60)", "ran out of its 0.5 s"),
])  # fmt: skip
def test_a_peer_that_fails_is_an_error_in_one_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    file = tmp_path / "peer.py"
    file.write_text(script)
    monkeypatch.setattr("whereish.studies.field.qif_peer._PROCESS", file)
    monkeypatch.setattr("whereish.studies.field.qif_peer.find_spec", lambda name: sys)
    limit = 0.5 if "sleep" in script else 60.0
    with pytest.raises(wh.SolveError, match=said):
        optimal_by_qif(Request(some.grid(2, 2), some.skewed(4), EPSILON, time_limit_s=limit))


# -- the measures of a study


@examples(20)
@given(seed=st.integers(0, 999), n=st.integers(2, 6), m=st.integers(2, 6))
def test_the_most_likely_map_beats_every_other(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.full(m, 0.7), n)
    shares = rng.dirichlet(np.full(m, 0.7))
    found = maximise(matrix, shares).weights
    assert found.sum() == pytest.approx(1)

    def likelihood(p: Any) -> float:
        return float(shares @ np.log(np.maximum(p @ matrix, 1e-300)))

    others = rng.dirichlet(np.full(n, 0.5), 200)
    assert max(likelihood(p) for p in others) <= likelihood(found) + 2e-6


def test_the_map_error_of_the_truth_is_that_of_its_shares() -> None:
    prior = np.array(some.skewed(9))
    exact = map_error(np.eye(9), prior, np.random.default_rng(3))
    drawn = np.random.default_rng(3).multinomial(10_000, prior) / 10_000
    assert exact == pytest.approx(np.abs(drawn - prior).sum() / 2, abs=1e-6)
    nothing = map_error(np.full((9, 4), 0.25), prior, np.random.default_rng(3))
    assert nothing == pytest.approx(np.abs(prior - 1 / 9).sum() / 2, abs=1e-6)


@examples(20)
@given(profile=some.profiles(2, 6))
def test_right_guesses_are_those_of_the_likeliest_place(profile: tuple[wh.Places, Any]) -> None:
    places, prior = profile
    made = wh.exponential(places, EPSILON)
    expected = sum(
        max(prior[x] * made.matrix[x, z] for x in range(len(places))) for z in range(len(places))
    )
    assert right_guess(made, prior) == pytest.approx(expected)
    assert max(prior) - 1e-12 <= right_guess(made, prior) <= 1 + 1e-12


def test_a_name_is_registered_once() -> None:
    for name in ("optimal", "planar Laplace", "cloaking"):
        with pytest.raises(wh.InputError, match="must be new"):
            register_field(name, "", lambda asked: wh.exponential(asked.places, asked.level))
    assert "mine" not in FIELD
