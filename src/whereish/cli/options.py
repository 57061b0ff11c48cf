"""The options that commands share, each declared once; and the options of a build from flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whereish.cli.completion import one_of
from whereish.cli.words import privacy_level
from whereish.errors import InputError
from whereish.mechanisms import MECHANISMS, method_names
from whereish.places import metric_names
from whereish.solvers import FORMS, SOLVERS

if TYPE_CHECKING:
    from whereish.spec import BuildOptions

_PRIVACY, _BUILT, _PRIOR = "Privacy level", "How it is built", "The prior"
_LEVEL = ("epsilon", "ratio", "within")
_SEARCH = ("dilation", "solver", "formulation", "tolerance")
# Fields of a build whose flag has another name: without the unit, or a better word.
_FLAGS = {"time_limit_s": "time_limit", "form": "formulation"}

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
        help="Profile (CSV, JSON, Parquet, GeoJSON) or JSON recipe.",
    ),
]
MechanismFile = Annotated[
    Path, typer.Argument(metavar="MECHANISM", help="The .whereish file of a mechanism.")
]
OtherPrior = Annotated[
    Path | None,
    typer.Option(
        metavar="PROFILE",
        help="Take the prior from this profile of the same places.",
        rich_help_panel=_PRIOR,
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Epsilon per km, like 1.07.", rich_help_panel=_PRIVACY)
]
Ratio = Annotated[
    float | None,
    typer.Option(
        help="In words: reports at most this many times likelier",
        rich_help_panel=_PRIVACY,
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help="between two places this far apart, like 650m.",
        rich_help_panel=_PRIVACY,
    ),
]
Dilation = Annotated[
    float,
    typer.Option(help="Above 1: fewer constraints, more loss.", rich_help_panel=_BUILT),
]
Solver = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, structured, or highs- or glpk- with ipm, dual-simplex or primal-simplex.",
        autocompletion=one_of(SOLVERS),
        rich_help_panel=_BUILT,
    ),
]
Form = Annotated[
    str | None,
    typer.Option(
        metavar="FORM",
        help="Solve the linear program (primal) or its dual (dual).",
        autocompletion=one_of(FORMS),
        rich_help_panel=_BUILT,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Stop then, with the best mechanism so far.",
        rich_help_panel=_BUILT,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=", ".join(method_names()) + ".",
        autocompletion=one_of(method_names),
        rich_help_panel=_BUILT,
    ),
]
AdversaryMetric = Annotated[
    str,
    typer.Option(
        metavar="METRIC",
        help="The error that the adversary minimises: "
        + ", ".join(metric_names("adversary"))
        + ".",
        autocompletion=one_of(lambda: metric_names("adversary")),
        rich_help_panel="What is measured",
    ),
]
Tolerance = Annotated[float, typer.Option(help="Relative gap to reach.", rich_help_panel=_BUILT)]
MemoryLimit = Annotated[
    float,
    typer.Option(metavar="GB", help="Memory that an exact solve may use.", rich_help_panel=_BUILT),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Use a Ray cluster: auto, or HOST:PORT.", rich_help_panel=_BUILT
    ),
]
Normalise = Annotated[
    bool,
    typer.Option("--normalise", help="Divide the prior by its sum.", rich_help_panel=_PRIOR),
]
KeepPrior = Annotated[
    bool,
    typer.Option(
        "--keep-prior",
        help="Write the prior and the proof of optimality as well.",
        rich_help_panel=_PRIOR,
    ),
]
ForgetPrior = Annotated[
    bool,
    typer.Option(
        "--forget-prior",
        help="Leave the prior out of the file (the default).",
        rich_help_panel=_PRIOR,
    ),
]
PriorBlur = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Mix in this share of a public prior.",
        rich_help_panel=_PRIOR,
    ),
]
BlurWith = Annotated[
    str | None,
    typer.Option(
        metavar="PRIOR",
        help="Public prior: uniform, or a PROFILE of these places.",
        autocompletion=one_of(("uniform",)),
        rich_help_panel=_PRIOR,
    ),
]
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
    check_search_flags(flags, options.method)
    return options


def check_search_flags(flags: dict[str, Any], method: str) -> None:
    """Refuse flags about a search where there is none: they would be ignored."""
    for name in _SEARCH:
        if name in flags and not MECHANISMS[method].uses_solver:
            raise InputError(
                f"{written(name)} must be left out with method {method}, which needs no solver"
            )


def is_field(flag: str) -> bool:
    """Whether a flag says something about the mechanism itself."""
    from whereish.spec import BuildOptions

    fields = {_FLAGS.get(name, name) for name in BuildOptions.model_fields}
    return flag in fields | {"forget_prior", *_LEVEL}


def written(name: str) -> str:
    """Return a parameter as it is written on the command line."""
    return "--" + name.replace("_", "-")
