"""``whereish build``: a mechanism for a profile and flags, or for a JSON description."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

import whereish as wh
from whereish.cli import options as opt
from whereish.cli.by_time import build_by_time, check_by_time_flags
from whereish.cli.console import EXIT_INTERRUPTED, command, emit, say, waiting
from whereish.cli.everywhere_words import (
    build_facts,
    everywhere_in_words,
    say_everywhere,
    say_points,
)
from whereish.cli.presentation import Watch, facts_of, say_mechanism, say_profile, solve_progress
from whereish.cli.prior import blur_in_words, judge_blur, public_prior, say_what_it_tells
from whereish.cli.reading import read_points, read_who
from whereish.cli.taper import build_taper, check_taper_flags
from whereish.cli.words import level_in_words, metric_of
from whereish.errors import InputError, described
from whereish.everywhere import Everywhere, visits_in
from whereish.files import check_writable
from whereish.limits import MEMORY_GB
from whereish.maps import MapFile, read_map
from whereish.places import as_number
from whereish.plotting import draw_everywhere, draw_mechanism, picture_kind
from whereish.solvers import FORMS
from whereish.spec import EVERYWHERE, PLACES, BuildSpec
from whereish.strict_json import read_json

_LONG = 20.0  # seconds: what takes longer is announced
# Flags that say how to run a build, and nothing about the mechanism.
_RUN = (
    "profile", "output", "picture", "map_", "as_json", "memory_limit", "how_far", "cluster",
    "metric",
)  # fmt: skip


@command
def build(
    context: typer.Context,
    profile: Path = opt.argument(
        "PROFILE|RECIPE", "Profile, JSON recipe, or (--everywhere) traces."
    ),
    output: Path = opt.output_option("The .whereish file to write."),
    epsilon: float | None = opt.EPSILON,
    ratio: float | None = opt.RATIO,
    within: str | None = opt.WITHIN,
    method: str = opt.METHOD,
    metric: Path | None = opt.METRIC,
    everywhere: bool = opt.EVERYWHERE,
    by_time: bool = opt.BY_TIME,
    taper: int | None = opt.TAPER,
    vertices: int | None = opt.VERTICES,
    dilation: float = opt.DILATION,
    solver: str = opt.SOLVER,
    formulation: str | None = opt.option(
        None,
        "Solve the linear program (primal) or its dual (dual).",
        opt.BUILT,
        "FORM",
        choices=FORMS,
    ),
    tolerance: float = opt.TOLERANCE,
    time_limit: float | None = opt.TIME_LIMIT,
    memory_limit: float = opt.option(
        MEMORY_GB, "Memory that an exact solve may use.", opt.BUILT, "GB"
    ),
    cluster: str | None = opt.CLUSTER,
    how_far: bool = opt.flag(
        "--how-far", "Bound how far a closed form is from the optimum.", opt.BUILT
    ),
    normalise: bool = opt.NORMALISE,
    keep_prior: bool = opt.KEEP_PRIOR,
    forget_prior: bool = opt.FORGET_PRIOR,
    prior_blur: float = opt.PRIOR_BLUR,
    blur_with: str | None = opt.BLUR_WITH,
    user: str | None = opt.option(
        None, "The person, if PROFILE is a table of several people.", opt.PRIOR, "NAME"
    ),
    picture: Path | None = opt.option(
        None, "Draw the mechanism: .png, .pdf or .svg.", opt.OUTPUT, "FILE"
    ),
    map_: Path | None = opt.MAP,
    as_json: bool = opt.AS_JSON,
) -> None:
    """Build the private mechanism with the least quality loss."""
    watch, flags = Watch(), opt.given_flags(context)
    check_by_time_flags(flags)
    check_taper_flags(flags)
    document = spec_document(profile)
    if document is None:
        options = opt.read_options(flags)  # before anything is read or said
    guarantee = PLACES if document is None else document.get("guarantee", PLACES)
    if cluster is not None and EVERYWHERE in (guarantee, everywhere and EVERYWHERE):
        raise InputError("--cluster must be left out with --everywhere: one machine builds it")
    as_number("memory-limit", memory_limit, unit="GB")
    check_writable(output)
    if picture is not None:
        picture_kind(picture)
    elif map_ is not None:
        raise InputError("--map must go with --picture: the file of a mechanism holds no map")
    ground = None if map_ is None else read_map(map_)
    if output.exists() and profile.exists() and output.samefile(profile):
        source = "profile" if document is None else "recipe"
        raise InputError(f"output must not be the {source} itself, got {output} for both")
    if document is None and options.guarantee == EVERYWHERE:
        who = read_points(profile, normalise=normalise, user=user)
        spec = options.for_person(who.places, who.prior)
    elif document is None:
        who = read_who(profile, normalise=normalise, user=user)
        public = public_prior(blur_with, who, normalise)
        spec = options.for_person(who.places, who.prior).changed(blur_with=public)
    else:
        spec = with_flags(document, flags)
        who = wh.Profile(spec.places, spec.prior)
    if metric is not None:
        spec = spec.changed(privacy_metric=opt.read_metric(metric, within))
    if spec.guarantee == EVERYWHERE:
        found, facts = _build_everywhere(spec, output, memory_limit, picture, ground)
        facts |= watch.say(found)
        if as_json:
            emit({**facts, "output": str(output), "picture": picture and str(picture)})
        if found.build.stopped == "asked":
            raise typer.Exit(EXIT_INTERRUPTED)
        return
    search = partial(_search, memory_limit_gb=memory_limit, cluster=cluster)
    if by_time:
        several, facts = build_by_time(who, profile, spec, search, output)
        facts |= watch.say(*several.mechanisms)
        if as_json:
            emit({**facts, "output": str(output), "picture": None})
        if any(member.build.stopped == "asked" for member in several.mechanisms):
            raise typer.Exit(EXIT_INTERRUPTED)
        return
    if taper is not None:
        made, facts = build_taper(who, spec, search, output, taper)
        facts |= watch.say(*made)
        if as_json:
            emit({**facts, "output": str(output), "picture": None})
        if any(one.build.stopped == "asked" for one in made):
            raise typer.Exit(EXIT_INTERRUPTED)
        return
    say_profile(who)
    say(level_in_words(spec.epsilon_per_km, metric_of(spec)))
    mechanism = search(spec)
    if spec.prior_blur:
        mechanism, blur_cost = judge_blur(mechanism, spec, search)
    if how_far and mechanism.build.lower_bound_km is None:
        with waiting("bounding the distance to the optimum") as tell:
            mechanism = wh.how_far(
                mechanism, spec.prior, spec.quality, time_limit_s=spec.time_limit_s,
                progress=lambda done, all_: tell(f"part {done + 1} of {all_}", done / all_),
            )  # fmt: skip
    wh.save_mechanism(output, mechanism, spec.prior if spec.keep_prior else None)
    facts = facts_of(mechanism, spec.prior)
    say_mechanism(mechanism, facts)
    if spec.prior_blur:
        facts |= {"prior_blur": spec.prior_blur, "blur_cost_km": blur_cost}
        say(blur_in_words(spec.prior_blur, blur_cost))
    say_what_it_tells(mechanism, spec.keep_prior)
    kept = "with the prior, readable by you only" if spec.keep_prior else "without the prior"
    if picture is not None:
        draw_mechanism(mechanism, who, picture, background=ground)
        say(f"Wrote {output} ({kept}) and {picture}.")
    elif document is None:
        given = "" if spec.keep_prior else f" --prior {profile}"
        say(f"Wrote {output} ({kept}). Next: whereish plot {output}{given} -o picture.png")
    else:
        say(f"Wrote {output} ({kept}).")
    facts |= watch.say(mechanism)
    if as_json:
        emit({**facts, "output": str(output), "picture": picture and str(picture)})
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
        if name not in _RUN and not opt.is_field(name):
            raise InputError(
                f"{opt.written(name)} must be left out with a recipe: it goes with a profile, and "
                "a recipe has nothing like it"
            )
    changes = opt.flag_fields(flags)
    if flags.get("blur_with") not in (None, "uniform"):
        raise InputError(
            "--blur-with must be uniform beside a recipe: another prior stands in its blur_with"
        )
    if "blur_with" in flags:
        changes["blur_with"] = "--blur-with", None
    before = BuildSpec.from_document(document)
    if "everywhere" in flags or before.guarantee == EVERYWHERE:
        opt.check_everywhere_flags(flags)
    if "vertices" in flags and "everywhere" not in flags and before.guarantee != EVERYWHERE:
        raise InputError("--vertices must go with --everywhere")
    made = before.changed(**{field: value for field, (_, value) in changes.items()})
    opt.check_search_flags(flags, made.method)
    for field, (flag, _) in changes.items():
        now, then = getattr(made, field), getattr(before, field)
        if not np.array_equal(now, then):
            say(f"{flag}: {field} is {described(now)} instead of the recipe's {described(then)}")
    if "blur_with" in flags and not made.prior_blur:
        raise InputError("--blur-with must go with a blur: give --prior-blur SHARE, from 0 to 1")
    return made


def _build_everywhere(
    spec: BuildSpec,
    output: Path,
    memory_limit_gb: float,
    picture: Path | None,
    ground: MapFile | None,
) -> tuple[Everywhere, dict[str, Any]]:
    """Build a mechanism for all points, write it and say what it promises; return its facts too."""
    say_points(spec.places)
    say(everywhere_in_words(spec.epsilon_per_km))

    def announce(plan: wh.Plan) -> None:
        if plan.method == "closed-form":
            say(f"planar Laplace with the best remap: {plan.why}")
        elif plan.seconds > _LONG:
            say(f"{plan.why}; Ctrl-C or --time-limit stops it with the best mechanism so far")

    with waiting(f"solving for {len(spec.places):,} points") as tell:
        mechanism = spec.build(
            memory_limit_gb=memory_limit_gb, announce=announce, stage=tell,
            progress=lambda now: tell(*solve_progress(now, spec.tolerance)),
        )  # fmt: skip
    wh.save_mechanism(output, mechanism, spec.kept_prior)
    facts = build_facts(mechanism, spec.places, spec.prior)
    say_everywhere(mechanism, facts)
    if spec.keep_prior:
        say("Careful: the file holds the points that you visit. Do not pass it on.")
    else:
        say(
            "Careful: much about the points that you visit can be read from this file, even "
            "without them in it. Pass on reports, not the file. See docs/limitations.md."
        )
    kept = "with the points, readable by you only" if spec.keep_prior else "without the points"
    wrote = f"Wrote {output} ({kept})"
    if picture is not None:
        visits = visits_in(mechanism, spec.places, spec.prior)
        draw_everywhere(mechanism, visits, picture, background=ground)
        say(f"{wrote} and {picture}.")
    else:
        say(f"{wrote}. Next: whereish audit {output}")
    return mechanism, facts


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

    with waiting(f"solving for {len(spec.places):,} places") as tell:
        made: wh.Mechanism = spec.build(
            memory_limit_gb=memory_limit_gb, announce=announce, cluster=cluster,
            progress=lambda now: tell(*solve_progress(now, spec.tolerance)),
        )  # fmt: skip
        return made
