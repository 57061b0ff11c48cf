"""The record of how a mechanism was built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from whereish.places import KINDS
from whereish.showing import Shown
from whereish.units import km, percent

# Fields that depend on the prior not at all, or only as the counts do. Times, gaps, losses and
# notes depend on it. A new field of Build stays out of files without a prior unless it is here.
_WITHOUT_PRIOR = (
    "method", "solver", "form", "variables", "constraints", "edges", "dilation",
    "requested_dilation", "stopped", "metric",
)  # fmt: skip


@dataclass(frozen=True)
class Build(Shown):
    """The record of how a mechanism was built. A field that does not apply is None.

    Attributes
    ----------
    method
        "optimal", "optimal-privacy", "planar-laplace", "exponential", "tight-constraints" or
        "blahut-arimoto";
        followed by "+remap" or "+then" for a mechanism that was changed afterwards.
    solver, form
        The solver, and whether it solved the "primal" or the "dual" program.
    seconds
        From the call to the solver's answer, without the repair and the checks that follow.
    variables, constraints, edges
        The size of the program, and the number of edges of its spanner.
    dilation, requested_dilation
        The measured dilation of the spanner, and the requested one.
    repair_mix
        The share of the uniform mechanism that the repair mixed in.
    repair_cost_km
        The quality loss that the repair added to that of the solver's matrix.
    lower_bound_km, gap
        A lower bound on the quality loss of every mechanism with this epsilon, for any dilation;
        and the relative gap of this mechanism to it, after the repair. Known if
        `Mechanism.proof` is.
    program_gap
        The relative gap to the optimum of the program that was solved: with a dilation above 1 it
        is smaller than ``gap``.
    stopped
        Why a solver ended early: "time", or "asked" (Ctrl-C); None if it did not.
    metric
        The kind of the privacy metric, if that was made from a map: "roads" or "elastic".
    notes
        Remarks for the reader.
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
    metric: str | None = None
    notes: tuple[str, ...] = ()

    def _facts(self) -> list[tuple[str, str]]:
        rows = [("method", self.method)]
        if self.solver is not None:
            rows.append(("solver", f"{self.solver}, {self.form}" if self.form else self.solver))
        if self.seconds is not None:
            rows.append(("time", f"{self.seconds:.3g} s"))
        if self.dilation is not None:
            rows.append(("spanner", f"dilation {self.dilation:.4g}"))
        if self.lower_bound_km is not None:
            rows.append(("least loss possible", f"at least {km(self.lower_bound_km)}"))
        if self.gap is not None:
            rows.append(("gap to it", percent(self.gap)))
        if self.stopped is not None:
            rows.append(("stopped early", self.stopped))
        return [*rows, *(("note", note) for note in self.notes)]

    def without_prior(self) -> Self:
        """Return the fields that may be published if the prior may not."""
        return type(self)(**{name: getattr(self, name) for name in _WITHOUT_PRIOR})


def epsilon_unit(per_km: bool, metric: str | None) -> str:
    """Return the unit of an epsilon, in words, by the kind of its metric."""
    if per_km:
        return "per km"
    return KINDS[metric].epsilon_unit if metric in KINDS else "per unit of its own metric"
