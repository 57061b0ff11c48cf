"""Flags beside a recipe: every one of them is followed, and said to be, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from typer.testing import CliRunner

import strategies as some
import whereish as wh
from whereish.cli import app
from whereish.spec import BuildSpec

# What a flag is given, and what the recipe says instead.
OTHERS: dict[str, tuple[Any, str, Any]] = {
    "epsilon": (1.5, "epsilon_per_km", 1.5),
    "dilation": (1.3, "dilation", 1.3),
    "formulation": ("dual", "form", "dual"),
    "solver": ("structured", "solver", "structured"),
    "method": ("closed-form", "method", "closed-form"),
    "tolerance": (1e-3, "tolerance", 1e-3),
    "time-limit": (60.0, "time_limit_s", 60.0),
    "forget-prior": (None, "keep_prior", False),
    "keep-prior": (None, "keep_prior", True),
    "prior-blur": (0.3, "prior_blur", 0.3),
    "everywhere": (True, "guarantee", "everywhere"),
}
# Flags that say nothing about the mechanism, each with a test below.
PLAIN = {"output", "picture", "json", "memory-limit", "how-far", "cluster", "help"}
DOCUMENT = {
    "places": {"xy_km": some.grid(4, 4).xy.tolist()}, "prior": some.skewed(16, 1).tolist(),
    "epsilon_per_km": 1.07,
}  # fmt: skip


def options() -> dict[str, Any]:
    """Return every option of the command by its long name."""
    command: Any = typer.main.get_command(app)
    found = {}
    for option in command.commands["build"].params:
        for name in (*option.opts, *option.secondary_opts):
            if name.startswith("--"):
                found[name[2:]] = option
    return found


def build(folder: Path, *flags: object, **fields: Any) -> Any:
    (folder / "r.json").write_text(json.dumps({**DOCUMENT, **fields}))
    words = ["build", folder / "r.json", "-o", folder / "k.whereish", "--json", *flags]
    return CliRunner().invoke(app, [str(word) for word in words])


def flagged(name: str, option: Any) -> list[str]:
    if getattr(option, "is_flag", False):
        return [f"--{name}"]
    return [f"--{name}", str(OTHERS[name][0]) if name in OTHERS else "1"]


@pytest.mark.parametrize("name", sorted(options().keys() - PLAIN))
def test_no_flag_is_ignored_beside_a_recipe(tmp_path: Path, name: str) -> None:
    """Also one that is new: it is refused, or stands in `OTHERS`."""
    done = build(tmp_path, *flagged(name, options()[name]), keep_prior=name == "forget-prior")
    if name not in OTHERS:
        assert done.exit_code == 2, f"--{name} was ignored: {done.stderr}"
        assert f"--{name}" in done.stderr
        assert not (tmp_path / "k.whereish").exists()
        return
    assert done.exit_code == 0, done.stderr
    _, field, value = OTHERS[name]
    assert f"--{name}" in done.stderr
    assert field in done.stderr
    kept = {"keep_prior": name == "forget-prior"} if field == "keep_prior" else {}
    expected = BuildSpec.from_document({**DOCUMENT, **kept, field: value})
    made, prior = wh.load_mechanism(tmp_path / "k.whereish")
    assert np.array_equal(made.counts, expected.build().counts)
    assert (prior is not None) == expected.keep_prior


def test_a_level_in_words_beside_a_recipe(tmp_path: Path) -> None:
    done = build(tmp_path, "--ratio", 2, "--within", "500m")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["epsilon_per_km"] == pytest.approx(np.log(2) / 0.5)
    assert "--ratio and --within" in done.stderr
    assert build(tmp_path, "--ratio", 2).exit_code == 2


def test_a_flag_that_says_what_the_recipe_says(tmp_path: Path) -> None:
    done = build(tmp_path, "--dilation", 1.2, dilation=1.2)
    assert done.exit_code == 0
    assert "instead" not in done.stderr


def test_a_flag_must_be_what_a_recipe_may_say(tmp_path: Path) -> None:
    for flags in (["--dilation", 0.5], ["--method", "magic"], ["--tolerance", 0]):
        done = build(tmp_path, *flags)
        assert done.exit_code == 2
        assert "must be" in done.stderr
        assert not (tmp_path / "k.whereish").exists()


def test_plain_flags_are_followed(tmp_path: Path) -> None:
    done = build(tmp_path, "--picture", tmp_path / "k.png")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "k.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads(done.stdout)["picture"] == str(tmp_path / "k.png")
    done = build(tmp_path, "--how-far", method="closed-form")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["lower_bound_km"] is not None
    done = build(tmp_path, "--cluster", "auto", method="planar-laplace")
    assert done.exit_code == 2
    assert "cluster must be left out" in done.stderr
    done = build(tmp_path, "--memory-limit", 1e-9)
    assert done.exit_code == 3
    assert build(tmp_path, "--memory-limit", -1).exit_code == 2


def test_an_output_that_is_the_recipe_is_refused(tmp_path: Path) -> None:
    done = build(tmp_path, "-o", tmp_path / "r.json")
    assert done.exit_code == 2
    assert json.loads((tmp_path / "r.json").read_text()) == DOCUMENT


def test_a_blur_with_another_prior_is_replaced_and_no_prior_is_printed(tmp_path: Path) -> None:
    """Found by an attack: a traceback, where arrays were compared as if they were numbers."""
    public = [0.7123, *[0.2877 / 15] * 15]
    done = build(tmp_path, "--blur-with", "uniform", prior_blur=0.4, blur_with=public)
    assert done.exit_code == 0, done.output
    assert "--blur-with: blur_with is" in done.stderr
    assert "0.7123" not in done.output
    done = build(tmp_path, "--blur-with", "uniform")
    assert done.exit_code == 2
    assert "must go with" in done.stderr


@pytest.mark.parametrize("flag", ["--dilation 1.2", "--solver highs-ipm", "--tolerance 1e-3",
                                  "--formulation dual"])  # fmt: skip
@pytest.mark.parametrize("method", ["closed-form", "planar-laplace", "exponential"])
def test_a_flag_about_a_search_is_refused_where_there_is_none(
    tmp_path: Path, method: str, flag: str
) -> None:
    """With a recipe and with a profile: it would be ignored."""
    for done in (
        build(tmp_path, "--method", method, *flag.split()),
        build(tmp_path, *flag.split(), method=method),
    ):
        assert done.exit_code == 2
        assert f"{flag.split()[0]} must be left out with method {method}" in done.stderr
    (tmp_path / "me.csv").write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.5\n")
    words = ["build", tmp_path / "me.csv", "-o", tmp_path / "k", "--epsilon", 1, *flag.split()]
    done = CliRunner().invoke(app, [*map(str, words), "--method", method])
    assert done.exit_code == 2
    assert "must be left out with method" in done.stderr
    assert not (tmp_path / "k").exists()


@pytest.mark.parametrize("method", ["planar-laplace", "exponential", "closed-form"])
def test_every_method_builds_from_a_profile(tmp_path: Path, method: str) -> None:
    (tmp_path / "me.csv").write_text("x_km,y_km,prior\n0,0,0.5\n1,0,0.3\n0,2,0.2\n")
    words = ["build", tmp_path / "me.csv", "-o", tmp_path / "k", "--epsilon", 1, "--json"]
    done = CliRunner().invoke(app, [*map(str, words), "--method", method])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["epsilon_per_km"] == 1.0
