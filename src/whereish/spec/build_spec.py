"""The one description of a build: for the library, the command line, HTTP and batch.

`BuildOptions` says how to build; `BuildSpec` adds for whom: places and prior. Both are read from a
JSON document, from flags or from Python, and validated here and nowhere else. The JSON Schema in
OpenAPI is generated from the fields below. Places and priors are personal, so that no message
repeats a number of them: it names the field instead, like ``prior[3]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import ConfigDict, model_validator

from whereish import limits
from whereish.errors import InputError
from whereish.everywhere import (
    AnyMechanism,
    check_points,
    expected_loss,
)
from whereish.everywhere.search import OUTPUTS
from whereish.measures import quality_loss
from whereish.mechanisms import MECHANISMS, Mechanism, Plan, method_names
from whereish.places import Array, MapMetric, Places, documents, named_metric
from whereish.profiles import blur_prior
from whereish.solvers import FORMS, SOLVERS, Progress
from whereish.spec.building import EVERYWHERE, GUARANTEES, PLACES, build_of, plan_of
from whereish.spec.fields import (
    PLACES_READER,
    PRIOR_READER,
    about,
    methods,
    metric_of,
    numbers_of,
    of_places,
    read_metric,
    within,
)
from whereish.validated import Validated, one_of, or_none

_WHOLE_DAY = (
    "a recipe, the service and a batch build one mechanism for the whole day; whereish build "
    "PROFILE --by-time builds one for each period"
)


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
        within(limits.SMALLEST_EPSILON, limits.LARGEST_EPSILON),
        about("Privacy level: ln(2) / 0.65 means twice as likely, at most, at 650 m."),
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
        within(limits.LEAST_VERTICES, limits.MOST_VERTICES),
        about(
            f"The most vertices of the lattice; {limits.VERTICES} if null. More lose less and "
            "take longer. With guarantee everywhere."
        ),
    ] = None
    lattice_only: Annotated[
        bool,
        about(
            "Whether to return the lattice even if planar Laplace, which has the same guarantee, "
            "loses less: the time of a draw from a lattice does not depend on the report. With "
            "guarantee everywhere."
        ),
    ] = False
    dilation: Annotated[
        float,
        within(limits.SMALLEST_DILATION, limits.LARGEST_DILATION),
        about("1 is exact; more means fewer constraints and slightly more loss."),
    ] = limits.DILATION
    method: Annotated[str, one_of(method_names, methods)] = "exact"
    solver: Annotated[
        str,
        one_of(lambda: SOLVERS),
        about("auto: structured, or highs for the smallest programs."),
    ] = "auto"
    form: Annotated[
        str | None,
        or_none(one_of(lambda: FORMS)),
        about("Solve the linear program (primal) or its dual; null: the faster one."),
    ] = None
    tolerance: Annotated[
        float,
        within(limits.SMALLEST_TOLERANCE, limits.LARGEST_TOLERANCE),
        about("How near to the optimum is near enough, relatively."),
    ] = limits.TOLERANCE
    time_limit_s: Annotated[
        float | None,
        within(limits.SHORTEST_S, limits.LONGEST_S),
        about("Seconds to take: then the best so far is what you get."),
    ] = None
    keep_prior: Annotated[
        bool, about("Whether the file holds the prior, and what was computed from it.")
    ] = False
    prior_blur: Annotated[
        float,
        within(0.0, 1.0),
        about("Share of a public prior that is mixed in. Not with keep_prior."),
    ] = 0.0
    blur_with: Annotated[
        Any,
        or_none(PRIOR_READER, ("uniform",)),
        about("The public prior; uniform if null. With prior_blur."),
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
        PLACES_READER,
        about("Where the person may be: in degrees, or in km in a plane."),
    ]
    prior: Annotated[
        Any,
        of_places(documents.read_prior, documents.prior_schema),
        about(
            "How likely each place is: as many numbers as places, with sum 1. It is never kept "
            "longer than the build takes, nor written to a log."
        ),
    ]
    privacy_metric: Annotated[
        Any,
        of_places(read_metric, lambda: documents.metric_schema("privacy")),
        about("What privacy is measured by; Euclidean distance if null."),
    ] = None
    quality_metric: Annotated[
        Any,
        of_places(read_metric, lambda: documents.metric_schema("quality")),
        about("What loss is measured by; Euclidean distance if null."),
    ] = None
    outputs: Annotated[
        Any,
        or_none(of_places(documents.read_outputs, documents.outputs_schema)),
        about("Numbers of the places that may be reported; all places if null."),
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
            "privacy_metric": metric_of(mechanism),
            "outputs": None if same else numbers_of(mechanism.outputs, mechanism.inputs),
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
        metric: Array | None = self.distances("quality_metric")
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
        return plan_of(self, memory_limit_gb)

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
        return build_of(self, memory_limit_gb, announce, progress, stage, cluster)

    def loss_of(self, mechanism: AnyMechanism) -> float:
        """Return the expected quality loss of a mechanism for this person, in km."""
        if isinstance(mechanism, Mechanism):
            return quality_loss(mechanism, self.prior, self.quality)
        return expected_loss(mechanism, self.places, self.prior, normalise=True)

    def distances(self, field: str) -> Any:
        """Return the metric of a field as a constructor takes it; None for the plane's."""
        metric = getattr(self, field)
        if isinstance(metric, MapMetric):
            return metric  # the constructor takes its distances, and its name
        if isinstance(metric, documents.GivenMetric):
            return metric.distances(field, self.places)
        return named_metric(metric, self.places)


Recipe = BuildSpec  # its name until version 0.1
