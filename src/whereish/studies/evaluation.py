"""Section 4 of the paper as rows: one function for each figure.

`Design` has the parameters, with the values of the paper; `evaluation_parts` lists the work.
`charts` draws the figures, and `paper` writes the files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from whereish.errors import WhereishError
from whereish.measures import adversary_error, best_remap, quality_loss, tightest_epsilon
from whereish.mechanisms import (
    Mechanism,
    exponential,
    optimal_each,
    optimal_privacy,
    planar_laplace,
    planar_laplace_for_loss,
    tight_constraints,
)
from whereish.parallel import cores
from whereish.places import Array, euclidean, square_grid
from whereish.profiles import ALL_DAY, ELSEWHERE, Cohort, SquareCells
from whereish.programs import greedy_spanner, least_loss_size
from whereish.studies.runs import Part, Row

OPTIMAL, OPT_PRIV, LAPLACE = "optimal", "Shokri et al.", "planar Laplace"
_BATCH = 8
_MANY_REPORTS = (1, 2, 4, 8, 16, 32, 64)
_DRAWS = 200
# The optimal mechanism of a person who is always at one place has no loss. At this epsilon, planar
# Laplace has almost none.
_NOTHING_KM, _NEXT_TO_NO_NOISE = 1e-9, 200.0

Optimal = tuple[str, Array, Mechanism]  # a user, the all-day prior, and the mechanism for it


@dataclass(frozen=True)
class Design:
    """The parameters of the evaluation; by default the paper's.

    Attributes
    ----------
    epsilon, dilation
        The mechanism that is compared with others (Section 4.2); epsilon is per km.
    epsilons
        The levels, per km, of the comparison with planar Laplace (Figure 4).
    dilations
        The dilations at which the loss is measured (Figure 5). The paper has no values at 1.
    sizes, table_dilations, time_limit_s
        Of the table of times (Table 1).
    seed
        For the choice of taxis of T-Drive, and for repeated reports.
    """

    epsilon: float = 1.07
    dilation: float = 1.05
    epsilons: tuple[float, ...] = (0.25, 0.5, 0.75, 1.07, 1.5, 2.0, 3.0)
    dilations: tuple[float, ...] = (1.0, *(round(1.05 + 0.05 * i, 2) for i in range(20)))
    sizes: tuple[int, ...] = (50, 75)
    table_dilations: tuple[float, ...] = (1.0, 1.1, 1.2, 1.5, 2.0)
    time_limit_s: float = 5.0
    seed: int = 0


def grid_of_paris(dilation: float = 1.08) -> list[Row]:
    """Return the edges of a spanner of a 7 x 5 grid of Paris (Figure 1)."""
    places = square_grid(48.8375, 2.2925, 48.882, 2.3865, cell_km=(0.99, 0.99))
    spanner = greedy_spanner(euclidean(places), dilation)
    return [
        {
            "from": int(a),
            "to": int(b),
            "x1_km": float(places.xy[a, 0]), "y1_km": float(places.xy[a, 1]),
            "x2_km": float(places.xy[b, 0]), "y2_km": float(places.xy[b, 1]),
            "dilation_asked": dilation,
            "dilation": spanner.dilation,
        }
        for a, b in spanner.edges
    ]  # fmt: skip


def region_map(cohort: Cohort) -> list[Row]:
    """Return the score of every visited region, and whether it was chosen (Figure 2)."""
    chosen = set(cohort.ids.tolist())
    scores = cohort.scores.filter(cohort.scores["region"] != ELSEWHERE)
    ids = scores["region"].to_numpy()
    cells = cohort.visits.regions
    xy = cells.places(ids).xy if isinstance(cells, SquareCells) else np.zeros((len(ids), 2))
    return [
        {"x_km": float(x), "y_km": float(y), "score": score, "points": points,
         "chosen": region in chosen}
        for (region, score, points), (x, y) in zip(scores.rows(), xy, strict=True)
    ]  # fmt: skip


def funnel(cohort: Cohort) -> list[Row]:
    """Return the number of people and points after each step of the pipeline."""
    return [
        {"step": step.name, "people": step.users, "points": step.points} for step in cohort.steps
    ]


def privacy_under_priors(cohort: Cohort, users: Sequence[str], design: Design) -> list[Row]:
    """Return the adversary's error under every prior, at equal quality loss (Figure 3).

    The three mechanisms (optimal on a spanner, Shokri et al., planar Laplace) are built for the
    all-day prior and have the same loss.
    """

    def one(built: Optimal) -> list[Row]:
        user, prior, mechanism = built
        loss = quality_loss(mechanism, prior)
        three = {
            OPTIMAL: mechanism,
            OPT_PRIV: optimal_privacy(cohort.places, prior, loss),
            LAPLACE: planar_laplace_for_loss(cohort.places, prior, loss)
            if loss > _NOTHING_KM
            else planar_laplace(cohort.places, _NEXT_TO_NO_NOISE),
        }
        return [row for n, m in three.items() for row in _under_priors(cohort, user, n, m)]

    with ThreadPoolExecutor(cores()) as pool:
        built = _optimal(cohort, users, design.epsilon, design.dilation)
        return [row for rows in pool.map(one, built) for row in rows]


def _optimal(
    cohort: Cohort, users: Sequence[str], epsilon: float, dilation: float = 1.0
) -> list[Optimal]:
    """Build the optimal mechanism of each user, for the all-day prior."""
    priors = [cohort.priors[user][ALL_DAY] for user in users]
    built = optimal_each(cohort.places, priors, epsilon, dilation)
    return list(zip(users, priors, built, strict=True))


def _under_priors(cohort: Cohort, user: str, name: str, mechanism: Mechanism) -> list[Row]:
    """Measure a mechanism under the prior of every period, for two kinds of adversary."""
    prior = cohort.priors[user][ALL_DAY]
    keeps = float(tightest_epsilon(mechanism))
    guess = best_remap(mechanism, prior)
    return [
        {
            "user": user, "mechanism": name, "period": period,
            "quality_loss_km": quality_loss(mechanism, prior),
            "adversary_error_km": adversary_error(mechanism, truth),
            "error_of_who_knows_all_day_only_km": _error_of(mechanism, guess, truth),
            "epsilon_per_km": mechanism.epsilon,
            "tightest_epsilon_per_km": keeps if np.isfinite(keeps) else None,
        }
        for period, truth in cohort.priors[user].items()
    ]  # fmt: skip


def others_under_priors(cohort: Cohort, users: Sequence[str], design: Design) -> list[Row]:
    """Return the rows of `privacy_under_priors` for mechanisms with the same epsilon."""
    shared = _shared(cohort, design.epsilon)
    rows = []
    for user, prior, best in _optimal(cohort, users, design.epsilon):
        built = {"optimal, exact": best, **shared}
        built |= {f"{n} + remap": m.remap(prior) for n, m in shared.items() if n != "exponential"}
        for name, mechanism in built.items():
            rows += _under_priors(cohort, user, name, mechanism)
    return rows


def _shared(cohort: Cohort, epsilon: float) -> dict[str, Mechanism]:
    """Build the mechanisms that do not depend on a prior, if they exist."""
    makers: dict[str, Callable[[], Mechanism]] = {
        LAPLACE: lambda: planar_laplace(cohort.places, epsilon),
        "exponential": lambda: exponential(cohort.places, epsilon),
        "tight constraints": lambda: tight_constraints(cohort.places, epsilon),
    }
    found = {}
    for name, make in makers.items():
        with contextlib.suppress(WhereishError):  # tight constraints do not exist at every level
            found[name] = make()
    return found


def _error_of(mechanism: Mechanism, guess: NDArray[np.int64], truth: Array) -> float:
    """Return the expected error of a fixed guess for each report, under the prior `truth`."""
    return float(truth @ (mechanism.matrix * euclidean(mechanism.inputs)[:, guess]).sum(axis=1))


def loss_at_level(cohort: Cohort, epsilon: float, design: Design) -> list[Row]:
    """Return the quality loss of every person at a level, for several mechanisms (Figure 4)."""
    best = _optimal(cohort, cohort.users, epsilon, design.dilation)
    rows = [_loss_row(user, OPTIMAL, epsilon, mechanism, prior) for user, prior, mechanism in best]
    for name, shared in _shared(cohort, epsilon).items():
        for user, prior, _ in best:
            rows.append(_loss_row(user, name, epsilon, shared, prior))
            if name != "exponential":
                remapped = shared.remap(prior)
                rows.append(_loss_row(user, f"{name} + remap", epsilon, remapped, prior))
    return rows


def _loss_row(user: str, name: str, epsilon: float, mechanism: Mechanism, prior: Array) -> Row:
    return {
        "user": user, "mechanism": name, "epsilon_per_km": epsilon,
        "quality_loss_km": quality_loss(mechanism, prior),
        "adversary_error_km": adversary_error(mechanism, prior),
    }  # fmt: skip


def loss_at_dilation(cohort: Cohort, dilation: float, design: Design) -> list[Row]:
    """Return the quality loss of every person at a dilation, with its lower bound (Figure 5a)."""
    built = _optimal(cohort, cohort.users, design.epsilon, dilation)
    return [
        {
            "user": user, "dilation": dilation, "epsilon_per_km": design.epsilon,
            "quality_loss_km": quality_loss(mechanism, prior),
            "lower_bound_km": mechanism.build.lower_bound_km,
            "gap": mechanism.build.gap,
            "program_gap": mechanism.build.program_gap,
        }
        for user, prior, mechanism in built
    ]  # fmt: skip


def constraints_at_dilations(cohort: Cohort, design: Design) -> list[Row]:
    """Return constraints, and the largest and mean stretch, at every dilation (Figure 5b).

    Epsilon is divided by the largest stretch. So a pair of places uses only a share of its epsilon:
    its own stretch over the largest, on average ``share_of_epsilon_used``.
    """
    apart, n = euclidean(cohort.places), len(cohort.places)
    rows = []
    for dilation in design.dilations:
        spanner = greedy_spanner(apart, dilation)
        rows.append({
            "dilation": dilation, "edges": len(spanner.edges),
            "constraints": least_loss_size(n, n, len(spanner.edges)).constraints,
            "measured_dilation": spanner.dilation, "mean_stretch": spanner.mean_dilation,
            "share_of_epsilon_used": spanner.mean_dilation / spanner.dilation,
        })  # fmt: skip
    return rows


def repeated_reports(cohort: Cohort, users: Sequence[str], design: Design) -> list[Row]:
    """Return the error of the best guess after k reports of one place, by simulation.

    The place is drawn from the prior, and the reports independently from the mechanism. The
    adversary knows both and uses Bayes' rule. To repeat the same report costs no privacy.
    """
    apart = euclidean(cohort.places)
    rows = []
    for user, prior, mechanism in _optimal(cohort, users, design.epsilon):
        rng = np.random.default_rng([design.seed, *user.encode()])
        with np.errstate(divide="ignore"):
            logs, start = np.log(mechanism.matrix), np.log(prior)
        truths = rng.choice(len(prior), _DRAWS, p=prior)
        errors = dict.fromkeys(_MANY_REPORTS, 0.0)
        for truth in truths:
            reports = rng.choice(logs.shape[1], max(_MANY_REPORTS), p=mechanism.matrix[truth])
            belief = start[:, None] + np.cumsum(logs[:, reports], axis=1)
            for k in _MANY_REPORTS:
                posterior = np.exp(belief[:, k - 1] - belief[:, k - 1].max())
                errors[k] += float(apart[truth, np.argmin(posterior @ apart)]) / _DRAWS
        rows += [
            {"user": user, "reports": k, "epsilon_spent_per_km": k * design.epsilon,
             "adversary_error_km": error, "draws": _DRAWS}
            for k, error in errors.items()
        ]  # fmt: skip
    return rows


def evaluation_parts(cohort: Cohort, design: Design) -> list[Part]:
    """List the parts of all figures, of a few seconds each."""
    parts = [
        Part("funnel", "steps", partial(funnel, cohort), 0.1),
        Part("figure 1", "spanner", grid_of_paris, 0.1),
        Part("figure 2", "scores", partial(region_map, cohort), 0.1),
        Part("figure 5b", "constraints", partial(constraints_at_dilations, cohort, design), 1),
    ]
    parts += comparison_parts(cohort, design, "figure 3", "figure 4")
    parts += [
        Part("figure 5a", f"dilation {dilation!r}",
             partial(loss_at_dilation, cohort, dilation, design), len(cohort.users) / 40)
        for dilation in design.dilations
    ]  # fmt: skip
    parts += _in_batches("other mechanisms", others_under_priors, cohort, design, 1.0)
    return parts + _in_batches("repeated reports", repeated_reports, cohort, design, 0.2 * _BATCH)


def comparison_parts(cohort: Cohort, design: Design, privacy: str, loss: str) -> list[Part]:
    """List the parts of the comparison with other mechanisms, for tables of these names.

    Figures 3 and 4 for GeoLife, 6 and 7 for T-Drive (Sections 4.2 and 4.4).
    """
    parts = _in_batches(privacy, privacy_under_priors, cohort, design, 0.3 * _BATCH)
    return parts + [
        Part(loss, f"epsilon {level!r} per km", partial(loss_at_level, cohort, level, design),
             len(cohort.users) / 30)
        for level in design.epsilons
    ]  # fmt: skip


def _in_batches(
    table: str, work: Callable[..., list[Row]], cohort: Cohort, design: Design, weight: float
) -> list[Part]:
    """List the parts of a table, of a few people each."""
    parts = []
    for at in range(0, len(cohort.users), _BATCH):
        some = cohort.users[at : at + _BATCH]
        name = f"people {at + 1} to {at + len(some)}"
        parts.append(Part(table, name, partial(work, cohort, some, design), weight))
    return parts
