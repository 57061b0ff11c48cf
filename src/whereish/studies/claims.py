"""The claims of Section 4 of the paper, checked on the rows of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from whereish.profiles import ALL_DAY
from whereish.studies.evaluation import LAPLACE, OPT_PRIV, OPTIMAL
from whereish.studies.runs import Row, grouped

_TIE = 1e-6
_NOTHING = 1e-9  # km
_OTHER = "On other data: "


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds for these rows, and the numbers behind that."""

    name: str
    holds: bool
    detail: str


def claims(tables: dict[str, list[Row]]) -> list[Claim]:
    """Check the claims of Section 4 on the rows of a run."""
    checked = []
    for privacy, loss, prefix in (("figure 3", "figure 4", ""), ("figure 6", "figure 7", _OTHER)):
        found = []
        if tables.get(privacy):
            found += [_tie(tables[privacy]), *_not_beaten(tables[privacy])]
        if tables.get(loss):
            found.append(_less_loss(tables[loss]))
        checked += [replace(claim, name=prefix + claim.name) for claim in found]
    tried = {row["dilation"] for row in tables.get("figure 5a", [])}
    if 1.0 in tried and len(tried) > 1:
        checked.append(_slowly(tables["figure 5a"]))
    return checked


def _tie(rows: list[Row]) -> Claim:
    """Both mechanisms are optimal for the all-day prior, so both have the same adversary error."""
    errors = {
        (r["user"], r["mechanism"]): r["adversary_error_km"] for r in rows if r["period"] == ALL_DAY
    }
    users = {user for user, _ in errors}
    apart = max(
        abs(errors[user, OPTIMAL] - errors[user, OPT_PRIV]) / max(errors[user, OPTIMAL], _NOTHING)
        for user in users
    )
    return Claim(
        "Under the all-day prior, the optimal mechanism and Shokri et al.'s have the same privacy.",
        bool(apart <= _TIE),
        f"largest relative difference {apart:.1e} over {len(users)} people",
    )


def _not_beaten(rows: list[Row]) -> list[Claim]:
    """Under the other priors, the optimal mechanism has the largest median adversary error."""
    checked = []
    for period in dict.fromkeys(r["period"] for r in rows if r["period"] != ALL_DAY):
        median = {
            name: float(np.median([
                r["adversary_error_km"] for r in rows
                if (r["period"], r["mechanism"]) == (period, name)
            ]))
            for name in (OPTIMAL, OPT_PRIV, LAPLACE)
        }  # fmt: skip
        best = "the optimal mechanism's median privacy is at least the others'."
        medians = ", ".join(f"{name} {value:.3f} km" for name, value in median.items())
        holds = median[OPTIMAL] >= max(median.values())
        checked.append(Claim(f"Under the {period} prior, {best}", holds, medians))
    return checked


def _less_loss(rows: list[Row]) -> Claim:
    loss = {(r["user"], r["epsilon_per_km"], r["mechanism"]): r["quality_loss_km"] for r in rows}
    pairs = [(loss[user, level, OPTIMAL], loss[user, level, LAPLACE])
             for user, level, name in loss if name == OPTIMAL]  # fmt: skip
    ratio = [best / max(other, _NOTHING) for best, other in pairs]
    return Claim(
        "The optimal mechanism loses less than planar Laplace, for everybody and at every epsilon.",
        bool(max(ratio) < 1),
        f"{min(ratio):.0%} to {max(ratio):.0%} of planar Laplace's loss in {len(ratio):,} cases",
    )


def _slowly(rows: list[Row]) -> Claim:
    """The relative extra loss of a spanner is smaller than its dilation minus 1."""
    exact = {r["user"]: r["quality_loss_km"] for r in rows if r["dilation"] == 1}
    base = np.median(list(exact.values())) if exact else np.nan
    losses = grouped(rows, "dilation", "quality_loss_km")
    medians = {d: float(np.median(loss)) for d, loss in losses.items() if d > 1}
    worst = max(medians, key=lambda dilation: medians[dilation] / base - dilation, default=1.0)
    shown = sorted({*list(medians)[:4], worst})
    listed = ", ".join(f"{medians[d]:.3f} km at {d:g}" for d in shown)
    return Claim(
        "The quality loss grows slowly with the dilation: in the median by less than the dilation.",
        bool(medians and medians[worst] / base < worst),
        f"{base:.3f} km exact, {listed}",
    )
