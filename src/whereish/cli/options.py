"""The options that several commands share, each declared once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from whereish.errors import InputError
from whereish.mechanisms import METHODS
from whereish.solvers import FORMS, SOLVERS, check_solver

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
        help="A profile (CSV, JSON, Parquet, GeoJSON), or a recipe as the service takes it (JSON).",
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
        rich_help_panel="The prior",
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Privacy level per km, like 1.07.")]
Ratio = Annotated[
    float | None, typer.Option(help="In words: reports at most this many times likelier ...")
]
Within = Annotated[str | None, typer.Option(help="... between places this far apart, like 650m.")]
Dilation = Annotated[
    float, typer.Option(help="1 is exact; more means fewer constraints, slightly more loss.")
]
Solver = Annotated[str, typer.Option(help="One of: " + ", ".join(SOLVERS) + ".")]
Form = Annotated[
    str | None, typer.Option(help="Solve the program (primal) or its dual: " + ", ".join(FORMS))
]
TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds to take: then the best so far is what you get.")
]
Method = Annotated[
    str, typer.Option(help="One of: " + ", ".join(METHODS) + ". auto: exact if that will fit.")
]
Tolerance = Annotated[float, typer.Option(help="How near to the optimum is near enough.")]
MemoryLimit = Annotated[float, typer.Option(help="Gigabytes an exact solve may take.")]
Cluster = Annotated[
    str | None,
    typer.Option(help="A Ray cluster whose machines solve it together: auto, or its HOST:PORT."),
]
Normalise = Annotated[bool, typer.Option("--normalise", help="Divide the prior by its sum.")]
KeepPrior = Annotated[
    bool,
    typer.Option(
        "--keep-prior", help="Keep the prior in the file, with the proof of how good it is."
    ),
]
ForgetPrior = Annotated[
    bool, typer.Option("--forget-prior", help="Leave the prior out of the file: the default.")
]
PriorBlur = Annotated[
    float,
    typer.Option(help="Build for a prior with this share, 0 to 1, of a public one mixed in."),
]
BlurWith = Annotated[
    str | None,
    typer.Option(help="The public prior: uniform (the default), or a PROFILE of the same places."),
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
