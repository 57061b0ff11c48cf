"""The house stays a house: imports go one way, doors are light, docs are true."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gallery
import httpx
import pytest

import conftest
import whereish as wh
from serving import serving

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "whereish"
# A room may import rooms of an earlier line, and itself. docs/architecture.md says why.
FLOORS = (
    {"errors", "interrupts", "lazy", "limits", "parallel", "retries", "showing"},
    {"compiled", "day_periods", "extras", "strict_json"},
    {
        "compressed",
        "deadline",
        "files",
        "units",
        "validated",
        "distributed",
        "distributed.cluster",
        "distributed.ray_batch",
    },
    {"parquet"},
    {"places"},
    {"traces", "programs", "measures", "maps"},
    {"profiles", "solvers", "release"},
    {"distributed.ray_member", "distributed.ray_solver"},
    {"mechanisms"},
    {"everywhere"},
    {"format"},
    {"device", "spec"},
    {"attacks", "choosing", "estimation"},
    {"plotting", "recipes"},
    {"studies", "batch"},
    {"service.error_body"},
    {"service.workers"},
    {"distributed.ray_pool", "distributed.ray_gateway", "distributed.ray_actor"},
    {"service"},
    {"cli"},
)
FILES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or "__" not in p.name)
LEVEL = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FORBIDDEN = {("measures", "solvers"), ("release", "solvers"), ("measures", "mechanisms")}


def room_of(module: str) -> str:
    """Return the room of a module: its own entry in FLOORS, or that of the folder it is in."""
    parts = module.split(".")
    return next(name for k in range(len(parts), 0, -1) if (name := ".".join(parts[:k])) in LEVEL)


def imported_modules(file: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            modules.add(node.module or "")
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return {name.removeprefix("whereish.") for name in modules if name.startswith("whereish.")}


@pytest.mark.parametrize("file", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(file: Path) -> None:
    module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    room = room_of(module)
    for other in map(room_of, imported_modules(file)):
        if other.split(".")[0] == room.split(".")[0] and LEVEL[other] == LEVEL[room]:
            continue
        assert LEVEL[other] < LEVEL[room], f"{file} imports {other}"
        assert (room, other) not in FORBIDDEN


@pytest.mark.parametrize("file", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_one_folder_imports_ray(file: Path) -> None:
    if file.relative_to(SOURCE).parts[0] != "distributed":
        assert not re.search(r"^\s*(import|from) ray\b", file.read_text(), re.MULTILINE)
        assert 'import_module("ray' not in file.read_text()


def test_every_room_is_on_a_floor() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    named = {room.split(".")[0] for room in LEVEL}
    # "_core" has the compiled library, no module.
    assert rooms - {"__init__", "__main__", "_core", "py", "__pycache__"} == named


def test_the_public_names_are_what_is_documented() -> None:
    assert sorted(wh.__all__) == wh.__all__
    for name in wh.__all__:
        assert getattr(wh, name).__doc__, name


def test_importing_is_light() -> None:
    """What is slow to import is imported where it is used."""
    heavy = [
        "highspy",
        "matplotlib",
        "polars",
        "pydantic",
        "pyproj",
        "shapely",
        "typer",
        "scipy.sparse",
    ]
    code = f"import sys, whereish; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_readme_shows_the_two_commands_and_working_python(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-W", "error", "-c", block], check=True, cwd=tmp_path)


# tests/test_notebook.py runs the example of the notebook, and looks at what it prints.
@pytest.mark.parametrize(
    "example", [one for one in gallery.EXAMPLES if one.name != "notebook"], ids=lambda one: one.name
)
@pytest.mark.slow
def test_examples_run_and_write_their_pictures(example: gallery.Example, tmp_path: Path) -> None:
    assert gallery.run(example, tmp_path).output
    assert all((tmp_path / name).stat().st_size > 5_000 for name in example.pictures)


def test_links_in_the_docs_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_versions_agree() -> None:
    assert f"## [{wh.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
@pytest.mark.thorough
def test_the_wheel_has_the_page_and_serves_it(tmp_path: Path) -> None:
    """What is installed is what was seen: the page, what it borrows, and the browser's client."""
    if not (SOURCE / "service" / "page" / "vendor" / "stamp").exists():
        pytest.skip("the page is not built: python hatch_build.py")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    page = tmp_path / "installed" / "whereish" / "service" / "page"
    client = ROOT / "clients" / "js"
    folders = ("", "whereish/", "build/", "map/", "profile/", "solve/")
    modules = [module for folder in folders for module in client.glob(f"{folder}*.js")]
    for module in modules:
        packed_module = page / "vendor" / module.relative_to(client)
        assert packed_module.read_text() == module.read_text()
    with serving(
        tmp_path / "data", environment={"PYTHONPATH": str(tmp_path / "installed")}
    ) as service:
        for path, words in (
            ("/", "<title>"),
            ("/assets/page.js", "import"),
            ("/assets/vendor/maplibre-gl.mjs", "maplibre"),
            ("/assets/vendor/swagger-ui-bundle.js", "swagger"),
            ("/city.json", "latlon"),
        ):
            told = httpx.get(service.url + path)
            assert told.status_code == 200
            assert words.lower() in told.text.lower()
        code = "import whereish; print(whereish.__file__)"
        where = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
        said = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=where
        )
        assert str(tmp_path) in said.stdout


class _Node:
    """A process of xdist, as its scheduler sees it."""

    shutting_down, gateway = False, SimpleNamespace(id="gw")

    def __init__(self, tests: list[str]) -> None:
        self.tests, self.ran = tests, list[str]()

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.ran += [self.tests[number] for number in numbers]


def test_of_repeated_cases_the_first_of_three_is_kept() -> None:
    """Less effort leaves out cases of long tests, and never a test or a case of a leak."""

    def test(name: str, *, case: bool, long: bool) -> Any:
        found = SimpleNamespace(nodeid=f"tests/{name}", path=Path(name.partition("::")[0]))
        found.get_closest_marker = lambda mark: long and mark == "slow"
        if case:
            found.callspec = object()
        return found

    long = [test(f"test_a.py::test_long[{k}]", case=True, long=True) for k in range(7)]
    short = [test(f"test_a.py::test_short[{k}]", case=True, long=False) for k in range(7)]
    leaks = [test(f"test_echoes.py::test_leak[{k}]", case=True, long=True) for k in range(7)]
    whole = [test(f"test_a.py::test_{k}", case=False, long=True) for k in range(7)]
    every = [*long, *short, *leaks, *whole]
    less = conftest.without_repeated_cases
    assert less(every, 3, only_long=True) == [*long[::3], *short, *leaks, *whole]
    assert less(every, 3, only_long=False) == [*long[::3], *short[::3], *leaks[::3], *whole]
    assert less(every, 1, only_long=True) == every
    assert all((ROOT / "tests" / f"{name}.py").is_file() for name in conftest.EVERY_CASE)


def test_the_tests_of_a_group_share_a_process() -> None:
    """The scheduler of `conftest.py`: what is made once for a group is not made twice."""
    scheduling = pytest.importorskip("xdist.scheduler").LoadScopeScheduling
    told = {"dist": "loadgroup", "tx": ["2*popen"]}
    config: Any = SimpleNamespace(getvalue=told.get, option=SimpleNamespace(loadscopereorder=True))
    made = conftest.pytest_xdist_make_scheduler(config, log=None)
    assert isinstance(made, scheduling)
    tests = [f"tests/{name}.py::test_{n}" for n in range(9) for name in ("test_page", "test_core")]
    modules = [name for names in conftest.TOGETHER.values() for name in names]
    assert len(set(modules)) == len(modules)
    assert all((ROOT / "tests" / f"{name}.py").is_file() for name in modules)
    nodes = [_Node(tests), _Node(tests)]
    for node in nodes:
        made.add_node(node)
        made.add_node_collection(node, tests)
    made.schedule()
    assert [name for name in nodes[0].ran if "test_page" in name] == tests[::2]
    assert nodes[1].ran
    assert not any("test_page" in name for name in nodes[1].ran)
    told["dist"] = "load"
    assert conftest.pytest_xdist_make_scheduler(config, log=None) is None
