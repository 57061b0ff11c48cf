"""The commands: each reads, calls the library once, and says what came of it."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import whereish as wh
from whereish.cli.console import EXIT_INTERRUPTED, command, console, emit, say, waiting
from whereish.cli.prior import (
    Blurred,
    check_prior_flags,
    load_with_prior,
    public_prior,
    say_what_it_tells,
)
from whereish.cli.reading import read_who
from whereish.cli.recipe import build_recipe, given_flags, recipe_in
from whereish.cli.report import (
    Watch,
    comparison_table,
    facts_of,
    say_mechanism,
    say_problems,
    say_profile,
)
from whereish.cli.words import length_km, level_in_words, privacy_level
from whereish.errors import InputError
from whereish.files import check_writable, write_whole
from whereish.format import is_mechanism_file
from whereish.mechanisms import METHODS, check_places
from whereish.places import Array, as_number
from whereish.plotting import KINDS, draw_mechanism, draw_profile, km, picture_kind
from whereish.programs import least_loss_size
from whereish.solvers import FORMS, SOLVERS, Progress, check_solver
from whereish.studies import Row
from whereish.studies import compare as compare_mechanisms

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
_LONG = 20.0
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@command
def build(
    context: typer.Context,
    profile: ProfileOrRecipe,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the mechanism goes.")],
    epsilon: Epsilon = None,
    ratio: Ratio = None,
    within: Within = None,
    dilation: Dilation = 1.0,
    solver: Solver = "auto",
    form: Form = None,
    method: Method = "exact",
    tolerance: Tolerance = 1e-6,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = 8.0,
    cluster: Cluster = None,
    how_far: Annotated[
        bool,
        typer.Option("--how-far", help="Of a closed form: work out how far from optimal it is."),
    ] = False,
    normalise: Normalise = False,
    keep_prior: KeepPrior = False,
    forget_prior: ForgetPrior = False,
    prior_blur: PriorBlur = 0.0,
    blur_with: BlurWith = None,
    user: Annotated[
        str | None, typer.Option(help="Whose profile, of a table of several people's.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw it as well: a .png, .pdf or .svg file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the private mechanism that loses the least quality, and write it to a file.

    Ctrl-C ends the search with the best mechanism so far, which is written (exit code 130). Twice,
    it leaves without a file. Beside a recipe, a flag replaces the recipe's field of that name, and
    is refused where there is none.
    """
    if (recipe := recipe_in(profile)) is not None:
        build_recipe(
            recipe, given_flags(context), profile, output, picture,
            as_json=as_json, memory_limit=memory_limit, how_far=how_far,
        )  # fmt: skip
        return
    watch = Watch()
    check_prior_flags(keep_prior, forget_prior, prior_blur, blur_with)
    level = privacy_level(epsilon, ratio, within)
    _check_options(dilation, solver, form, time_limit)
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    as_number("tolerance", tolerance)
    as_number("memory-limit", memory_limit, unit="GB")
    check_writable(output)
    if picture is not None:
        picture_kind(picture)
    if output.exists() and profile.exists() and output.samefile(profile):
        raise InputError(f"output must not be the profile itself, got {output} for both")
    who = read_who(profile, normalise=normalise, user=user)
    check_places(who.places)
    public = public_prior(blur_with, who, normalise)
    say_profile(who)
    say(level_in_words(level))

    def solve(prior: Array) -> wh.Mechanism:
        return _optimal(
            wh.Profile(who.places, prior), level, dilation, solver,
            method=method, form=form, tolerance=tolerance, time_limit_s=time_limit,
            memory_limit_gb=memory_limit, cluster=cluster,
        )  # fmt: skip

    mechanism = solve(wh.blur_prior(who.prior, prior_blur, public))
    blurred = Blurred.of(mechanism, who.prior, solve) if prior_blur else None
    if blurred is not None:
        mechanism = blurred.mechanism
    if how_far and mechanism.proof is None:
        with waiting("working out how far from optimal it is") as tell:
            mechanism = wh.how_far(
                mechanism, who.prior, time_limit_s=time_limit,
                progress=lambda done, all_: tell(f"part {done + 1} of {all_}", done / all_),
            )  # fmt: skip
    wh.save_mechanism(output, mechanism, who.prior if keep_prior else None)
    facts = facts_of(mechanism, who.prior)
    say_mechanism(mechanism, facts)
    if blurred is not None:
        facts |= {"prior_blur": prior_blur, "blur_cost_km": blurred.cost_km}
        say(blurred.in_words(prior_blur))
    kept = "with the prior, readable by you only" if keep_prior else "without the prior"
    say_what_it_tells(mechanism, keep_prior)
    if picture is None:
        given = "" if keep_prior else f" --prior {profile}"
        say(f"Wrote {output} ({kept}). Next: whereish plot {output}{given} -o picture.png")
    else:
        draw_mechanism(mechanism, who, picture)
        say(f"Wrote {output} ({kept}) and {picture}.")
    facts |= watch.say(mechanism)
    if as_json:
        drawn = None if picture is None else str(picture)
        emit({**facts, "output": str(output), "picture": drawn})
    if mechanism.build.stopped == "asked":
        raise typer.Exit(EXIT_INTERRUPTED)


@command
def measure(
    mechanism: Annotated[Path, typer.Argument(metavar="K", help="A mechanism built before.")],
    prior: Annotated[
        Path | None, typer.Option(help="A profile of the same places with another prior.")
    ] = None,
    adversary_metric: Annotated[
        str, typer.Option(help="What the adversary minimises: euclidean, geodesic or discrete.")
    ] = "euclidean",
    interest: Annotated[
        str | None, typer.Option(help="Radius of interest, like 300m: how much to ask for?")
    ] = None,
    confidence: Annotated[float, typer.Option(help="... and how sure to be.")] = 0.95,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Measure a mechanism: quality loss, what an adversary learns, the epsilon it really has."""
    if not 0 < confidence <= 1:
        raise InputError(f"confidence must be above 0 and at most 1, got {confidence:g}")
    radius_km = None if interest is None else length_km(interest, "interest")
    judged, weights = load_with_prior(mechanism, prior, normalise)
    if weights is None:
        raise InputError(f"{mechanism} holds no prior: give --prior PROFILE, its places and prior")
    error = wh.adversary_error(judged, weights, _adversary(adversary_metric, judged))
    facts = facts_of(judged, weights)
    facts |= {
        "adversary_error_km": error,
        "adversary_metric": adversary_metric,
        "adversary_error_unit": "share of wrong guesses"
        if adversary_metric == "discrete"
        else "km",
        "worst_case_loss_km": wh.worst_case_loss(judged),
        "report_radius_95_km": wh.report_radius(judged, weights),
        "conditional_entropy_bits": wh.conditional_entropy(judged, weights),
    }
    say_mechanism(judged, facts)
    say(f"  at worst      {km(facts['worst_case_loss_km'])} off on average from one place")
    say(f"  reports       95% fall within {km(facts['report_radius_95_km'])}")
    say(f"  uncertainty   {facts['conditional_entropy_bits']:.2f} bits left after a report")
    if radius_km is not None:
        radius = wh.radius_to_ask(judged, radius_km, confidence, weights)
        facts |= {"radius_to_ask_km": radius, "confidence": confidence}
        say(
            f"  to cover      {interest} around you in {confidence:.0%} of cases, "
            f"ask for {km(radius)}"
        )
    if as_json:
        emit(facts)


@command
def spanner(
    profile: ProfileFile,
    dilation: Annotated[float, typer.Option(help="How much longer a way may be, at least 1.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Edges as CSV, or a picture of them.")
    ] = None,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Build a greedy spanner of the places and say how many constraints it saves."""
    if output is not None:
        if output.suffix.lower().lstrip(".") not in ("csv", *KINDS):
            raise InputError(f"output must end in .csv, .png, .pdf or .svg, got {output.name!r}")
        check_writable(output)
    _check_options(dilation, "auto", None)
    who = read_who(profile, normalise=normalise)
    say_profile(who)
    start = time.perf_counter()
    with waiting(f"building a spanner of {len(who.places):,} places"):
        found = wh.greedy_spanner(wh.euclidean(who.places), dilation)
    seconds = time.perf_counter() - start
    n = len(who.places)
    size = least_loss_size(n, n, len(found.edges))
    full = least_loss_size(n, n, n * (n - 1) // 2)
    say(
        f"{len(found.edges):,} edges stand for {n * (n - 1) // 2:,} pairs; "
        f"no way is longer than {found.dilation:.4f} times the distance "
        f"(asked: {found.requested:g}; on average {found.mean_dilation:.4f})"
    )
    say(f"{size.constraints:,} constraints instead of {full.constraints:,}")
    if output is not None and output.suffix.lower() == ".csv":
        lines = [f"{a},{b},{length!r}" for (a, b), length in _edge_rows(found)]
        write_whole(output, ("\n".join(["from,to,length_km", *lines]) + "\n").encode())
    elif output is not None:
        draw_profile(who, output, found)
    if output is not None:
        say(f"Wrote {output}")
    if as_json:
        emit(
            {
                "edges": len(found.edges),
                "dilation": found.dilation,
                "requested_dilation": found.requested,
                "mean_dilation": found.mean_dilation,
                "seconds": seconds,
                "constraints": size.constraints,
                "variables": size.variables,
                "constraints_all_pairs": full.constraints,
                "pairs": [[a, b, length] for (a, b), length in _edge_rows(found)],
            }
        )


@command
def compare(
    profile: ProfileFile,
    epsilon: Epsilon = None,
    ratio: Ratio = None,
    within: Within = None,
    dilation: Dilation = 1.0,
    solver: Solver = "auto",
    time_limit: TimeLimit = None,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Set the optimal mechanism beside the others, at the same privacy and at the same loss."""
    level = privacy_level(epsilon, ratio, within)
    _check_options(dilation, solver, None, time_limit)
    who = read_who(profile, normalise=normalise)
    check_places(who.places)
    say_profile(who)
    say(level_in_words(level))
    with waiting(f"building mechanisms for {len(who.places):,} places"):
        rows = list(compare_mechanisms(who, level, dilation, solver, time_limit))
    console.print(comparison_table(rows))
    say_problems(rows)
    if as_json:
        emit([_row(row) for row in rows])


@command
def plot(
    source: Annotated[Path, typer.Argument(metavar="K|PROFILE", help="What to draw.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png, .pdf or .svg file.")],
    place: Annotated[
        int | None,
        typer.Option(help="Draw the reports of this place, not the likeliest."),
    ] = None,
    dilation: Annotated[
        float | None, typer.Option(help="Draw the spanner of this dilation, too.")
    ] = None,
    prior: Annotated[
        Path | None, typer.Option(help="Of a mechanism: a profile of its places with the prior.")
    ] = None,
    normalise: Normalise = False,
    as_json: AsJson = False,
) -> None:
    """Draw a profile, or a mechanism and where it reports one place to."""
    picture_kind(output)
    if _is_mechanism_file(source):
        mechanism, weights = load_with_prior(source, prior, normalise)
        known = weights is not None
        flat = np.full(len(mechanism.inputs), 1 / len(mechanism.inputs))
        who = wh.Profile(mechanism.inputs, weights if weights is not None else flat)
        asked = dilation if dilation is not None else mechanism.build.requested_dilation
        net = None
        if (
            asked is not None
            and (asked > 1 or dilation is not None)
            and mechanism.privacy_metric is not None
        ):
            net = wh.greedy_spanner(mechanism.privacy_metric, asked)
        draw_mechanism(mechanism, who, output, place, net, prior_known=known)
        if not known:
            say("This file holds no prior: give --prior PROFILE to see it in the picture.")
    else:
        if prior is not None:
            raise InputError("--prior must go with a mechanism to draw, got a profile")
        if place is not None:
            raise InputError("--place needs a mechanism to draw, got a profile")
        who = read_who(source, normalise=normalise)
        graph = None
        if dilation is not None:
            graph = wh.greedy_spanner(wh.euclidean(who.places), dilation)
        draw_profile(who, output, graph)
    say(f"Wrote {output}")
    if as_json:
        emit({"output": str(output)})


def _check_options(
    dilation: float, solver: str, form: str | None, time_limit: float | None = None
) -> None:
    """Refuse what no profile could make right before anything is read or said."""
    check_solver(solver, form, time_limit)
    if not dilation >= 1 or not math.isfinite(dilation):
        raise InputError(f"dilation must be at least 1, got {dilation:g}")


def _optimal(
    who: wh.Profile, level: float, dilation: float, solver: str, **options: Any
) -> wh.Mechanism:
    def announce(plan: wh.Plan) -> None:
        if plan.method == "closed-form":
            ratios = plan.places * (plan.places - 1) * plan.outputs
            say(f"in closed form: {plan.why}; all {ratios:,} ratios are checked, up to a minute")
            return
        say(f"{plan.constraints:,} constraints on {plan.variables:,} variables")
        if plan.seconds > _LONG:
            say(f"{plan.why}; Ctrl-C or --time-limit ends it with the best so far")

    def news(now: Progress) -> None:
        reached = -math.log10(min(max(now.gap, 1e-12), 1.0))
        tell(
            f"{km(now.loss)} off, at most {now.gap:.1e} from the best (step {now.iteration})",
            min(1.0, reached / -math.log10(min(options["tolerance"], 0.1))),
        )

    what = f"looking for the best of all private mechanisms on {len(who.places):,} places"
    with waiting(what) as tell:
        return wh.optimal(
            who.places,
            who.prior,
            level,
            dilation,
            solver=solver,
            announce=announce,
            progress=news,
            **options,
        )


def _adversary(name: str, mechanism: wh.Mechanism) -> Array | None:
    if name == "euclidean":
        return None
    if name == "discrete":
        return wh.discrete(len(mechanism.inputs))
    if name == "geodesic":
        return wh.geodesic(mechanism.inputs)
    raise InputError(f"adversary-metric must be euclidean, geodesic or discrete, got {name!r}")


def _is_mechanism_file(path: Path) -> bool:
    if not path.exists():
        raise InputError(f"what to draw must be a file that exists, got {path}")
    return path.is_file() and is_mechanism_file(path)


def _edge_rows(found: wh.Spanner) -> list[tuple[tuple[int, int], float]]:
    pairs = [(int(a), int(b)) for a, b in found.edges]
    return list(zip(pairs, found.lengths.tolist(), strict=True))


def _row(row: Row) -> dict[str, Any]:
    facts = {key: value for key, value in vars(row).items() if key != "mechanism"}
    tightest = facts["tightest_epsilon_per_km"]
    return {**facts, "tightest_epsilon_per_km": None if tightest is None else float(tightest)}
