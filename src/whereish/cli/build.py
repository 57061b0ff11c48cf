"""``whereish build``: a mechanism for a profile and flags, or for a JSON description."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
    ProfileOrSpec,
    Ratio,
    Solver,
    TimeLimit,
    Tolerance,
    Within,
    check_search_flags,
    flag_fields,
    given_flags,
    is_field,
    read_options,
    written,
)
from whereish.cli.presentation import Watch, facts_of, say_mechanism, say_profile, solve_progress
from whereish.cli.prior import Blurred, public_prior, say_what_it_tells
from whereish.cli.reading import read_who
from whereish.cli.words import level_in_words
from whereish.errors import InputError, described
from whereish.files import check_writable
from whereish.limits import DILATION, MEMORY_GB, TOLERANCE
from whereish.places import as_number
from whereish.plotting import draw_mechanism, picture_kind
from whereish.solvers import Progress
from whereish.spec import BuildSpec
from whereish.strict_json import read_json

_LONG = 20.0  # seconds: what takes longer is announced
# Flags that say how to run a build, and nothing about the mechanism.
_RUN = ("profile", "output", "picture", "as_json", "memory_limit", "how_far", "cluster")


@command
def build(
    context: typer.Context,
    profile: ProfileOrSpec,
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
    method: Method = "exact",
    dilation: Dilation = DILATION,
    solver: Solver = "auto",
    formulation: Form = None,
    tolerance: Tolerance = TOLERANCE,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = MEMORY_GB,
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
    watch, flags = Watch(), given_flags(context)
    document = spec_document(profile)
    if document is None:
        options = read_options(flags)  # before anything is read or said
    as_number("memory-limit", memory_limit, unit="GB")
    check_writable(output)
    if picture is not None:
        picture_kind(picture)
    if output.exists() and profile.exists() and output.samefile(profile):
        source = "profile" if document is None else "recipe"
        raise InputError(f"output must not be the {source} itself, got {output} for both")
    if document is None:
        who = read_who(profile, normalise=normalise, user=user)
        public = public_prior(blur_with, who, normalise)
        spec = options.for_person(who.places, who.prior).changed(blur_with=public)
    else:
        spec = with_flags(document, flags)
        who = wh.Profile(spec.places, spec.prior)
    say_profile(who)
    say(level_in_words(spec.epsilon_per_km))

    mechanism, blurred = _search(spec, memory_limit, cluster), None
    if spec.prior_blur:
        plain = spec.changed(prior_blur=0.0, blur_with=None)
        blurred = Blurred.of(
            mechanism, spec.prior, lambda _: _search(plain, memory_limit, cluster), spec.quality
        )
        mechanism = blurred.mechanism
    if how_far and mechanism.build.lower_bound_km is None:
        with waiting("bounding the distance to the optimum") as tell:
            mechanism = wh.how_far(
                mechanism, spec.prior, spec.quality, time_limit_s=spec.time_limit_s,
                progress=lambda done, all_: tell(f"part {done + 1} of {all_}", done / all_),
            )  # fmt: skip
    wh.save_mechanism(output, mechanism, spec.prior if spec.keep_prior else None)
    facts = facts_of(mechanism, spec.prior)
    say_mechanism(mechanism, facts)
    if blurred is not None:
        facts |= {"prior_blur": spec.prior_blur, "blur_cost_km": blurred.cost_km}
        say(blurred.in_words(spec.prior_blur))
    say_what_it_tells(mechanism, spec.keep_prior)
    kept = "with the prior, readable by you only" if spec.keep_prior else "without the prior"
    if picture is not None:
        draw_mechanism(mechanism, who, picture)
        say(f"Wrote {output} ({kept}) and {picture}.")
    elif document is None:
        given = "" if spec.keep_prior else f" --prior {profile}"
        say(f"Wrote {output} ({kept}). Next: whereish plot {output}{given} -o picture.png")
    else:
        say(f"Wrote {output} ({kept}).")
    facts |= watch.say(mechanism)
    if as_json:
        drawn = None if picture is None else str(picture)
        emit({**facts, "output": str(output), "picture": drawn})
    if mechanism.build.stopped == "asked":
        raise typer.Exit(EXIT_INTERRUPTED)


def spec_document(path: Path) -> dict[str, Any] | None:
    """Read the description of a build, if the file is one: JSON with a privacy level."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    text = path.read_bytes()
    if b'"epsilon_per_km"' not in text:
        return None
    document = read_json(text)
    BuildSpec.from_document(document)  # what is wrong with it is wrong whatever the flags say
    return dict(document)


def with_flags(document: dict[str, Any], flags: dict[str, Any]) -> BuildSpec:
    """Follow the flags beside a JSON description: each replaces a field, or is refused."""
    for name in flags:
        if name not in _RUN and not is_field(name):
            raise InputError(
                f"{written(name)} must be left out with a recipe: it goes with a profile, and a "
                "recipe has nothing like it"
            )
    changes = flag_fields(flags)
    if flags.get("blur_with") not in (None, "uniform"):
        raise InputError(
            "--blur-with must be uniform beside a recipe: another prior stands in its blur_with"
        )
    if "blur_with" in flags:
        changes["blur_with"] = "--blur-with", None
    before = BuildSpec.from_document(document)
    made = before.changed(**{field: value for field, (_, value) in changes.items()})
    check_search_flags(flags, made.method)
    for field, (flag, _) in changes.items():
        now, then = getattr(made, field), getattr(before, field)
        if not np.array_equal(now, then):
            say(f"{flag}: {field} is {described(now)} instead of the recipe's {described(then)}")
    if "blur_with" in flags and not made.prior_blur:
        raise InputError("--blur-with must go with a blur: give --prior-blur SHARE, from 0 to 1")
    return made


def _search(spec: BuildSpec, memory_limit_gb: float, cluster: str | None) -> wh.Mechanism:
    """Build, and show the progress."""

    def announce(plan: wh.Plan) -> None:
        if plan.method == "closed-form":
            ratios = plan.places * (plan.places - 1) * plan.outputs
            say(f"closed form: {plan.why}; checking all {ratios:,} ratios takes up to a minute")
            return
        say(f"{plan.constraints:,} constraints on {plan.variables:,} variables")
        if plan.seconds > _LONG:
            say(f"{plan.why}; Ctrl-C or --time-limit stops it with the best mechanism so far")

    def news(now: Progress) -> None:
        tell(*solve_progress(now, spec.tolerance))

    with waiting(f"solving for {len(spec.places):,} places") as tell:
        return spec.build(
            memory_limit_gb=memory_limit_gb, announce=announce, progress=news, cluster=cluster
        )
