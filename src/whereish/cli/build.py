"""The build command: a mechanism for a profile or for a JSON description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import whereish as wh
from whereish.cli.console import EXIT_INTERRUPTED, command, emit, say, waiting
from whereish.cli.options import (
    AsJson,
    BlurWith,
    Cluster,
    Dilation,
    Epsilon,
    ForgetPrior,
    Form,
    KeepPrior,
    MemoryLimit,
    Method,
    Normalise,
    PriorBlur,
    ProfileOrRecipe,
    Ratio,
    Solver,
    TimeLimit,
    Tolerance,
    Within,
    check_options,
    given_flags,
)
from whereish.cli.presentation import (
    Watch,
    facts_of,
    say_mechanism,
    say_profile,
    solve_progress,
)
from whereish.cli.prior import (
    Blurred,
    check_prior_flags,
    public_prior,
    say_what_it_tells,
)
from whereish.cli.reading import read_who
from whereish.cli.recipe import build_recipe, recipe_in
from whereish.cli.words import level_in_words, privacy_level
from whereish.errors import InputError
from whereish.files import check_writable
from whereish.mechanisms import METHODS, check_places
from whereish.places import Array, as_number
from whereish.plotting import draw_mechanism, picture_kind
from whereish.solvers import Progress

_LONG = 20.0


@command
def build(
    context: typer.Context,
    profile: ProfileOrRecipe,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The .whereish file to write.",
            rich_help_panel="Output",
        ),
    ],
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
        typer.Option(
            "--how-far", help="Bound how far a closed form is from the optimum.",
            rich_help_panel="How it is built",
        ),
    ] = False,
    normalise: Normalise = False,
    keep_prior: KeepPrior = False,
    forget_prior: ForgetPrior = False,
    prior_blur: PriorBlur = 0.0,
    blur_with: BlurWith = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The person, if PROFILE is a table of several people.",
            rich_help_panel="The prior",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the mechanism: .png, .pdf or .svg.",
            rich_help_panel="Output",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Build the private mechanism with the least quality loss.

    Ctrl-C stops the search and writes the best mechanism so far (exit code 130); a second Ctrl-C
    leaves without a file. A flag replaces the field of that name in a recipe; a flag without such
    a field is refused.
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
    check_options(dilation, solver, form, time_limit)
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
        tell(*solve_progress(now, options["tolerance"]))

    with waiting(f"solving for {len(who.places):,} places") as tell:
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
