"""What the certificate of a file claims, as far as that can be judged before its ratios are.

The audit of every ratio takes minutes for thousands of places. A file whose other claims do not
hold is refused before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whereish.errors import FormatError, GuaranteeError
from whereish.format.certificate import digest
from whereish.measures import TOTAL, Counts, Proof, check_rows, lower_bound, relative_gap
from whereish.places import Array, Places, euclidean

_WORDS = ("method", "solver", "stopped", "prior_sha256", "created", "versions")
_NUMBERS = (
    "quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "rounding_mix", "repair_mix",
    "repair_cost_km", "requested_dilation", "dilation", "seconds",
)  # fmt: skip
CLAIMS = frozenset(
    (*_WORDS, *_NUMBERS, "certified", "epsilon", "epsilon_unit", "metric", "places", "outputs",
     "ratios_checked", "worst_slack", "worst_slack_at", "largest_snap_km", "guarantee")
)  # fmt: skip


def check_form(claimed: dict[str, Any]) -> None:
    """Refuse a certificate that is not of the form of one, before anybody prints it."""
    if set(claimed) != CLAIMS:
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


def check_early(
    claimed: dict[str, Any],
    counts: Counts,
    inputs: Places,
    outputs: Places,
    epsilon: float | None,
    metric: Array | None,
    prior: Array | None,
    proof: Proof | None,
) -> None:
    """Check all claims but those about ratios.

    Raises
    ------
    FormatError
        If the certificate is not of the form of one.
    GuaranteeError
        If a claim does not hold.
    """
    check_form(claimed)
    n, m = len(inputs), len(outputs)
    if check_rows(counts).shape != (n, m):
        raise FormatError(f"counts must have {n} rows and {m} columns")
    found: dict[str, Any] = {
        "certified": epsilon is not None, "epsilon": epsilon, "places": n, "outputs": m,
        "ratios_checked": 0 if epsilon is None else n * (n - 1) * m,
        "largest_snap_km": inputs.largest_snap_km,
    }  # fmt: skip
    if prior is not None:
        away = euclidean(inputs, outputs)
        loss = float((prior[:, None] * away * (counts.astype(np.float64) / TOTAL)).sum())
        found |= {"prior_sha256": digest(prior), "quality_loss_km": loss}
        if proof is not None:
            straight = euclidean(inputs) if metric is None else metric
            bound = max(0.0, lower_bound(proof, prior, away, straight))
            found |= {"lower_bound_km": bound, "gap": relative_gap(loss, bound)}
    for name, value in found.items():
        check_claim(name, claimed[name], value)


def check_claim(name: str, said: Any, found: Any) -> None:
    """Raise GuaranteeError unless what is said is what was found, up to the last digits."""
    if isinstance(said, float) and isinstance(found, float):
        fine = abs(said - found) <= 1e-9 * abs(found) + 1e-12
    else:
        fine = bool(said == found)
    if not fine:
        raise GuaranteeError(
            f"the certificate does not hold: it says {name} is {said!r}, and it is {found!r}"
        )
