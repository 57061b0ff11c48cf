"""What `make release` relies on: versions that agree, archives that repeat, checked sums."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from release import archive, provenance, sums, tree, versions

import whereish as wh
from effort import examples
from whereish.format import new_private_key, public_key_of

ROOT = Path(__file__).resolve().parent.parent


FILES = {"a.whl": b"wheel", "b.tgz": b"client", "c.zip": b"extension"}


BROWSERS = runpy.run_path(str(ROOT / "clients/extension/build.py"))["browser_version"]


def test_one_version_is_stated_everywhere() -> None:
    version = versions.source_version()
    assert version == wh.__version__
    client = ROOT / "clients" / "js"
    assert json.loads((client / "package.json").read_text())["version"] == versions.npm_version(
        version
    )
    assert f'VERSION = "{version}"' in (client / "whereish" / "constants.js").read_text()
    cited = re.findall(r"^ *version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert set(cited) == {version}
    assert f"version = {{{version}}}" in (ROOT / "docs" / "versions.md").read_text()


numbers = st.tuples(*[st.integers(0, 60)] * 3, st.none() | st.integers(1, 60))


@given(st.lists(numbers, min_size=2, max_size=2))
@examples(200)
def test_forms_of_a_version_have_its_order(two: list[tuple[int, int, int, int | None]]) -> None:
    """A candidate is before its release, in npm's order and in that of browsers."""
    keys, browsers, npms = [], [], []
    for a, b, c, candidate in two:
        text = f"{a}.{b}.{c}" + (f"rc{candidate}" if candidate else "")
        npm = versions.npm_version(text)
        keys.append((a, b, c, candidate or 10**6))
        browsers.append(tuple(map(int, BROWSERS(npm).split("."))))
        plain, _, rest = npm.partition("-rc.")
        npms.append((*map(int, plain.split(".")), int(rest) if rest else 10**6))
        assert all(0 <= part < 65536 for part in browsers[-1])
    for found in (browsers, npms):
        assert (found[0] < found[1], found[0] == found[1]) == (
            keys[0] < keys[1],
            keys[0] == keys[1],
        )


@pytest.mark.parametrize("version", ["1.0", "1.0.0rc0", "1.0.0.dev1", "v1.0.0", "1.0.0-rc.1"])
def test_other_forms_are_refused(version: str) -> None:
    with pytest.raises(versions.VersionError):
        versions.npm_version(version)


def test_a_change_log_of_another_version_is_refused() -> None:
    good = "# Changelog\n\n## [1.2.3] - 2026-01-02\n\n- x\n\n## [1.2.2] - 2025-01-02\n"
    versions.check_changes("1.2.3", good)
    for version, text in (
        ("1.2.4", good),
        ("1.2.3", good.replace("2026-01-02", "unreleased")),
        ("1.2.3", good.replace("## [1.2.3]", "## Unreleased\n\n## [1.2.3]")),
        ("1.2.3", "# Changelog\n"),
    ):
        with pytest.raises(versions.VersionError, match="CHANGELOG"):
            versions.check_changes(version, text)
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## [{wh.__version__}] - 20" in text


def test_a_release_is_made_from_a_commit(tmp_path: Path) -> None:
    with pytest.raises(tree.TreeError, match="no tree of git"):
        tree.committed(tmp_path)
    names = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER")
             for what in ("NAME", "EMAIL")}  # fmt: skip
    (tmp_path / "a").write_text("1")
    for words in (["init", "-q"], ["add", "a"], ["commit", "-qm", "x", "--date", "@0 +0000"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env={**os.environ, **names})
    found = tree.committed(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}", found.name)
    for change in (lambda: (tmp_path / "a").write_text("2"), lambda: (tmp_path / "b").touch()):
        change()
        with pytest.raises(tree.TreeError, match="not committed"):
            tree.committed(tmp_path)
        subprocess.run(["git", "stash", "-qu"], cwd=tmp_path, check=True, env=os.environ | names)
    assert tree.committed(tmp_path) == found


def test_an_archive_depends_on_its_files_alone(tmp_path: Path) -> None:
    made = []
    for number, order in enumerate((["b/x", "a"], ["a", "b/x"])):
        folder = tmp_path / str(number)
        for name in order:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
            (folder / name).chmod(0o600 if number else 0o755)
            os.utime(folder / name, (number + 5e8, number + 5e8))
        archive.pack(folder, tmp_path / f"{number}.zip", 1_700_000_000)
        made.append((tmp_path / f"{number}.zip").read_bytes())
    assert made[0] == made[1]
    with zipfile.ZipFile(tmp_path / "0.zip") as packed:
        assert {name: packed.read(name).decode() for name in packed.namelist()} == {
            "a": "a", "b/x": "b/x"
        }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release of three files, signed."""
    made = tmp_path / "release"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_bytes(text)
    (tmp_path / "key.pem").write_bytes(new_private_key())
    said = provenance.statement(sums.digests(made), "c" * 40, "1.2.3", ROOT)
    provenance.write(made, said, (tmp_path / "key.pem").read_bytes())
    sums.write(made)
    return made


def test_a_release_that_was_not_changed_passes(folder: Path) -> None:
    key = public_key_of((folder.parent / "key.pem").read_bytes())
    assert provenance.check(folder, sums.check(folder), key) == "c" * 40
    done = subprocess.run(["sha256sum", "-c", sums.NAME], cwd=folder, capture_output=True)
    assert done.returncode == 0
    text = (folder / provenance.NAME).read_text()
    said = json.loads(text)
    pins = {one["uri"] for one in said["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {f"file:{name}" for name in provenance.PINS} <= pins
    assert str(ROOT) not in text


@pytest.mark.parametrize("how", ["changed", "removed", "added"])
def test_a_changed_release_is_refused(folder: Path, how: str) -> None:
    if how == "removed":
        (folder / "a.whl").unlink()
    else:
        (folder / ("a.whl" if how == "changed" else "d.whl")).write_bytes(b"other")
    with pytest.raises(sums.SumsError, match=r"[ad]\.whl"):
        sums.check(folder)
    sums.write(folder)  # who can change a file can change its sum: the statement is the next check
    with pytest.raises(provenance.ProvenanceError):
        provenance.check(folder, sums.check(folder))


def test_a_folder_without_sums_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(sums.SumsError, match="a release must be a folder with SHA256SUMS"):
        sums.check(tmp_path)


def test_a_statement_that_another_key_signed_is_refused(folder: Path) -> None:
    files = sums.check(folder)
    with pytest.raises(provenance.ProvenanceError, match="given key"):
        provenance.check(folder, files, public_key_of(new_private_key()))
    key = public_key_of((folder.parent / "key.pem").read_bytes())
    text = (folder / provenance.NAME).read_text()
    (folder / provenance.NAME).write_text(text.replace("1.2.3", "1.2.4"))
    with pytest.raises(provenance.ProvenanceError, match="must hold the statement"):
        provenance.check(folder, files, key)
    (folder / provenance.SIGNED).unlink()
    with pytest.raises(provenance.ProvenanceError, match="not signed"):
        provenance.check(folder, files, key)
