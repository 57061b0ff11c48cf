"""The help of the command line: a screen each, groups, completion, old names, progress."""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

import whereish as wh
from whereish.cli import COMMANDS, OLD_NAMES, app, console
from whereish.cli.presentation import solve_progress
from whereish.solvers import Progress

MOST_LINES, COLUMNS = 40, 80
ROOT = Path(__file__).parent.parent


def commands(entry: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, groups included."""
    yield path
    for name, below in getattr(entry, "commands", {}).items():
        yield from commands(below, (*path, name))


PATHS = sorted(commands(typer.main.get_command(app)))


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("words", PATHS, ids=lambda words: " ".join(words) or "whereish")
def test_the_help_of_every_command_fits_a_screen(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    done = run(*words, "--help")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= COLUMNS
    assert "\x1b" not in done.stdout


def test_commands_are_grouped_by_what_a_person_wants_to_do() -> None:
    shown = run("--help").stdout
    for group, entries in COMMANDS.items():
        below = shown.split(f"\n{group}:\n")[1]
        section = re.split(r"^\S", below, flags=re.MULTILINE)[0]
        assert set(entries) == set(re.findall(r"^  (\S+)", section, re.MULTILINE))


def test_old_names_are_not_shown() -> None:
    for words in PATHS:
        shown = run(*words, "--help").stdout
        for old in OLD_NAMES:
            assert not re.search(rf"^  (--)?{old}\b(?!-)", shown, re.MULTILINE), (words, old)


def asked(*words: str) -> dict[str, str]:
    """Return the environment in which a shell asks: what may the last of these words become?"""
    return {
        "_WHEREISH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("whereish", *words)),
        "COMP_CWORD": str(len(words)),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("build", "--solver", "h"), "highs-ipm highs-dual-simplex highs-primal-simplex"),
        (("build", "--method", "c"), "closed-form"),
        (("build", "--formulation", "d"), "dual"),
        (("profile", "--period", "m"), "morning"),
        (("profile", "--kind", "g"), "geolife geojson google gpx"),
        (("report", "--period", "w"), "week"),
        (("obfuscate", "--outside", "p"), "planar-laplace"),
        (("measure", "--adversary-metric", "g"), "geodesic"),
        (("build", "--solv"), "--solver"),
        (("synth",), "synthetic-city"),
    ],
    ids=lambda words: words if isinstance(words, str) else " ".join(words),
)
def test_the_shell_completes_names_and_choices(
    words: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in asked(*words).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        app([], prog_name="whereish")
    assert not ended.value.code
    assert set(capsys.readouterr().out.split()) == set(expected.split())


def test_a_process_completes_as_the_shell_asks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whereish"], env=os.environ | asked("synth"), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["synthetic-city"]


@pytest.mark.slow
def test_completion_can_be_installed(tmp_path: Path) -> None:
    # The command asks which shell has started it, so the test may not depend on its own.
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m whereish --install-completion; exit $?"],
        env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "whereish" in (tmp_path / ".bashrc").read_text()


def test_commands_by_their_old_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = run("city", "-o", tmp_path / "city", "--users", 1, "--days", 2, "--every", 600)
    assert made.exit_code == 0, made.stderr
    assert (tmp_path / "city").is_dir()
    assert run("forget", "--json").exit_code == 0
    refused = run("paper", "-o", tmp_path / "run", "--epsilons", "1,1")
    assert refused.exit_code == 2
    assert "epsilons must be different numbers" in refused.stderr


def test_options_by_their_old_names(tmp_path: Path) -> None:
    who = wh.embedded_city()
    profile, out = tmp_path / "me.csv", tmp_path / "k.whereish"
    wh.write_profile(profile, who)
    common = ("build", profile, "--epsilon", 1, "--dilation", 1.5, "-o", out, "--json")
    for name in ("--form", "--formulation"):
        done = run(*common, "--solver", "highs-ipm", name, "dual")
        assert done.exit_code == 0, done.stderr
        assert '"form": "dual"' in done.stdout
    for name in ("--interest", "--radius-of-interest"):
        done = run("measure", out, "--prior", profile, name, "300m", "--json")
        assert done.exit_code == 0, done.stderr
        assert "radius_to_ask_km" in done.stdout
    both = "--one-person", "--merge-users"
    for name in both:
        done = run("profile", profile, name, "--user", "me", "-o", tmp_path / "p.csv")
        assert done.exit_code == 2
        assert "--merge-users goes neither with --group nor with --user" in done.stderr


def test_progress_fits_80_columns_and_the_gap_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    screen = Console(file=shown, force_terminal=True, width=COLUMNS, color_system=None)
    monkeypatch.setattr(console, "console", screen)
    words, share = solve_progress(Progress(12, 0.798, 0.797, 3.1e-05, 50, 2500), 1e-6)
    assert words == "gap 3.1e-05, 798 m off, step 12"
    assert 0.7 < share < 0.8
    with console.waiting(
        "solving for 1,000,000 places " + "with a very long description " * 3
    ) as to:
        to(words, share)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", plain) if "gap" in line]
    assert lines
    for line in lines:
        assert len(line) <= COLUMNS
        assert re.match(r"\S gap 3\.1e-05, 798 m off, step 12 ", line)
        assert re.search(r"\d:\d\d:\d\d\s*$", line)


def test_the_page_of_the_command_line_is_up_to_date() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "cli_reference.py"))
    text = tool["PAGE"].read_text()
    assert tool["page"](text) == text, "python tools/cli_reference.py writes it anew"
    for words in PATHS:
        assert f"\n### {' '.join(('whereish', *words))}\n" in text
