"""Table 1 of the paper: the time of each solver, on the primal and on the dual program."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec

from whereish.errors import SolveError
from whereish.measures import quality_loss
from whereish.mechanisms import optimal, optimal_privacy
from whereish.places import euclidean
from whereish.profiles import Profile
from whereish.programs import greedy_spanner, least_loss
from whereish.solvers import FORMS, METHODS, solve
from whereish.studies.evaluation import Design
from whereish.studies.runs import Part, Row

OURS, SHOKRI = "structured", "optimal privacy"
FAMILIES = ("highs", "glpk")
DONE, TIME_OUT, ERROR, MISSING = "done", "time-out", "error", "not installed"
NOT_TRIED = "not tried"  # because it timed out on fewer places


def _row(profile: Profile, dilation: float | None, solver: str, form: str | None) -> Row:
    """Return a row of the table without measurements."""
    return {
        "places": len(profile.places), "dilation": dilation, "solver": solver, "form": form,
        "state": DONE, "seconds": None, "quality_loss_km": None, "words": None,
        "time_limit_s": None,
    }  # fmt: skip


def time_program(
    profile: Profile, epsilon: float, dilation: float, solver: str, form: str, limit_s: float
) -> Row:
    """Time one solver on the program of Section 3.2, or on its dual (Appendix B)."""
    row = _row(profile, dilation, solver, form) | {"time_limit_s": limit_s}
    if _missing(solver):
        return row | {"state": MISSING}
    apart = euclidean(profile.places)
    spanner = greedy_spanner(apart, dilation)
    lengths = spanner.edge_epsilon(epsilon) * spanner.lengths
    program = least_loss(profile.prior, apart, spanner.edges, lengths)
    start = time.perf_counter()
    try:
        found = solve(program, solver, form, limit_s)
    except SolveError as wrong:
        spent = time.perf_counter() - start
        late = spent >= 0.98 * limit_s
        return row | {"state": TIME_OUT if late else ERROR, "seconds": spent, "words": str(wrong)}
    return row | {"seconds": found.seconds, "quality_loss_km": found.objective}


def time_ours(profile: Profile, epsilon: float, dilation: float) -> list[Row]:
    """Time the structured solver on the same program: the best of three short runs."""
    built = [
        optimal(profile.places, profile.prior, epsilon, dilation, solver="structured")
        for _ in range(3)
    ]
    best = min(built, key=lambda mechanism: mechanism.build.seconds or 0.0)
    loss = quality_loss(best, profile.prior)
    measured = {"seconds": best.build.seconds, "quality_loss_km": loss}
    return [_row(profile, dilation, OURS, "primal") | measured]


def time_shokri(profile: Profile, epsilon: float, dilation: float) -> list[Row]:
    """Time the mechanism of Shokri et al. at the quality loss of the optimal one."""
    best = optimal(profile.places, profile.prior, epsilon, dilation)
    loss = quality_loss(best, profile.prior)
    build = optimal_privacy(profile.places, profile.prior, loss).build
    measured = {"seconds": build.seconds, "quality_loss_km": loss}
    return [_row(profile, None, SHOKRI, build.form) | measured]


def timing_parts(profiles: dict[int, Profile], design: Design) -> list[Part]:
    """List the cells of Table 1, for one person on each number of places."""
    level, limit = design.epsilon, design.time_limit_s
    people = [profiles[size] for size in sorted(profiles)]
    parts = []
    for dilation in design.table_dilations:
        at = f"dilation {dilation:g}"
        for who in people:
            name = f"{len(who.places)} places, {at}, ours"
            parts.append(Part("table 1", name, partial(time_ours, who, level, dilation)))
        for solver in (f"{family}-{method}" for family in FAMILIES for method in METHODS):
            for form in FORMS:
                work = partial(_sizes, people, level, dilation, solver, form, limit)
                weight = min(2, limit) * len(people)
                # Another name while the solver is missing: once it is installed, it is timed.
                name = f"{at}, {solver}, {form}{', missing' * _missing(solver)}"
                parts.append(Part("table 1", name, work, weight))
    for who in people:
        shokri = partial(time_shokri, who, level, design.dilation)
        parts.append(Part("table 1", f"{len(who.places)} places, Shokri et al.", shokri))
    return parts


def _missing(solver: str) -> bool:
    return solver.startswith("glpk") and find_spec("swiglpk") is None


def _sizes(
    people: list[Profile], level: float, dilation: float, solver: str, form: str, limit: float
) -> list[Row]:
    """Time a solver on increasing numbers of places; after a time-out it is not tried."""
    rows: list[Row] = []
    for who in people:
        if rows and rows[-1]["state"] in (TIME_OUT, NOT_TRIED):
            rows.append(rows[-1] | {"places": len(who.places), "state": NOT_TRIED,
                                    "seconds": None, "words": None})  # fmt: skip
        else:
            rows.append(time_program(who, level, dilation, solver, form, limit))
    return rows
