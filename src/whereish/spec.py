"""One description of a mechanism to be built, for every door: library, command line, HTTP, batch.

A recipe is a JSON document: places, prior, level, metrics and method. It is validated here and
nowhere else. Places and priors are personal, so that no message about one repeats a number of it:
it names the field instead, like ``prior[3]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whereish.errors import InputError, SolveError
from whereish.mechanisms import METHODS, Mechanism, Plan, optimal, planar_laplace
from whereish.mechanisms.plan import expected_edges, plan
from whereish.places import Array, Places, discrete, geodesic, graph_metric, readonly
from whereish.places.validation import (
    LARGEST,
    LARGEST_EPSILON,
    MOST_PLACES,
    PRIOR_TOLERANCE,
    SMALLEST_EPSILON,
    as_distances,
    as_loss,
)
from whereish.profiles import blur_prior
from whereish.solvers import SOLVERS, Progress

RECIPE_METHODS = (*METHODS, "planar-laplace")
_GENERAL_BYTES = 450
# More lists than any recipe has: reading them would hold up everybody else.
_MOST_LISTS = 200_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
METRICS = {
    "privacy_metric": ("euclidean", "geodesic"),
    "quality_metric": ("euclidean", "geodesic", "discrete"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Recipe:
    """A mechanism to be built. Its repr shows nothing of where somebody lives.

    Attributes
    ----------
    places, prior, epsilon_per_km
        Where, how likely each place is, and how private (per unit of the metric, if that is not
        kilometres).
    method
        "exact", "closed-form" or "auto" as in `whereish.optimal`, or "planar-laplace" for the
        noise that the optimal one is compared with.
    keep_prior
        Whether the file holds the prior as well, and what was computed from it.
    prior_blur, blur_with
        The share of a public prior that is mixed in before it is built, see
        `whereish.blur_prior`, and that prior (uniform if None).
    """

    places: Places
    prior: Array
    epsilon_per_km: float
    dilation: float = 1.0
    method: str = "exact"
    solver: str = "auto"
    tolerance: float = 1e-6
    time_limit_s: float | None = None
    privacy_metric: Any = None
    quality_metric: Any = None
    outputs: tuple[int, ...] | None = None
    keep_prior: bool = False
    prior_blur: float = 0.0
    blur_with: Array | None = None

    def __repr__(self) -> str:
        return f"Recipe({len(self.places)} places, {self.method})"

    @classmethod
    def from_json(cls, text: bytes | str) -> Recipe:
        """Read a recipe from JSON, strictly: no NaN, no name twice.

        >>> Recipe.from_json('{"places": {"xy_km": [[0, 0], [1, 0]]}, "prior": [0.5, 0.5]}')
        Traceback (most recent call last):
        whereish.errors.InputError: epsilon_per_km must be given
        """
        return cls.from_document(read_json(text))

    @classmethod
    def from_document(cls, document: Any) -> Recipe:
        """Validate a recipe that was read from JSON.

        Raises
        ------
        InputError
            If it cannot be used; ``field`` says which part of it.
        """
        told = _object("a recipe", document, None, _FIELDS, ("places", "prior", "epsilon_per_km"))
        places = _places(told["places"])
        method = _one_of("method", told.get("method", "exact"), RECIPE_METHODS)
        recipe = cls(
            places,
            _prior(told["prior"], len(places)),
            _number("epsilon_per_km", told["epsilon_per_km"], SMALLEST_EPSILON, LARGEST_EPSILON),
            _number("dilation", told.get("dilation", 1.0), 1.0, 1e6),
            method,
            _one_of("solver", told.get("solver", "auto"), SOLVERS),
            _number("tolerance", told.get("tolerance", 1e-6), 1e-12, 1.0),
            _optional("time_limit_s", told.get("time_limit_s")),
            _metric("privacy_metric", told.get("privacy_metric"), places),
            _metric("quality_metric", told.get("quality_metric"), places),
            _outputs(told.get("outputs"), len(places)),
            _yes_or_no("keep_prior", told.get("keep_prior", False)),
            _number("prior_blur", told.get("prior_blur", 0.0), 0.0, 1.0),
            _public(told.get("blur_with"), len(places)),
        )
        if recipe.prior_blur and recipe.keep_prior:
            raise InputError(
                "prior_blur must be left out with keep_prior: a file that holds the prior tells it",
                "prior_blur",
            )
        if recipe.blur_with is not None and not recipe.prior_blur:
            raise InputError("blur_with must go with prior_blur, a share above 0", "blur_with")
        if method == "planar-laplace" and recipe.privacy_metric is not None:
            raise InputError(
                "privacy_metric must be left out with planar-laplace", "privacy_metric"
            )
        return recipe

    @property
    def built_for(self) -> Array:
        """The prior that the mechanism is best for: the blurred one."""
        return blur_prior(self.prior, self.prior_blur, self.blur_with)

    @property
    def quality(self) -> Array | None:
        """What loss is measured by, inputs by outputs; None for the distance in the plane."""
        metric = self._matrix("quality_metric")
        return metric if metric is None or self.outputs is None else metric[:, list(self.outputs)]

    @property
    def reports(self) -> int:
        """How many places may be reported."""
        return len(self.places) if self.outputs is None else len(self.outputs)

    def plan(self, memory_limit_gb: float = 8.0) -> Plan:
        """Say how it will be built, how long that takes and how much memory.

        Raises
        ------
        InputError
            If it does not fit into the memory: the message says what would.
        """
        n = len(self.places)
        edges = expected_edges(n, self.dilation, straight=self.privacy_metric is None)
        method = "closed-form" if self.method == "planar-laplace" else self.method
        try:
            made = plan(method, n, self.reports, edges, self.time_limit_s, memory_limit_gb)
        except SolveError as wrong:
            raise InputError(f"places must fit into the memory: {wrong}", "places") from None
        if made.method == "closed-form" or self.solver in ("auto", "structured"):
            return made
        # A general solver holds the whole program: measured at 50 to 300 places.
        memory = made.constraints * _GENERAL_BYTES / 1e9
        if memory > memory_limit_gb:
            raise InputError(
                f"solver {self.solver} needs about {memory:.2g} GB for {made.constraints:,} "
                f"constraints, and {memory_limit_gb:g} GB is allowed: take auto", "solver",
            )  # fmt: skip
        seconds = 10 * (made.constraints / 1e5) ** 1.5
        return replace(made, seconds=seconds, memory_gb=memory)

    def build(
        self,
        *,
        memory_limit_gb: float = 8.0,
        announce: Callable[[Plan], object] | None = None,
        progress: Callable[[Progress], object] | None = None,
    ) -> Mechanism:
        """Build the mechanism: the same one, whichever door the recipe came in by."""
        if self.method == "planar-laplace":
            return planar_laplace(self.places, self.epsilon_per_km, self.outputs)
        return optimal(
            self.places,
            self.built_for,
            self.epsilon_per_km,
            self.dilation,
            self._matrix("privacy_metric"),
            self._matrix("quality_metric"),
            self.outputs,
            self.solver,
            method=self.method,
            tolerance=self.tolerance,
            time_limit_s=self.time_limit_s,
            memory_limit_gb=memory_limit_gb,
            announce=announce,
            progress=progress,
        )

    def _matrix(self, field: str) -> Array | None:
        metric = getattr(self, field)
        if metric is None or metric == "euclidean":
            return None
        if metric == "geodesic":
            return geodesic(self.places)
        if metric == "discrete":
            return discrete(len(self.places))
        kind, numbers = metric
        if kind == "matrix":
            return np.asarray(numbers)
        try:
            return graph_metric(len(self.places), numbers[:, :2], numbers[:, 2])
        except InputError as wrong:
            raise InputError(str(wrong), f"{field}.edges") from None


def read_json(text: bytes | str) -> Any:
    """Read JSON as the standard has it: no NaN, no name twice, nothing without an end."""
    try:
        if isinstance(text, str):
            text = text.encode()
        _check_shape(text.translate(None, b" \t\r\n"))
        text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except InputError:
        raise
    except RecursionError:
        raise InputError("a recipe must not be nested as deeply as this one", "body") from None
    except UnicodeDecodeError:
        raise InputError("a recipe must be JSON in UTF-8", "body") from None
    except json.JSONDecodeError as wrong:
        where = f"line {wrong.lineno}, column {wrong.colno}"
        raise InputError(f"a recipe must be JSON: it stops being so at {where}", "body") from None
    except ValueError:
        raise InputError("a recipe's whole numbers must have fewer digits", "body") from None


def _check_shape(text: bytes) -> None:
    """Refuse, before it is read, what is no recipe but would take long to read."""
    if b"[[[" in text or text.count(b"[]") > 20 or text.count(b"{}") > 20:
        raise InputError("a recipe must not be lists in lists in lists, or empty ones", "body")
    if text.count(b"[") > _MOST_LISTS or text.count(b"{") > _MOST_LISTS:
        raise InputError(f"a recipe must have at most {_MOST_LISTS:,} lists", "body")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{_echo(name)} must be given once, and it is twice", _echo(name))
        found[name] = value
    return found


def _no_constant(word: str) -> Any:
    raise InputError(f"a recipe must be JSON, which knows no {word}", "body")


def _echo(name: str) -> str:
    """Repeat a name if it is one, and not a number or a text that somebody sent."""
    return name if _NAME.fullmatch(name) else "a name"


def _object(
    what: str, value: Any, field: str | None, known: tuple[str, ...], needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{what} must be an object, got {_kind(value)}", field or "body")
    prefix = f"{field}." if field else ""
    for name in value:
        if name not in known:
            some = f"{prefix}{_echo(name)}"
            raise InputError(f"{some} is not known: {what} may have {', '.join(known)}", some)
    for name in needed:
        if name not in value:
            raise InputError(f"{prefix}{name} must be given", f"{prefix}{name}")
    return value


def _kind(value: Any) -> str:
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "true or false"), (int | float, "a number"), (str, "a text"), (list, "a list"),
        (dict, "an object"), (type(None), "null"),
    )  # fmt: skip
    return next(word for kind, word in kinds if isinstance(value, kind))


def _number(field: str, value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{field} must be a number, got {_kind(value)}", field)
    # Levels and limits are not personal: they may be repeated.
    if not least <= value <= most:
        shown = f"{value:g}" if abs(value) < LARGEST_EPSILON * 1e9 else "one that is too large"
        raise InputError(f"{field} must be from {least:g} to {most:g}, got {shown}", field)
    return float(value)


def _optional(field: str, value: Any) -> float | None:
    return None if value is None else _number(field, value, 0.001, 86_400.0)


def _yes_or_no(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{field} must be true or false, got {_kind(value)}", field)
    return value


def _one_of(field: str, value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{field} must be one of {', '.join(known)}", field)
    return value


def _numbers(field: str, value: Any, width: int | None, least: int, most: int) -> Array:
    """Read a list of numbers, or of rows of so many of them."""
    if not isinstance(value, list):
        raise InputError(f"{field} must be a list, got {_kind(value)}", field)
    if not least <= len(value) <= most:
        items = (
            f"{least:,} to {most:,} items" if least < most else f"{most:,} item{'s' * (most != 1)}"
        )
        raise InputError(f"{field} must have {items}, got {len(value):,}", field)
    for i, row in enumerate(value):
        if width is not None:
            if not isinstance(row, list) or len(row) != width:
                raise InputError(f"{field}[{i}] must be {width} numbers", f"{field}[{i}]")
            for j, item in enumerate(row):
                if type(item) is not float and type(item) is not int:
                    _not_a_number(f"{field}[{i}][{j}]", item)
        elif type(row) is not float and type(row) is not int:
            _not_a_number(f"{field}[{i}]", row)
    try:
        array = np.array(value, dtype=np.float64)
    except (OverflowError, ValueError, TypeError):
        array = np.full((1, 1), np.inf)
    if not (np.abs(array) <= LARGEST).all():
        raise InputError(f"{field} must be numbers of at most {LARGEST:g}", field)
    return array


def _not_a_number(field: str, value: Any) -> None:
    raise InputError(f"{field} must be a number, got {_kind(value)}", field)


def _places(value: Any) -> Places:
    told = _object("places", value, "places", ("xy_km", "latlon", "cell_km"))
    given = [name for name in ("xy_km", "latlon") if name in told]
    if len(given) != 1:
        raise InputError("places must have xy_km or latlon, and not both", "places")
    field = f"places.{given[0]}"
    points = _numbers(field, told[given[0]], 2, 2, MOST_PLACES)
    if given[0] == "latlon":
        outside = np.abs(points) > (90, 180)
        if outside.any():
            i, j = (int(k) for k in np.argwhere(outside)[0])
            what = ("latitude must be from -90 to 90", "longitude must be from -180 to 180")[j]
            raise InputError(f"{field}[{i}]: {what} degrees", f"{field}[{i}]")
    try:
        places = Places.from_latlon(points) if given[0] == "latlon" else Places.from_xy(points)
    except InputError as wrong:
        # Which two are the same may be said, but not where they are.
        same = re.search(r"but (\d+) and (\d+) are both", str(wrong))
        said = f", but {same[1]} and {same[2]} are the same" if same else ""
        must = "must lie in one region of the earth, and differ by a millimetre"
        raise InputError(f"{field} {must}{said}", field) from None
    cell = told.get("cell_km")
    if cell is None:
        return places
    sides = _numbers("places.cell_km", cell, None, 2, 2)
    if not (sides > 0).all():
        raise InputError(
            "places.cell_km must be positive, width and height in km", "places.cell_km"
        )
    return Places(places.xy, places.latlon, places.plane, (float(sides[0]), float(sides[1])))


def _prior(value: Any, n: int, name: str = "prior") -> Array:
    prior = _numbers(name, value, None, 1, MOST_PLACES)
    if len(prior) != n:
        raise InputError(
            f"{name} must have a number for each of {n} places, got {len(prior)}", name
        )
    if (prior < 0).any():
        field = f"{name}[{int(np.argmax(prior < 0))}]"
        raise InputError(f"{field} must not be negative", field)
    if not abs(float(prior.sum()) - 1) <= PRIOR_TOLERANCE:
        raise InputError(f"{name} must sum to 1: divide it by its sum", name)
    return readonly(prior)


def _public(value: Any, n: int) -> Array | None:
    return None if value is None or value == "uniform" else _prior(value, n, "blur_with")


def _metric(field: str, value: Any, places: Places) -> Any:
    if value is None or isinstance(value, str):
        name = None if value is None else _one_of(field, value, METRICS[field])
        if name == "geodesic" and places.latlon is None:
            raise InputError(f"{field} geodesic must have places.latlon to go with", field)
        return None if name == "euclidean" else name
    told = _object(field, value, field, ("matrix", "edges"))
    if len(told) != 1:
        raise InputError(f"{field} must have matrix or edges, and not both", field)
    n = len(places)
    if "matrix" in told:
        return "matrix", readonly(_distances(field, told["matrix"], n))
    rows = _numbers(f"{field}.edges", told["edges"], 3, 1, MOST_PLACES**2)
    wrong = ((rows[:, :2] != np.floor(rows[:, :2])) | (rows[:, :2] < 0) | (rows[:, :2] >= n)).any(1)
    wrong |= rows[:, 2] <= 0
    if wrong.any():
        some = f"{field}.edges[{int(np.argmax(wrong))}]"
        raise InputError(f"{some} must be two place numbers below {n} and a positive length", some)
    return "edges", readonly(rows)


def _distances(metric: str, value: Any, n: int) -> Array:
    """Read a matrix, and check what can be checked at once; the triangle inequality takes long."""
    field = f"{metric}.matrix"
    matrix = _numbers(field, value, n, n, n)
    try:
        if metric == "privacy_metric":
            return as_distances(field, matrix, n)
        return as_loss(field, matrix, n, n, same=True)
    except InputError as wrong:
        raise InputError(str(wrong), field) from None


def _outputs(value: Any, n: int) -> tuple[int, ...] | None:
    if value is None:
        return None
    chosen = _numbers("outputs", value, None, 1, n)
    if (chosen != np.floor(chosen)).any() or (chosen < 0).any() or (chosen >= n).any():
        raise InputError(f"outputs must be place numbers from 0 to {n - 1}", "outputs")
    if len(set(chosen.tolist())) < len(chosen):
        raise InputError("outputs must be different places", "outputs")
    return tuple(int(i) for i in chosen)


_FIELDS = (
    "places", "prior", "epsilon_per_km", "dilation", "method", "solver", "tolerance",
    "time_limit_s", "privacy_metric", "quality_metric", "outputs", "keep_prior",
    "prior_blur", "blur_with",
)  # fmt: skip
