"""A command that needs an extra says in one line how to install it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import whereish as wh
from whereish.extras import EXTRAS

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def without(module: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command where a module cannot be imported."""
    code = f"import sys; sys.modules[{module!r}] = None; from whereish.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("module", ["fastapi", "uvicorn", "prometheus_client"])
def test_serving_needs_the_extra_serve(module: str, tmp_path: Path) -> None:
    done = without(module, "serve", "--folder", tmp_path, "--port", 0)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"whereish: this command needs the package {module}, which is not installed: "
        "pip install 'whereish[serve]'"
    ]


@pytest.mark.slow
def test_a_cluster_needs_the_extra_cluster(tmp_path: Path) -> None:
    profile = tmp_path / "me.csv"
    wh.write_profile(profile, wh.embedded_city())
    done = without(
        "ray", "build", profile, "--epsilon", 1, "--cluster", "auto", "-o", tmp_path / "k.whereish"
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("pip install 'whereish[cluster]'")


def test_hexagons_need_the_extra_h3(tmp_path: Path) -> None:
    traces = tmp_path / "t.csv"
    traces.write_text("time,lat,lon\n2026-01-01T10:00:00Z,48.85,2.35\n")
    done = without("h3", "profile", traces, "--h3", 8, "-o", tmp_path / "me.csv")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("pip install 'whereish[h3]'")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["build", "--help"]])
def test_help_needs_no_extra(words: list[str]) -> None:
    modules = [name for names in EXTRAS.values() for name in names]
    hide = f"import sys; sys.modules.update(dict.fromkeys({modules!r}))"
    code = f"{hide}; from whereish.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=True)


def test_each_module_comes_with_its_extra() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for extra, modules in EXTRAS.items():
        for module in modules:
            package = module.replace("_", "-")
            assert any(line.startswith(package) for line in extras[extra]), (extra, module)
