"""The one registry of mechanisms: what ``--method``, JSON, HTTP and `compare` know.

One line at the end of this file, or one call of `register_mechanism`, adds a mechanism. It then
has a name in ``--method`` and in the JSON field ``method``, stands in the HTTP schema and is a row
of `whereish compare`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whereish.errors import InputError
from whereish.limits import DILATION, MEMORY_GB, TOLERANCE
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
    """What a constructor is given. It takes what it needs of it.

    Attributes
    ----------
    epsilon
        Privacy level; None where a quality loss is asked for instead.
    quality_loss
        In km; None where an epsilon is asked for.
    privacy_metric, quality_metric
        (n, n) distances; None for Euclidean distance.
    outputs
        The numbers of the places that may be reported; None for all.
    """

    places: Places
    prior: Array
    epsilon: float | None = None
    quality_loss: float | None = None
    dilation: float = DILATION
    method: str = "exact"
    solver: str = "auto"
    form: str | None = None
    tolerance: float = TOLERANCE
    time_limit_s: float | None = None
    memory_limit_gb: float = MEMORY_GB
    privacy_metric: Array | None = None
    quality_metric: Array | None = None
    outputs: tuple[int, ...] | None = None
    announce: Callable[[Plan], object] | None = None
    progress: Callable[[Progress], object] | None = None
    cluster: str | None = None

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


@dataclass(frozen=True)
class Entry:
    """A mechanism that has a name.

    Attributes
    ----------
    name, about
        Its name in JSON and flags, and one line of words.
    for_epsilon
        Builds it at a privacy level; None if it has no epsilon, and so is no ``--method``.
    for_loss
        Builds it at a quality loss, to compare it with others at the same loss; None if that
        cannot be done.
    title
        What it is called in a comparison; None if it is no row of one.
    needs_prior
        Whether the prior decides what it reports.
    remaps
        Whether a comparison shows it after the best remap as well.
    uses_solver
        Whether a solver finds it, so that dilation, solver and tolerance matter.
    refuses
        Fields of a description that it cannot follow, which are refused.
    """

    name: str
    about: str
    for_epsilon: Constructor | None
    for_loss: Constructor | None = None
    title: str | None = None
    needs_prior: bool = False
    remaps: bool = False
    uses_solver: bool = False
    refuses: tuple[str, ...] = ()

    @property
    def has_epsilon(self) -> bool:
        """Whether it promises an epsilon."""
        return self.for_epsilon is not None

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
) -> Entry:
    """Add a mechanism to the registry. See `Entry`; the title is the name if not given."""
    shown = name if title == "" else title
    made = MECHANISMS[name] = Entry(
        name, about, for_epsilon, for_loss, shown, needs_prior, remaps, uses_solver, refuses
    )
    return made


def method_names() -> tuple[str, ...]:
    """Return what a description may say as its ``method``: every mechanism with an epsilon.

    >>> method_names()[:3]
    ('exact', 'closed-form', 'auto')
    """
    return tuple(name for name, entry in MECHANISMS.items() if entry.has_epsilon)


def _optimal(asked: Request) -> Mechanism:
    return optimal(
        asked.places,
        asked.prior,
        asked.level,
        asked.dilation,
        asked.privacy_metric,
        asked.quality_metric,
        asked.outputs,
        asked.solver,
        method=asked.method,
        form=asked.form,
        tolerance=asked.tolerance,
        time_limit_s=asked.time_limit_s,
        memory_limit_gb=asked.memory_limit_gb,
        announce=asked.announce,
        progress=asked.progress,
        cluster=asked.cluster,
    )


def _optimal_privacy(asked: Request) -> Mechanism:
    return optimal_privacy(
        asked.places,
        asked.prior,
        asked.loss,
        asked.quality_metric,
        outputs=asked.outputs,
        solver=asked.solver,
        form=asked.form,
        time_limit_s=asked.time_limit_s,
    )


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
    lambda asked: tight_constraints(asked.places, asked.level, asked.privacy_metric),
    title="tight constraints", remaps=True, refuses=("outputs",),
)  # fmt: skip
register_mechanism(
    "planar-laplace", "planar Laplace noise, then the nearest place",
    lambda asked: planar_laplace(asked.places, asked.level, asked.outputs),
    lambda asked: planar_laplace_for_loss(
        asked.places, asked.prior, asked.loss, asked.quality_metric
    ),
    title="planar Laplace", remaps=True, refuses=("privacy_metric",),
)  # fmt: skip
register_mechanism(
    "exponential", "probabilities proportional to exp(-epsilon distance / 2)",
    lambda asked: exponential(asked.places, asked.level, asked.privacy_metric, asked.outputs),
)  # fmt: skip
register_mechanism(
    "optimal-privacy", "the largest adversary error at a quality loss, without an epsilon",
    None, _optimal_privacy, title="Shokri et al.", needs_prior=True, uses_solver=True,
)  # fmt: skip
