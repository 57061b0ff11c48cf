"""The options that several commands share, each declared once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from whereish.cli.completion import one_of
from whereish.errors import InputError
from whereish.mechanisms import METHODS
from whereish.solvers import FORMS, SOLVERS, check_solver

_LEVEL, _BUILT, _PRIOR = "Privacy level", "How it is built", "The prior"

ProfileFile = Annotated[
    Path,
    typer.Argument(
        metavar="PROFILE",
        help="CSV, JSON or Parquet with x_km,y_km,prior or lat,lon,prior; or GeoJSON regions.",
    ),
]
ProfileOrRecipe = Annotated[
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
    float | None, typer.Option(help="Epsilon per km, like 1.07.", rich_help_panel=_LEVEL)
]
Ratio = Annotated[
    float | None,
    typer.Option(
        help="In words: reports at most this many times likelier",
        rich_help_panel=_LEVEL,
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTH",
        help="between two places this far apart, like 650m.",
        rich_help_panel=_LEVEL,
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
        "--formulation",
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
        help=", ".join(METHODS) + ". auto: exact if it fits.",
        autocompletion=one_of(METHODS),
        rich_help_panel=_BUILT,
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


def check_options(
    dilation: float, solver: str, form: str | None, time_limit: float | None = None
) -> None:
    """Refuse what no profile could make right before anything is read or said."""
    check_solver(solver, form, time_limit)
    if not dilation >= 1 or not math.isfinite(dilation):
        raise InputError(f"dilation must be at least 1, got {dilation:g}")
