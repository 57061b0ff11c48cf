"""How a mechanism came about."""

from __future__ import annotations

from dataclasses import dataclass

# What does not depend on the prior, or only as far as the counts themselves do. Times, gaps, losses
# and notes do; whatever is added to Build stays out of files without a prior until it is named.
_WITHOUT_PRIOR = (
    "method", "solver", "form", "variables", "constraints", "edges", "dilation",
    "requested_dilation", "stopped",
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """How a mechanism came about. What does not apply is None.

    Attributes
    ----------
    method
        "optimal", "optimal-privacy", "planar-laplace", "exponential", "tight-constraints", with
        "+remap" or "+then" for what was done since.
    seconds
        From the call to the solver's answer, compiling included where it was the first use; not
        the repair and the checks that follow. What a person waited is longer.
    dilation, requested_dilation
        Measured and asked for.
    repair_mix
        The share of the uniform mechanism mixed in to make every ratio hold exactly.
    repair_cost_km
        What the repair added to the quality loss that the solver found.
    lower_bound_km, gap
        No mechanism with this epsilon loses less than this, whatever its dilation; how far above
        it this one is, repair included, relative. Known where `Mechanism.proof` is.
    program_gap
        How far from optimal it is among mechanisms under the constraints that were solved for:
        less than ``gap`` with a dilation above 1.
    stopped
        Why a solver ended early, "time" or "asked" (Ctrl-C); None if it did not.
    notes
        What a reader should know, in words.
    """

    method: str
    solver: str | None = None
    form: str | None = None
    seconds: float | None = None
    variables: int | None = None
    constraints: int | None = None
    edges: int | None = None
    dilation: float | None = None
    requested_dilation: float | None = None
    repair_mix: float | None = None
    repair_cost_km: float | None = None
    lower_bound_km: float | None = None
    gap: float | None = None
    program_gap: float | None = None
    stopped: str | None = None
    notes: tuple[str, ...] = ()

    def without_prior(self) -> Build:
        """Return what may be told where the prior may not."""
        return Build(**{name: getattr(self, name) for name in _WITHOUT_PRIOR})
