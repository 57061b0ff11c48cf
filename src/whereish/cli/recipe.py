"""Build from a recipe: the same document that the service takes, in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import whereish as wh
from whereish.cli.console import emit, say, waiting
from whereish.cli.prior import Blurred, say_what_it_tells
from whereish.cli.report import facts_of, say_mechanism
from whereish.cli.words import level_in_words
from whereish.errors import InputError
from whereish.files import check_writable
from whereish.recipes import Recipe
from whereish.studies import draw_mechanism, picture_kind


def recipe_in(path: Path) -> Recipe | None:
    """Read a recipe, if the file is one: JSON that says how private it is to be."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    text = path.read_bytes()
    return Recipe.from_json(text) if b'"epsilon_per_km"' in text else None


def build_recipe(
    recipe: Recipe, source: Path, output: Path, picture: Path | None, as_json: bool, memory: float
) -> None:
    """Build what a recipe says, and nothing else."""
    check_writable(output)
    if output.exists() and output.samefile(source):
        raise InputError(f"output must not be the recipe itself, got {output} for both")
    if picture is not None:
        picture_kind(picture)
    say(level_in_words(recipe.epsilon_per_km))
    with waiting(f"building the mechanism of a recipe on {len(recipe.places):,} places"):
        mechanism = recipe.build(memory_limit_gb=memory)
    wh.save_mechanism(output, mechanism, recipe.prior if recipe.keep_prior else None)
    blurred = None
    if recipe.prior_blur:
        plain = replace(recipe, prior_blur=0.0, blur_with=None)
        blurred = Blurred.of(
            mechanism, recipe.prior, lambda _: plain.build(memory_limit_gb=memory), recipe.quality
        )
        mechanism = blurred.mechanism
    facts = facts_of(mechanism, recipe.prior)
    say_mechanism(mechanism, facts)
    if blurred is not None:
        facts |= {"prior_blur": recipe.prior_blur, "blur_cost_km": blurred.cost_km}
        say(blurred.in_words(recipe.prior_blur))
    say_what_it_tells(mechanism, recipe.keep_prior)
    kept = "with the prior, readable by you only" if recipe.keep_prior else "without the prior"
    say(f"Wrote {output} ({kept})")
    if picture is not None:
        draw_mechanism(mechanism, wh.Profile(recipe.places, recipe.prior), picture)
    if as_json:
        drawn = None if picture is None else str(picture)
        emit({**facts, "output": str(output), "picture": drawn})
