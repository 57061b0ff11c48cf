"""The options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whereish.cli.words import privacy_level
from whereish.errors import InputError
from whereish.mechanisms import method_names
from whereish.places import metric_names
from whereish.solvers import FORMS, SOLVERS

if TYPE_CHECKING:
    from whereish.spec import BuildOptions

LEVEL = {"epsilon", "ratio", "within"}


def choices(names: Callable[[], tuple[str, ...]]) -> Callable[[str], list[str]]:
    """Return what completes a choice in the shell, like ``--solver h<TAB>``."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _of(words: str, names: Callable[[], tuple[str, ...]]) -> Any:
    """Declare an option that is one of some names: they stand in the help and complete."""
    return typer.Option(help=f"{words}: {', '.join(names())}.", autocompletion=choices(names))


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
Solver = Annotated[str, _of("One of", lambda: SOLVERS)]
Form = Annotated[str | None, _of("Solve the program (primal) or its dual", lambda: FORMS)]
TimeLimit = Annotated[
    float | None, typer.Option(help="Seconds to take: then the best so far is what you get.")
]
Method = Annotated[str, _of("One of", method_names)]
AdversaryMetric = Annotated[
    str, _of("What the adversary minimises", lambda: metric_names("adversary"))
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


def flag_of(name: str) -> str:
    """Return a parameter as it is written on the command line."""
    return "--" + name.replace("_", "-")


def option_fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Translate the flags that were given into fields of a `BuildOptions`.

    A flag has the name of its field without the unit. Three flags make one field, the privacy
    level; --forget-prior is the opposite of --keep-prior; --blur-with is a file, and is read later.
    """
    from whereish.spec import BuildOptions

    fields = {
        name: flags[flag]
        for name in BuildOptions.model_fields
        if (flag := name.removesuffix("_s")) in flags and name != "blur_with"
    }
    if LEVEL & flags.keys():
        level = (flags.get(name) for name in ("epsilon", "ratio", "within"))
        fields["epsilon_per_km"] = privacy_level(*level)
    if flags.get("keep_prior") and flags.get("forget_prior"):
        raise InputError("give --keep-prior or --forget-prior (the default), not both")
    if "forget_prior" in flags:
        fields["keep_prior"] = not flags["forget_prior"]
    return fields


def read_options(flags: dict[str, Any]) -> BuildOptions:
    """Read the options of a build from flags alone.

    Raises
    ------
    InputError
        If they cannot be used, whatever the profile is.
    """
    from whereish.spec import BuildOptions

    if not LEVEL & flags.keys():
        privacy_level(None, None, None)  # says what is needed
    options = BuildOptions(**option_fields(flags))
    if "blur_with" in flags and not options.prior_blur:
        raise InputError("--blur-with must go with --prior-blur, like --prior-blur 0.3")
    return options
