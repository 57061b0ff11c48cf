"""Build from a recipe: the same document that the service takes, in a file."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

import whereish as wh
from whereish.cli.console import EXIT_INTERRUPTED, emit, say, waiting
from whereish.cli.presentation import Watch, facts_of, say_mechanism
from whereish.cli.prior import Blurred, say_what_it_tells
from whereish.cli.words import level_in_words, privacy_level
from whereish.errors import InputError, described
from whereish.files import check_writable
from whereish.places import as_number
from whereish.plotting import draw_mechanism, picture_kind
from whereish.spec import Recipe, read_json

_FIELDS = {field.name for field in fields(Recipe)} - {"places", "prior"}
_LEVEL = ("epsilon", "ratio", "within")
_OTHERWISE = {"time_limit": "time_limit_s"}
# What a recipe has no field for, because it does not change the mechanism.
_BESIDE = ("profile", "output", "picture", "as_json", "memory_limit", "how_far")


def recipe_in(path: Path) -> dict[str, Any] | None:
    """Read the document of a recipe, if the file is one: JSON that says how private it is to be."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    text = path.read_bytes()
    if b'"epsilon_per_km"' not in text:
        return None
    document = read_json(text)
    _ = Recipe.from_document(document)  # what is wrong with it is wrong whatever the flags say
    return dict(document)


def overridden(document: dict[str, Any], flags: dict[str, Any]) -> Recipe:
    """Follow flags beside a recipe: each replaces a field, and is said to, or is refused."""
    told = {name: value for name, value in flags.items() if name not in _BESIDE}
    changes: list[tuple[str, str, Any]] = []
    level = [name for name in _LEVEL if name in told]
    if level:
        value = privacy_level(*(told.pop(name, None) for name in _LEVEL))
        changes.append((" and ".join(map(_flag, level)), "epsilon_per_km", value))
    if told.get("forget_prior") and told.get("keep_prior"):
        raise InputError("--keep-prior and --forget-prior say the opposite of each other: give one")
    if told.get("blur_with") not in (None, "uniform"):
        raise InputError(
            "--blur-with must be uniform beside a recipe: another prior stands in its blur_with"
        )
    for name, value in told.items():
        field = _OTHERWISE.get(name, name)
        if name == "forget_prior":
            field, value = "keep_prior", not value
        if field not in _FIELDS:
            raise InputError(
                f"{_flag(name)} must be left out with a recipe: it goes with a profile, and a "
                "recipe has nothing like it"
            )
        changes.append((_flag(name), field, value))
    made = Recipe.from_document({**document, **{field: value for _, field, value in changes}})
    before = Recipe.from_document(document)
    for flag, field, _ in changes:
        now, then = getattr(made, field), getattr(before, field)
        if not np.array_equal(now, then):
            say(f"{flag}: {field} is {described(now)} instead of the recipe's {described(then)}")
    if "blur_with" in told and not made.prior_blur:
        raise InputError("--blur-with must go with a blur: give --prior-blur SHARE, from 0 to 1")
    return made


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def build_recipe(
    document: dict[str, Any],
    flags: dict[str, Any],
    source: Path,
    output: Path,
    picture: Path | None = None,
    *,
    as_json: bool = False,
    memory_limit: float = 8.0,
    how_far: bool = False,
) -> None:
    """Build what a recipe and the flags beside it say, and nothing else."""
    watch = Watch()
    recipe = overridden(document, flags)
    as_number("memory-limit", memory_limit, unit="GB")
    check_writable(output)
    if output.exists() and output.samefile(source):
        raise InputError(f"output must not be the recipe itself, got {output} for both")
    if picture is not None:
        picture_kind(picture)
    say(level_in_words(recipe.epsilon_per_km))
    with waiting(f"building the mechanism of a recipe on {len(recipe.places):,} places"):
        mechanism = recipe.build(memory_limit_gb=memory_limit)
        if how_far and mechanism.proof is None:
            mechanism = wh.how_far(mechanism, recipe.prior, time_limit_s=recipe.time_limit_s)
    wh.save_mechanism(output, mechanism, recipe.prior if recipe.keep_prior else None)
    blurred = None
    if recipe.prior_blur:
        plain = replace(recipe, prior_blur=0.0, blur_with=None)
        blurred = Blurred.of(
            mechanism,
            recipe.prior,
            lambda _: plain.build(memory_limit_gb=memory_limit),
            recipe.quality,
        )
        mechanism = blurred.mechanism
    facts = facts_of(mechanism, recipe.prior)
    say_mechanism(mechanism, facts)
    if blurred is not None:
        facts |= {"prior_blur": recipe.prior_blur, "blur_cost_km": blurred.cost_km}
        say(blurred.in_words(recipe.prior_blur))
    say_what_it_tells(mechanism, recipe.keep_prior)
    kept = "with the prior, readable by you only" if recipe.keep_prior else "without the prior"
    say(
        f"Wrote {output} ({kept})."
        if picture is None
        else f"Wrote {output} ({kept}) and {picture}."
    )
    if picture is not None:
        draw_mechanism(mechanism, wh.Profile(recipe.places, recipe.prior), picture)
    facts |= watch.say(mechanism)
    if as_json:
        drawn = None if picture is None else str(picture)
        emit({**facts, "output": str(output), "picture": drawn})
    if mechanism.build.stopped == "asked":
        raise typer.Exit(EXIT_INTERRUPTED)
