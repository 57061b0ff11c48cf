"""The one description of a build: for the library, the command line, HTTP and batch.

`BuildOptions` says how to build; `BuildSpec` adds for whom: places and prior. Both are read from a
JSON document, from flags or from Python, and validated here and nowhere else. The JSON Schema in
OpenAPI is generated from the fields below. Places and priors are personal, so that no message
repeats a number of them: it names the field instead, like ``prior[3]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from whereish import limits
from whereish.errors import InputError, SolveError
from whereish.everywhere import (
    AnyMechanism,
    Everywhere,
    check_points,
    expected_loss,
    optimal_everywhere,
    plan_everywhere,
)
from whereish.everywhere.search import OUTPUTS
from whereish.format.metric_file import read_metric_document
from whereish.measures import quality_loss
from whereish.mechanisms import MECHANISMS, Mechanism, Plan, Request, method_names
from whereish.mechanisms.plan import plan
from whereish.places import Array, MapMetric, Places, documents, named_metric
from whereish.profiles import blur_prior
from whereish.solvers import FORMS, SOLVERS, Progress
from whereish.solvers.estimates import estimate_general, expected_edges
from whereish.strict_json import read_json
from whereish.validated import Earlier, Reader, Schema, Validated, one_of, or_none


def _of_places(read: Callable[[str, Any, Places], Any], schema: Callable[[], Schema]) -> Reader:
    """Mark a field that can only be read where the places could."""

    def checked(field: str, value: Any, earlier: Earlier) -> Any:
        if "places" not in earlier:
            raise InputError("places must be given", "places")
        return read(field, value, earlier["places"])

    return Reader(checked, schema)


_WHOLE_DAY = (
    "a recipe, the service and a batch build one mechanism for the whole day; whereish build "
    "PROFILE --by-time builds one for each period"
)


def _read_metric(field: str, value: Any, places: Places) -> Any:
    return documents.read_metric(field, read_metric_document(field, value), places)


def _within(least: float, most: float) -> Any:
    return Field(ge=least, le=most)


def _about(words: str) -> Any:
    return Field(description=words)


def _methods() -> str:
    return "; ".join(f"{name}: {MECHANISMS[name].about}" for name in method_names())


_PLACES = Reader(
    lambda field, value, _: documents.read_places(field, value), documents.places_schema
)
_PRIOR = Reader(lambda field, value, _: documents.read_prior(field, value), documents.prior_schema)


PLACES, EVERYWHERE = GUARANTEES = ("places", "everywhere")
# Fields that a mechanism for all points cannot follow, and why. Their defaults are fine.
NOT_EVERYWHERE = {
    "dilation": "a lattice has no spanner",
    "solver": "its conic program has one solver",
    "form": "its conic program has one solver",
    "prior_blur": "its lattice follows the points, which a blur does not hide",
    "privacy_metric": "it is private by Euclidean distance",
    "quality_metric": "its outputs are chosen by Euclidean distance",
}


class BuildOptions(Validated):
    """How to build a mechanism, for any person. See `BuildSpec`."""

    refused = dict.fromkeys(("by_time", "prior_by_time", "hours", "zone"), _WHOLE_DAY) | {
        "taper": "build one mechanism for each epsilon, or use whereish build PROFILE --taper N"
    }
    epsilon_per_km: Annotated[
        float,
        _within(limits.SMALLEST_EPSILON, limits.LARGEST_EPSILON),
        _about("Privacy level: ln(2) / 0.65 means twice as likely, at most, at 650 m."),
    ]
    guarantee: Annotated[
        str,
        one_of(
            lambda: GUARANTEES,
            lambda: (
                "Between which points the guarantee holds. places: between the places, and a "
                "device moves its location to the nearest one. everywhere: between any two points "
                "of the plane; places and prior are the points that the person visits, and how "
                "often."
            ),
        ),
    ] = PLACES
    vertices: Annotated[
        int | None,
        _within(limits.LEAST_VERTICES, limits.MOST_VERTICES),
        _about(
            f"The most vertices of the lattice; {limits.VERTICES} if null. More lose less and "
            "take longer. With guarantee everywhere."
        ),
    ] = None
    lattice_only: Annotated[
        bool,
        _about(
            "Whether to return the lattice even if planar Laplace, which has the same guarantee, "
            "loses less: the time of a draw from a lattice does not depend on the report. With "
            "guarantee everywhere."
        ),
    ] = False
    dilation: Annotated[
        float,
        _within(limits.SMALLEST_DILATION, limits.LARGEST_DILATION),
        _about("1 is exact; more means fewer constraints and slightly more loss."),
    ] = limits.DILATION
    method: Annotated[str, one_of(method_names, _methods)] = "exact"
    solver: Annotated[
        str,
        one_of(lambda: SOLVERS),
        _about("auto: structured, or highs for the smallest programs."),
    ] = "auto"
    form: Annotated[
        str | None,
        or_none(one_of(lambda: FORMS)),
        _about("Solve the linear program (primal) or its dual; null: the faster one."),
    ] = None
    tolerance: Annotated[
        float,
        _within(limits.SMALLEST_TOLERANCE, limits.LARGEST_TOLERANCE),
        _about("How near to the optimum is near enough, relatively."),
    ] = limits.TOLERANCE
    time_limit_s: Annotated[
        float | None,
        _within(limits.SHORTEST_S, limits.LONGEST_S),
        _about("Seconds to take: then the best so far is what you get."),
    ] = None
    keep_prior: Annotated[
        bool, _about("Whether the file holds the prior, and what was computed from it.")
    ] = False
    prior_blur: Annotated[
        float,
        _within(0.0, 1.0),
        _about("Share of a public prior that is mixed in. Not with keep_prior."),
    ] = 0.0
    blur_with: Annotated[
        Any,
        or_none(_PRIOR, ("uniform",)),
        _about("The public prior; uniform if null. With prior_blur."),
    ] = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse fields that contradict each other."""
        for broken, field, words in (
            (self.prior_blur and self.keep_prior, "prior_blur",
             "must be left out with keep_prior: a file that holds the prior tells it"),
            (self.blur_with is not None and not self.prior_blur, "blur_with",
             "must go with prior_blur, a share above 0"),
            (self.form is not None and self.solver == "structured", "form",
             "must be left out with the structured solver"),
        ):  # fmt: skip
            if broken:
                raise InputError(f"{field} {words}", field)
        if self.guarantee == EVERYWHERE:
            self._agree_everywhere()
        elif self.vertices is not None:
            raise InputError("vertices must go with guarantee everywhere", "vertices")
        elif self.lattice_only:
            raise InputError("lattice_only must go with guarantee everywhere", "lattice_only")
        return self

    def _agree_everywhere(self) -> None:
        """Refuse what a mechanism for all points cannot follow."""
        fields = type(self).model_fields
        for name, why in NOT_EVERYWHERE.items():
            if name in fields and getattr(self, name) != fields[name].default:
                raise InputError(f"{name} must be left out with guarantee everywhere: {why}", name)
        if not MECHANISMS[self.method].is_planned:
            raise InputError(
                "method must be exact, closed-form or auto with guarantee everywhere", "method"
            )
        if self.method != "exact" and self.lattice_only:
            raise InputError("lattice_only must go with method exact", "lattice_only")
        if self.method == "closed-form" and self.vertices is not None:
            raise InputError(
                "vertices must be left out with method closed-form, which has no lattice",
                "vertices",
            )

    def for_person(self, places: Places, prior: Array) -> BuildSpec:
        """Return the description of a build with these options for one person."""
        return BuildSpec(**{**dict(self), "places": places, "prior": prior})

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Return what repr, str and rich show: nothing about a person."""
        return [("method", self.method)]


class BuildSpec(BuildOptions):
    """A mechanism to be built: the options, and the person's places and prior. Its repr shows none.

    The description of each field says what it is; the options are those of `whereish.optimal`.
    A method is a name from the registry of mechanisms: "exact", "closed-form" or "auto" as there,
    or a mechanism to compare with. A metric is a name from the registry of metrics,
    ``{"matrix": rows}``, ``{"edges": [[from, to, length], ...]}``, a `MapMetric`, or
    ``{"file": base64}``, as `metric_document` makes it; epsilon is per unit of the privacy metric,
    if that is not kilometres. For the blur of the prior see `whereish.blur_prior`.

    >>> BuildSpec.from_json('{"places": {"xy_km": [[0, 0], [1, 0]]}, "prior": [0.5, 0.5]}')
    Traceback (most recent call last):
    whereish.errors.InputError: epsilon_per_km must be given
    >>> spec = BuildSpec(places={"xy_km": [[0, 0], [1, 0]]}, prior=[0.9, 0.1], epsilon_per_km=1.0)
    >>> spec.build().epsilon
    1.0
    """

    model_config = ConfigDict(
        json_schema_extra={
            "description": "A mechanism to be built.",
            "example": {
                "places": {"latlon": [[48.85, 2.35], [48.86, 2.33], [48.87, 2.36]]},
                "prior": [0.5, 0.3, 0.2],
                "epsilon_per_km": 1.07,
            },
        },
    )

    named_first = ("places", "prior")
    places: Annotated[
        Any,
        _PLACES,
        _about("Where the person may be: in degrees, or in km in a plane."),
    ]
    prior: Annotated[
        Any,
        _of_places(documents.read_prior, documents.prior_schema),
        _about(
            "How likely each place is: as many numbers as places, with sum 1. It is never kept "
            "longer than the build takes, nor written to a log."
        ),
    ]
    privacy_metric: Annotated[
        Any,
        _of_places(_read_metric, lambda: documents.metric_schema("privacy")),
        _about("What privacy is measured by; Euclidean distance if null."),
    ] = None
    quality_metric: Annotated[
        Any,
        _of_places(_read_metric, lambda: documents.metric_schema("quality")),
        _about("What loss is measured by; Euclidean distance if null."),
    ] = None
    outputs: Annotated[
        Any,
        or_none(_of_places(documents.read_outputs, documents.outputs_schema)),
        _about("Numbers of the places that may be reported; all places if null."),
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse what these places, or this mechanism, cannot be built with."""
        if self.blur_with is not None:
            documents.read_prior("blur_with", self.blur_with, self.places)
        for field in MECHANISMS[self.method].refuses:
            if getattr(self, field) is not None:
                raise InputError(f"{field} must be left out with {self.method}", field)
        if self.guarantee == EVERYWHERE:
            check_points(self.places)
        return self

    @classmethod
    def from_mechanism(cls, mechanism: Mechanism, prior: Array) -> BuildSpec:
        """Return the description that a mechanism was built from, as far as its file tells.

        The tolerance and the time limit are not in a file: they have their defaults.
        """
        built = mechanism.build
        same = mechanism.outputs.same_as(mechanism.inputs)
        names = {"optimal": "exact"} | {name: name for name in method_names()}
        fields = {
            "places": mechanism.inputs,
            "prior": prior,
            "epsilon_per_km": mechanism.epsilon,
            "method": names.get(built.method, "closed-form"),
            "solver": built.solver,
            "form": built.form,
            "dilation": built.requested_dilation,
            "privacy_metric": _metric_of(mechanism),
            "outputs": None if same else _numbers_of(mechanism.outputs, mechanism.inputs),
        }
        return cls.from_document({n: value for n, value in fields.items() if value is not None})

    @property
    def built_for(self) -> Array:
        """The prior that the mechanism is best for: the blurred one."""
        return blur_prior(self.prior, self.prior_blur, self.blur_with)

    @property
    def kept_prior(self) -> Any:
        """What its file keeps of the person: the prior, or points and weights; None for nothing."""
        if not self.keep_prior:
            return None
        return (self.places, self.prior) if self.guarantee == EVERYWHERE else self.prior

    @property
    def quality(self) -> Array | None:
        """What loss is measured by, inputs by outputs; None for the distance in the plane."""
        metric: Array | None = self._distances("quality_metric")
        return metric if metric is None or self.outputs is None else metric[:, list(self.outputs)]

    @property
    def reports(self) -> int:
        """How many places may be reported; if they are yet to be chosen, about how many."""
        if self.guarantee == EVERYWHERE and self.outputs is None:
            return OUTPUTS
        return len(self.places) if self.outputs is None else len(self.outputs)

    def plan(self, memory_limit_gb: float = limits.MEMORY_GB) -> Plan:
        """Say how it will be built, how long that takes and how much memory.

        Raises
        ------
        InputError
            If it does not fit into the memory: the message says what would.
        """
        if self.guarantee == EVERYWHERE:
            return self._plan_everywhere(memory_limit_gb)
        n = len(self.places)
        edges = expected_edges(n, self.dilation, straight=self.privacy_metric is None)
        method = self.method if MECHANISMS[self.method].is_planned else "closed-form"
        try:
            made = plan(method, n, self.reports, edges, self.time_limit_s, memory_limit_gb)
        except SolveError as wrong:
            raise InputError(f"places must fit into the memory: {wrong}", "places") from None
        if made.method == "closed-form" or self.solver in ("auto", "structured"):
            return made
        general = estimate_general(made.constraints)
        memory = general.gigabytes
        if memory > memory_limit_gb:
            raise InputError(
                f"solver {self.solver} needs about {memory:.2g} GB for {made.constraints:,} "
                f"constraints, and {memory_limit_gb:g} GB is allowed: take auto", "solver",
            )  # fmt: skip
        return replace(made, seconds=general.seconds, memory_gb=memory)

    def build(
        self,
        *,
        memory_limit_gb: float = limits.MEMORY_GB,
        announce: Callable[[Plan], object] | None = None,
        progress: Callable[[Progress], object] | None = None,
        stage: Callable[[str], object] | None = None,
        cluster: str | None = None,
    ) -> Any:
        """Build the mechanism: the same one, wherever the description came from.

        A `Mechanism`; if the guarantee is everywhere, an `EverywhereMechanism` or a
        `PlanarLaplaceEverywhere`, whichever loses less.
        ``stage`` is called with what is done next, in words, if the guarantee is everywhere.
        """
        if self.guarantee == EVERYWHERE:
            if cluster is not None:
                raise InputError("cluster must be left out with guarantee everywhere", "cluster")
            return self._build_everywhere(memory_limit_gb, announce, progress, stage)
        entry = MECHANISMS[self.method]
        make = entry.for_epsilon
        if cluster is not None and not entry.is_planned:
            raise InputError(f"cluster must be left out with {self.method}, which needs no solver")
        assert make is not None  # noqa: S101  (a method is a mechanism with an epsilon)
        return make(
            Request(
                self.places, self.built_for, self.epsilon_per_km, None, self.dilation, self.method,
                self.solver, self.form, self.tolerance, self.time_limit_s, memory_limit_gb,
                self._distances("privacy_metric"), self._distances("quality_metric"), self.outputs,
                announce, progress, cluster,
            )
        )  # fmt: skip

    def loss_of(self, mechanism: AnyMechanism) -> float:
        """Return the expected quality loss of a mechanism for this person, in km."""
        if isinstance(mechanism, Mechanism):
            return quality_loss(mechanism, self.prior, self.quality)
        return expected_loss(mechanism, self.places, self.prior, normalise=True)

    def _plan_everywhere(self, memory_limit_gb: float) -> Plan:
        most, reports = self.vertices or limits.VERTICES, self.outputs and len(self.outputs)
        try:
            return plan_everywhere(
                self.method, len(self.places), most, reports, self.time_limit_s, memory_limit_gb
            )
        except SolveError as wrong:
            raise InputError(f"vertices must fit into the memory: {wrong}", "vertices") from None

    def _build_everywhere(
        self,
        memory_limit_gb: float,
        announce: Callable[[Plan], object] | None,
        progress: Callable[[Progress], object] | None,
        stage: Callable[[str], object] | None,
    ) -> Everywhere:
        planned = self._plan_everywhere(memory_limit_gb)
        if announce is not None:
            announce(planned)
        return optimal_everywhere(
            self.places, self.prior, self.epsilon_per_km,
            vertices=self.vertices or limits.VERTICES,
            outputs=None if self.outputs is None else self.places.subset(list(self.outputs)),
            method=_method(planned.method, self.lattice_only),
            tolerance=self.tolerance, time_limit_s=self.time_limit_s, progress=progress,
            stage=stage, memory_limit_gb=memory_limit_gb, normalise=True,
        )  # fmt: skip

    def _distances(self, field: str) -> Any:
        metric = getattr(self, field)
        if isinstance(metric, MapMetric):
            return metric  # the constructor takes its distances, and its name
        if isinstance(metric, documents.GivenMetric):
            return metric.distances(field, self.places)
        return named_metric(metric, self.places)


def _metric_of(mechanism: Mechanism) -> Any:
    """Return the metric of a mechanism as a description has it: None for Euclidean distance."""
    if mechanism.is_per_km or mechanism.build.metric is None:
        return None if mechanism.is_per_km else mechanism.privacy_metric
    return MapMetric(mechanism.build.metric, mechanism.inputs, mechanism.privacy_metric)


def _method(planned: str, lattice_only: bool) -> str:
    if planned == "closed-form":
        return "planar-laplace"
    return "lattice" if lattice_only else "auto"


def _numbers_of(some: Places, places: Places) -> list[int]:
    """Return the numbers of some places among others."""
    at = {tuple(point): i for i, point in enumerate(places.xy.tolist())}
    try:
        return [at[tuple(point)] for point in some.xy.tolist()]
    except KeyError:
        raise InputError("outputs must be some of the places to be described", "outputs") from None


Recipe = BuildSpec  # its name until version 0.1

__all__ = ["BuildOptions", "BuildSpec", "Recipe", "read_json"]
