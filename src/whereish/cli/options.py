"""The options that commands share, each declared once; and the options of a build from flags."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.models import OptionInfo

from whereish import limits
from whereish.cli.words import privacy_level
from whereish.errors import InputError
from whereish.format import load_metric
from whereish.mechanisms import MECHANISMS, method_names
from whereish.places import MapMetric
from whereish.solvers import SOLVERS

if TYPE_CHECKING:
    from whereish.spec import BuildOptions

BUILT, OUTPUT, PRIOR = "How it is built", "Output", "The prior"
_PRIVACY = "Privacy level"
_LEVEL = ("epsilon", "ratio", "within")
_SEARCH = ("dilation", "solver", "formulation", "tolerance")
# Fields of a build whose flag has another name: without the unit, or a better word.
_FLAGS = {"time_limit_s": "time_limit", "form": "formulation", "guarantee": "everywhere"}
# Flags that are no fields of a build and do not go with --everywhere, and why.
_NOT_EVERYWHERE = {
    "blur_with": "its lattice follows the points, which a blur does not hide",
    "how_far": "its lower bounds are always computed",
    "metric": "it is private by Euclidean distance",
}


def option(
    default: Any,
    text: str,
    panel: str | None = None,
    metavar: str | None = None,
    *names: str,
    choices: Iterable[str] | Callable[[], Iterable[str]] | None = None,
    **more: Any,
) -> Any:
    """Declare an option, as the default of a parameter of a command.

    Parameters
    ----------
    default
        Its value if it is not given; `...` if it is required.
    text, panel
        Its help, in which {names} stands for the choices, and the group of options in which the
        help shows it.
    metavar
        The word that stands for its value, if neither the type nor a tuple of choices says it.
    names
        Its names, if not that of the parameter.
    choices
        What the shell offers when somebody presses TAB: those that begin as typed. The names of a
        registry are given as a function, which is called then.
    """
    if metavar is None and isinstance(choices, tuple):
        metavar = "|".join(choices)

    def complete(incomplete: str) -> list[str]:
        offered = choices() if callable(choices) else choices or ()
        return [name for name in offered if name.startswith(incomplete)]

    made = typer.Option(
        default, *names, metavar=metavar, help=text, rich_help_panel=panel,
        autocompletion=None if choices is None else complete, **more,
    )  # fmt: skip
    if "{names}" in text:
        made.__class__ = _Listing
    return made


class _Listing(OptionInfo):
    """An option whose help lists the names of a registry, as they are when the help is shown."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != "help" or self.autocompletion is None:
            return found
        return str(found).format(names=", ".join(self.autocompletion("")))


def flag(name: str, text: str, panel: str | None = None, *, default: Any = False) -> Any:
    """Declare an option without a value, by its name as written: its opposite has no name."""
    return option(default, text, panel, None, name)


def output_option(
    text: str, metavar: str = "FILE", *, default: Any = ..., panel: str = OUTPUT
) -> Any:
    """Declare --output of a command, which is also -o."""
    return option(default, text, panel, metavar, "--output", "-o")


def argument(metavar: str | None, text: str, default: Any = ...) -> Any:
    """Declare an argument: the word that stands for it, its help; a default makes it optional."""
    return typer.Argument(default, metavar=metavar, help=text)


PROFILE = argument(
    "PROFILE", "CSV, JSON or Parquet with x_km,y_km,prior or lat,lon,prior; or GeoJSON regions."
)
MECHANISM = argument("MECHANISM", "The .whereish file of a mechanism.")
EPSILON = option(None, "Per km, like 1.07: docs/guides/which-epsilon.md.", _PRIVACY)
RATIO = option(None, "In words: reports at most this many times likelier", _PRIVACY)
WITHIN = option(None, "between two places this far apart, like 650m.", _PRIVACY, "LENGTH")
METHOD = option(  # the first one is the default
    "exact", "{names}.", BUILT, "NAME", choices=method_names, show_default=False
)
EVERYWHERE = flag("--everywhere", "Private between any two points, not only places.", BUILT)
BY_TIME = flag("--by-time", "One for each period of the day, by the clock.", BUILT)
TAPER = option(None, "One for each of N draws a day, of falling epsilon.", BUILT, "N")
VERTICES = option(
    None, f"With --everywhere: lattice size ({limits.VERTICES}). More lose less.", BUILT
)
DILATION = option(limits.DILATION, "Above 1: fewer constraints, more loss.", BUILT)
SOLVER = option(
    "auto", "auto, structured, or highs- or glpk- with ipm, dual-simplex or primal-simplex.", BUILT,
    "NAME", choices=SOLVERS,
)  # fmt: skip
TOLERANCE = option(limits.TOLERANCE, "Relative gap to reach.", BUILT)
TIME_LIMIT = option(None, "Stop then, with the best mechanism so far.", BUILT, "SECONDS")
CLUSTER_HELP = "Use a Ray cluster: auto, or HOST:PORT."
CLUSTER = option(None, CLUSTER_HELP, BUILT, "ADDRESS")
OTHER_PRIOR = option(None, "Take the prior from this profile of the same places.", PRIOR, "PROFILE")
NORMALISE = flag("--normalise", "Divide the prior by its sum.", PRIOR)
KEEP_PRIOR = flag("--keep-prior", "Write the prior and the proof of optimality as well.", PRIOR)
FORGET_PRIOR = option(
    False, "Leave the prior out of the file (the default).", PRIOR, None, "--forget-prior",
    hidden=True,  # it changes nothing
)  # fmt: skip
PRIOR_BLUR = option(0.0, "Mix in this share of a public prior.", PRIOR, "SHARE")
BLUR_WITH = option(
    None, "Public prior: uniform, or a PROFILE of these places.", PRIOR, "PRIOR",
    choices=["uniform"],
)  # fmt: skip
METRIC = option(None, "Private by this metric of whereish metric.", BUILT, "FILE")
MAP = option(None, "Draw this map of whereish map under the picture.", OUTPUT, "FILE", "--map")
AS_JSON = flag("--json", "Print JSON on standard output.")


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
    if "guarantee" in found:
        found["guarantee"] = written("everywhere"), "everywhere"
    return found


def read_options(flags: dict[str, Any]) -> BuildOptions:
    """Read the options of a build from flags alone, before any file is read.

    Raises
    ------
    InputError
        If no profile could make them right.
    """
    from whereish.spec import BuildOptions

    if "everywhere" in flags:
        check_everywhere_flags(flags)
    elif "vertices" in flags:
        raise InputError("--vertices must go with --everywhere")
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


def check_everywhere_flags(flags: dict[str, Any]) -> None:
    """Refuse flags that a mechanism for all points cannot follow.

    A cluster builds the mechanisms of many people, but not one of them: see ``cli/build.py``.
    """
    from whereish.spec import NOT_EVERYWHERE

    refused = {_FLAGS.get(field, field): why for field, why in NOT_EVERYWHERE.items()}
    for name, why in (refused | _NOT_EVERYWHERE).items():
        if name in flags:
            raise InputError(f"{written(name)} must be left out with --everywhere: {why}")


def read_metric(path: Path, within: str | None) -> MapMetric:
    """Read the metric of --metric; --within is a length, and not every metric has lengths."""
    if not path.exists():
        raise InputError(f"--metric must be a file that exists, got {path}")
    found = load_metric(path)
    if within is not None and not found.words.is_km:
        raise InputError(
            f"--within must be left out with the {found.kind} metric, which has no lengths: give "
            "--epsilon, and 1 means the requirement of the metric as it is"
        )
    return found


def is_field(flag: str) -> bool:
    """Whether a flag says something about the mechanism itself."""
    from whereish.spec import BuildOptions

    fields = {_FLAGS.get(name, name) for name in BuildOptions.model_fields}
    return flag in fields | {"forget_prior", *_LEVEL}


def written(name: str) -> str:
    """Return a parameter as it is written on the command line."""
    return "--" + name.replace("_", "-")
