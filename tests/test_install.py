"""What `pip install whereish` installs is enough for the library, its commands and its pictures."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Refuse to import the modules named in the first argument, then run the command line.
_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = frozenset(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Missing())
"""
_RUN = "from whereish.cli import main; main()"
_RUN_ALL = """
from whereish.cli import main
for line in sys.argv[1:]:
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, line
"""


def plain(name: str) -> str:
    """Return the normal form of the name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def not_in_the_core() -> list[str]:
    """Return the modules of the installed packages that requirements/core.txt does not name."""
    pins = (ROOT / "requirements" / "core.txt").read_text()
    core = {plain(name) for name in re.findall(r"^([\w.-]+)==", pins, re.MULTILINE)} | {"whereish"}
    modules = packages_distributions()
    return sorted(m for m, owners in modules.items() if core.isdisjoint(map(plain, owners)))


def run_in_core(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with nothing but the core's packages."""
    command = [sys.executable, "-c", _WITHOUT + code, ",".join(not_in_the_core()), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_hook_hides_every_package_of_the_extras() -> None:
    extras = PROJECT["optional-dependencies"]
    named = [re.split(r"[<>=!\[;~ ]", one)[0] for one in extras["serve"] + extras["cluster"]]
    hidden = set(not_in_the_core())
    for module, owners in packages_distributions().items():
        if {plain(one) for one in owners} & {plain(one) for one in named}:
            assert module in hidden, module
    assert {"fastapi", "uvicorn", "psycopg", "ray", "fsspec"} <= hidden
    assert hidden.isdisjoint({"whereish", "numpy", "matplotlib", "typer", "pydantic"})


@pytest.mark.slow
def test_importing_needs_no_extra(tmp_path: Path) -> None:
    code = "import whereish, whereish.cli; [getattr(whereish, n) for n in whereish.__all__]"
    done = run_in_core(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    refused = run_in_core("import fastapi", cwd=tmp_path)
    assert "No module named 'fastapi'" in refused.stderr, "the hook hides nothing"


@pytest.mark.slow
def test_build_measure_compare_and_plot_need_no_extra(tmp_path: Path) -> None:
    weights = {(x, y): 1 + x + 2 * y for x in range(2) for y in range(3)}
    rows = [f"{x},{y},{w / sum(weights.values())}" for (x, y), w in weights.items()]
    (tmp_path / "me.csv").write_text("\n".join(["x_km,y_km,prior", *rows]) + "\n")
    commands = (
        "build me.csv --epsilon 1 -o k.whereish", "measure k.whereish --prior me.csv",
        "audit k.whereish", "compare me.csv --epsilon 1", "plot k.whereish --prior me.csv -o k.png",
    )  # fmt: skip
    done = run_in_core(_RUN_ALL, *commands, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "k.png").stat().st_size > 1000


@pytest.mark.thorough
@pytest.mark.slow
def test_the_demo_needs_no_extra(tmp_path: Path) -> None:
    done = run_in_core(_RUN, "demo", "-o", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "city.png").exists()


_BATCH = ["batch", "me.csv", "-o", "all", "--epsilon", "1", "--cluster", "auto"]


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "arguments"), [("serve", ["serve"]), ("cluster", _BATCH)])
def test_a_command_that_needs_an_extra_says_how_to_get_it(
    extra: str, arguments: list[str], tmp_path: Path
) -> None:
    (tmp_path / "me.csv").write_text("user,x_km,y_km,prior\na,0,0,0.4\na,1,0,0.6\n")
    done = run_in_core(_RUN, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert f"whereish[{extra}]" in done.stderr.replace("\n", "")
