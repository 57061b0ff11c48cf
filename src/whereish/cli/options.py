"""The options that commands share, each declared once; and the options of a build from flags."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whereish.cli.completion import one_of
from whereish.cli.words import privacy_level
from whereish.errors import InputError
from whereish.mechanisms import method_names
from whereish.places import metric_names
from whereish.solvers import FORMS, SOLVERS

if TYPE_CHECKING:
    from whereish.spec import BuildOptions

_PRIVACY, _SEARCH, _PRIOR = "Privacy level", "The search", "The prior"
_LEVEL = ("epsilon", "ratio", "within")
# Fields of a build whose flag has another name: without the unit, or a better word.
_FLAGS = {"time_limit_s": "time_limit", "form": "formulation"}


def _option(words: str, panel: str | None = None, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=words, rich_help_panel=panel, **more)


def _choice(
    words: str, names: Callable[[], tuple[str, ...]], panel: str, metavar: str, *decls: str
) -> Any:
    """Declare an option that is one of some names: they stand in the help and complete."""
    return _option(
        f"{words}: {', '.join(names())}.", panel, *decls,
        metavar=metavar, autocompletion=lambda incomplete: one_of(names())(incomplete),
    )  # fmt: skip


ProfileFile = Annotated[
    Path,
    typer.Argument(
        metavar="PROFILE",
        help="CSV, JSON or Parquet with x_km,y_km,prior or lat,lon,prior; or GeoJSON regions.",
    ),
]
ProfileOrSpec = Annotated[
    Path,
    typer.Argument(
        metavar="PROFILE|RECIPE",
        help="A profile (CSV, JSON, Parquet, GeoJSON), or a recipe as the service takes it (JSON).",
    ),
]
MechanismFile = Annotated[
    Path, typer.Argument(metavar="MECHANISM", help="The .whereish file of a mechanism.")
]
OtherPrior = Annotated[
    Path | None,
    _option("Take the prior from this profile of the same places.", _PRIOR, metavar="PROFILE"),
]
Epsilon = Annotated[float | None, _option("Privacy level per km, like 1.07.", _PRIVACY)]
Ratio = Annotated[
    float | None, _option("In words: reports at most this many times likelier ...", _PRIVACY)
]
Within = Annotated[
    str | None,
    _option("... between places this far apart, like 650m.", _PRIVACY, metavar="LENGTH"),
]
Dilation = Annotated[
    float, _option("1 is exact; more means fewer constraints, slightly more loss.", _SEARCH)
]
Solver = Annotated[str, _choice("One of", lambda: SOLVERS, _SEARCH, "SOLVER")]
Form = Annotated[
    str | None,
    _choice("Solve the linear program or its dual", lambda: FORMS, _SEARCH, "FORM"),
]
Method = Annotated[str, _choice("Which mechanism", method_names, _SEARCH, "METHOD")]
AdversaryMetric = Annotated[
    str,
    _choice(
        "The error that the adversary minimises", lambda: metric_names("adversary"),
        "What is measured", "METRIC",
    ),
]  # fmt: skip
Tolerance = Annotated[float, _option("Relative gap to the optimum that is near enough.", _SEARCH)]
TimeLimit = Annotated[
    float | None,
    _option("Seconds to take: then the best so far is what you get.", _SEARCH),
]
MemoryLimit = Annotated[float, _option("Gigabytes that an exact solve may take.", _SEARCH)]
Cluster = Annotated[
    str | None,
    _option(
        "A Ray cluster whose machines solve it together: auto, or its HOST:PORT.", _SEARCH,
        metavar="ADDRESS",
    ),
]  # fmt: skip
Normalise = Annotated[bool, _option("Divide the prior by its sum.", _PRIOR, "--normalise")]
KeepPrior = Annotated[
    bool,
    _option(
        "Keep the prior in the file, with the proof of how good it is.", _PRIOR, "--keep-prior"
    ),
]
ForgetPrior = Annotated[
    bool, _option("Leave the prior out of the file: the default.", _PRIOR, "--forget-prior")
]
PriorBlur = Annotated[
    float,
    _option(
        "Build for a prior with this share, 0 to 1, of a public one mixed in.", _PRIOR,
        metavar="SHARE",
    ),
]  # fmt: skip
BlurWith = Annotated[
    str | None,
    _option(
        "The public prior: uniform (the default), or a PROFILE of the same places.", _PRIOR,
        metavar="PRIOR",
    ),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


def given_flags(context: typer.Context) -> dict[str, Any]:
    """Return the parameters that were given on the command line, not left to their defaults."""
    told = {}
    for name, value in context.params.items():
        source = context.get_parameter_source(name)
        if source is not None and not source.name.startswith("DEFAULT"):
            told[name] = value
    return told


def flag_fields(flags: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Translate flags into fields of a build: for each field, the flags as written, and its value.

    The map is derived from the fields of `BuildOptions`. Three flags say one field, the privacy
    level; --forget-prior is the opposite of --keep-prior; --blur-with may name a file, and is left
    to the caller.
    """
    from whereish.spec import BuildOptions

    if flags.get("keep_prior") and flags.get("forget_prior"):
        raise InputError("give --keep-prior or --forget-prior (the default), not both")
    found: dict[str, tuple[str, Any]] = {}
    level = [name for name in _LEVEL if name in flags]
    if level:
        value = privacy_level(*(flags.get(name) for name in _LEVEL))
        found["epsilon_per_km"] = " and ".join(map(written, level)), value
    if "forget_prior" in flags:
        found["keep_prior"] = "--forget-prior", not flags["forget_prior"]
    for field in BuildOptions.model_fields:
        flag = _FLAGS.get(field, field)
        if flag in flags and field != "blur_with":
            found[field] = written(flag), flags[flag]
    return found


def read_options(flags: dict[str, Any]) -> BuildOptions:
    """Read the options of a build from flags alone, before any file is read.

    Raises
    ------
    InputError
        If no profile could make them right.
    """
    from whereish.spec import BuildOptions

    if not any(name in flags for name in _LEVEL):
        privacy_level(None, None, None)  # says what is needed
    options = BuildOptions(**{name: value for name, (_, value) in flag_fields(flags).items()})
    if "blur_with" in flags and not options.prior_blur:
        raise InputError("--blur-with must go with --prior-blur, like --prior-blur 0.3")
    return options


def is_field(flag: str) -> bool:
    """Whether a flag says something about the mechanism itself."""
    from whereish.spec import BuildOptions

    fields = {_FLAGS.get(name, name) for name in BuildOptions.model_fields}
    return flag in fields | {"forget_prior", *_LEVEL}


def written(name: str) -> str:
    """Return a parameter as it is written on the command line."""
    return "--" + name.replace("_", "-")
