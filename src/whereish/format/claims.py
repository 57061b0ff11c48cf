"""The claims of a file's certificate that can be checked before its ratios.

The audit of every ratio takes minutes for thousands of places. A file with another false claim is
refused before that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.errors import FormatError, GuaranteeError
from whereish.format.certificate import digest, metric_words
from whereish.format.places_file import Contents
from whereish.measures import TOTAL, check_rows, lower_bound, relative_gap
from whereish.mechanisms.build import epsilon_unit
from whereish.places import euclidean

_WORDS = (
    "method", "solver", "stopped", "prior_sha256", "points_sha256", "created", "versions",
)  # fmt: skip
_NUMBERS = (
    "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "rounding_mix", "repair_mix",
    "repair_cost_km", "requested_dilation", "dilation", "seconds",
)  # fmt: skip
_BOTH = frozenset(
    ("method", "solver", "stopped", "created", "versions", "quality_loss_km", "lower_bound_km",
     "gap", "repair_mix", "repair_cost_km", "seconds", "certified", "epsilon", "epsilon_unit",
     "metric", "outputs", "guarantee")
)  # fmt: skip
CLAIMS = _BOTH | {
    "prior_sha256", "rounding_cost_km", "rounding_mix", "requested_dilation", "dilation", "places",
    "ratios_checked", "worst_slack", "worst_slack_at", "largest_snap_km",
}  # fmt: skip
CLAIMS_2 = _BOTH | {
    "points_sha256", "kind", "vertices", "cells", "corners_checked", "tightest_epsilon",
    "tightest_at",
}  # fmt: skip
CLAIMS_3 = frozenset(
    ("certified", "epsilon", "epsilon_unit", "metric", "places", "outputs", "hours", "zone",
     "ratios_checked", "largest_snap_km", "quality_loss_km", "created", "versions", "guarantee",
     "periods")
)  # fmt: skip


def check_form(claimed: dict[str, Any], names: frozenset[str] = CLAIMS) -> None:
    """Refuse a certificate that is not of the form of one, before it is printed."""
    if set(claimed) != names:
        raise FormatError("its certificate is not of the form it must be")
    for name, value in claimed.items():
        texts = {name: value}
        if name == "versions" and value is not None:
            texts = value if isinstance(value, dict) else {name: 0}
        for text in texts.values() if name in _WORDS else ():
            if text is not None and not (isinstance(text, str) and len(text) <= 200):
                raise FormatError(f"its certificate says no words for {name}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _NUMBERS and value is not None and not (number and abs(value) < 1e15):
            raise FormatError(f"its certificate has no number for {name}")


def check_early(contents: Contents) -> None:
    """Check all claims but those about ratios.

    Raises
    ------
    FormatError
        If the certificate is not of the form of one.
    GuaranteeError
        If a claim does not hold.
    """
    claimed, epsilon, prior = contents.claimed, contents.epsilon, contents.prior
    check_form(claimed)
    counts, inputs, outputs = contents.counts, contents.inputs, contents.outputs
    n, m = len(inputs), len(outputs)
    if check_rows(counts).shape != (n, m):
        raise FormatError(f"counts must have {n} rows and {m} columns")
    straight = euclidean(inputs)
    metric = straight if contents.metric is None else contents.metric
    per_km = np.array_equal(metric, straight)
    unit = epsilon_unit(per_km, contents.build.metric)
    found: dict[str, Any] = {
        "certified": epsilon is not None, "epsilon": epsilon, "places": n, "outputs": m,
        "epsilon_unit": None if epsilon is None else unit,
        "metric": None if epsilon is None else metric_words(per_km, contents.build.metric),
        "ratios_checked": 0 if epsilon is None else n * (n - 1) * m,
        "largest_snap_km": inputs.largest_snap_km,
    }  # fmt: skip
    if prior is not None:
        away = euclidean(inputs, outputs)
        loss = float((prior[:, None] * away * (counts.astype(np.float64) / TOTAL)).sum())
        found |= {"prior_sha256": digest(prior), "quality_loss_km": loss}
        if contents.proof is not None:
            bound = max(0.0, lower_bound(contents.proof, prior, away, metric))
            found["lower_bound_km"] = bound
    for name, value in found.items():
        check_claim(name, claimed[name], value)
    if "lower_bound_km" in found:
        check_gap(claimed)


def check_gap(claimed: dict[str, Any]) -> None:
    """Raise GuaranteeError unless the claimed gap is that of the claimed loss and bound.

    Both are claims that hold up to the last digits. Where they are nearly equal, their difference
    has fewer correct digits than they have.
    """
    gap = relative_gap(claimed["quality_loss_km"], claimed["lower_bound_km"])
    check_claim("gap", claimed["gap"], gap)


def check_claim(name: str, said: Any, found: Any, tolerance: float = 1e-9) -> None:
    """Raise GuaranteeError unless a claim is what was found, up to the last digits."""
    if isinstance(said, float) and isinstance(found, float):
        fine = abs(said - found) <= tolerance * abs(found) + 1e-12
    else:
        fine = bool(said == found)
    if not fine:
        raise GuaranteeError(
            f"the certificate does not hold: it says {name} is {said!r}, and it is {found!r}"
        )
