"""The one registry of mechanisms: what ``--method``, JSON, HTTP and `compare` know.

One line at the end of this file, or one call of `register_mechanism`, adds a mechanism. It then
has a name in ``--method`` and in the JSON field ``method``, stands in the HTTP schema and is a row
of `whereish compare`. A mechanism for all points (``for_points``) is a row of `compare` only;
``everywhere/registry.py`` registers those of this library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whereish.errors import InputError
from whereish.limits import DILATION, MEMORY_GB, TOLERANCE
from whereish.mechanisms.blahut_arimoto import blahut_arimoto
from whereish.mechanisms.closed_forms import exponential, tight_constraints
from whereish.mechanisms.mechanism import Mechanism
from whereish.mechanisms.optimal import optimal
from whereish.mechanisms.optimal_privacy import optimal_privacy
from whereish.mechanisms.plan import METHODS, Plan
from whereish.mechanisms.planar_laplace import planar_laplace, planar_laplace_for_loss
from whereish.places import Array, Places
from whereish.solvers import Progress


@dataclass(frozen=True, eq=False, repr=False)
class Request:
    """What a constructor is given. It takes what it needs of it."""

    places: Places
    prior: Array
    epsilon: float | None = None  # None where a quality loss is asked for instead
    quality_loss: float | None = None  # in km; None where an epsilon is asked for
    dilation: float = DILATION
    method: str = "exact"
    solver: str = "auto"
    form: str | None = None
    tolerance: float = TOLERANCE
    time_limit_s: float | None = None
    memory_limit_gb: float = MEMORY_GB
    privacy_metric: Any = None  # (n, n) distances or a MapMetric; None for Euclidean distance
    quality_metric: Array | None = None
    outputs: tuple[int, ...] | None = None  # places that may be reported; None for all
    announce: Callable[[Plan], object] | None = None
    progress: Callable[[Progress], object] | None = None
    cluster: str | None = None
    vertices: int | None = None  # of the lattice of a mechanism for all points; None: the default

    @property
    def level(self) -> float:
        """The epsilon asked for."""
        if self.epsilon is None:
            raise InputError("epsilon must be given for a mechanism with an epsilon")
        return self.epsilon

    @property
    def loss(self) -> float:
        """The quality loss asked for."""
        if self.quality_loss is None:
            raise InputError("quality_loss must be given for a mechanism without an epsilon")
        return self.quality_loss


Constructor = Callable[[Request], Mechanism]
PointConstructor = Callable[[Request], Any]  # of a mechanism of `whereish.everywhere`


@dataclass(frozen=True)
class Entry:
    """A mechanism that has a name: in JSON, in flags and in comparisons."""

    name: str
    about: str  # one line of words
    for_epsilon: Constructor | None  # None if it has no epsilon, and so is no ``--method``
    for_loss: Constructor | None = None  # to compare at the same quality loss, where it can be
    title: str | None = None  # in a comparison; None if it is no row of one
    needs_prior: bool = False  # whether the prior decides what it reports
    remaps: bool = False  # whether a comparison shows it after the best remap as well
    uses_solver: bool = False  # so that dilation, solver and tolerance matter
    refuses: tuple[str, ...] = ()  # fields of a description that it cannot follow
    for_points: PointConstructor | None = None  # if it is private between any two points

    @property
    def is_planned(self) -> bool:
        """Whether `optimal` builds it: it may need a solver, and so time and memory."""
        return self.name in METHODS


MECHANISMS: dict[str, Entry] = {}


def register_mechanism(
    name: str,
    about: str,
    for_epsilon: Constructor | None = None,
    for_loss: Constructor | None = None,
    *,
    title: str | None = "",
    needs_prior: bool = False,
    remaps: bool = False,
    uses_solver: bool = False,
    refuses: tuple[str, ...] = (),
    for_points: PointConstructor | None = None,
) -> Entry:
    """Add a mechanism to the registry. See `Entry`; the title is the name if not given."""
    shown = name if title == "" else title
    MECHANISMS[name] = Entry(
        name, about, for_epsilon, for_loss, shown, needs_prior, remaps, uses_solver, refuses,
        for_points,
    )  # fmt: skip
    return MECHANISMS[name]


def method_names() -> tuple[str, ...]:
    """Return what a description may say as its ``method``: every mechanism with an epsilon.

    >>> method_names()[:3]
    ('exact', 'closed-form', 'auto')
    """
    return tuple(name for name, entry in MECHANISMS.items() if entry.for_epsilon is not None)


def _optimal(request: Request) -> Mechanism:
    return optimal(
        request.places, request.prior, request.level, request.dilation, request.privacy_metric,
        request.quality_metric, request.outputs, request.solver, method=request.method,
        form=request.form, tolerance=request.tolerance, time_limit_s=request.time_limit_s,
        memory_limit_gb=request.memory_limit_gb, announce=request.announce,
        progress=request.progress, cluster=request.cluster,
    )  # fmt: skip


def _optimal_privacy(request: Request) -> Mechanism:
    return optimal_privacy(
        request.places, request.prior, request.loss, request.quality_metric,
        outputs=request.outputs, solver=request.solver, form=request.form,
        time_limit_s=request.time_limit_s,
    )  # fmt: skip


register_mechanism(
    "exact", "the least quality loss of all mechanisms with this epsilon", _optimal,
    title="optimal", needs_prior=True, uses_solver=True,
)  # fmt: skip
register_mechanism(
    "closed-form", "the best mechanism that needs no solver, with a remap", _optimal,
    title=None, needs_prior=True,
)  # fmt: skip
register_mechanism(
    "auto", "exact if that fits the time and the memory, otherwise closed-form", _optimal,
    title=None, needs_prior=True, uses_solver=True,
)  # fmt: skip
register_mechanism(
    "tight-constraints", "every ratio at its limit, where that exists",
    lambda request: tight_constraints(request.places, request.level, request.privacy_metric),
    title="tight constraints", remaps=True, refuses=("outputs",),
)  # fmt: skip
register_mechanism(
    "planar-laplace", "planar Laplace noise, then the nearest place",
    lambda request: planar_laplace(request.places, request.level, request.outputs),
    lambda request: planar_laplace_for_loss(
        request.places, request.prior, request.loss, request.quality_metric
    ),
    title="planar Laplace", remaps=True, refuses=("privacy_metric",),
)  # fmt: skip
register_mechanism(
    "exponential", "probabilities proportional to exp(-epsilon distance / 2)",
    lambda request: exponential(
        request.places, request.level, request.privacy_metric, request.outputs
    ),
)  # fmt: skip
register_mechanism(
    "blahut-arimoto", "the least mutual information at its loss, as in PRIVIC",
    lambda request: blahut_arimoto(
        request.places, request.prior, request.level, request.privacy_metric, request.outputs
    ),
    title="Blahut-Arimoto", needs_prior=True,
)  # fmt: skip
register_mechanism(
    "optimal-privacy", "the largest adversary error at a quality loss, without an epsilon",
    None, _optimal_privacy, title="Shokri et al.", needs_prior=True, uses_solver=True,
)  # fmt: skip
