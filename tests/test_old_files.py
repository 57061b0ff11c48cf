"""Files of every earlier version, written by the code of their time, are read and audited today.

`tests/old_files/index.json` names them with the commit that wrote each. All places are synthetic.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whereish as wh
from whereish.batch.journal import Journal, Shared
from whereish.batch.output import Folder
from whereish.spec import BuildOptions

ROOT = Path(__file__).resolve().parent.parent
OLD = Path(__file__).with_name("old_files")
INDEX: list[dict[str, Any]] = json.loads((OLD / "index.json").read_text())
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
NOW = 1.8e9  # the clock of the reports in the ledgers
BEEN = (48.85, 2.33)  # where these reports were made, too


def of_kind(kind: str) -> pytest.MarkDecorator:
    """Run a test for each file of a kind."""
    chosen = [one for one in INDEX if one["kind"] == kind]
    return pytest.mark.parametrize("old", chosen, ids=[one["name"] for one in chosen])


def content(name: str) -> bytes:
    return gzip.decompress((OLD / f"{name}.gz").read_bytes())


def put(name: str, file: Path) -> Path:
    """Write a file for its owner only, as it was."""
    file.write_bytes(content(name))
    file.chmod(0o600)
    return file


def header(name: str) -> dict[str, str]:
    """Return the texts of a container, read without the library."""
    length = int.from_bytes(content(name)[:8], "little")
    texts: dict[str, str] = json.loads(content(name)[8 : 8 + length])["__metadata__"]
    return texts


@of_kind("mechanism")
def test_a_mechanism_is_read_and_audited(old: dict[str, Any], tmp_path: Path) -> None:
    file = put(old["name"], tmp_path / "k.whereish")
    assert header(old["name"])["version"] == old["version"]
    mechanism, prior = wh.load_mechanism(file)
    assert (prior is not None) == old.get("prior", False)
    audited = wh.audit_file(file, key=old.get("key"))
    assert audited["certified"] is True
    assert audited["epsilon"] == 1.07
    assert audited["signed_by"] == old.get("key")
    if old.get("proof"):
        assert "lower_bound_km" in audited["recomputed"]
    if old["version"] == "3":
        mechanism.sample(BEEN, time=NOW)
    else:
        mechanism.sample(BEEN)


@of_kind("metric")
def test_a_metric_is_read(old: dict[str, Any], tmp_path: Path) -> None:
    file = put(old["name"], tmp_path / "m.whereish")
    assert header(old["name"])["version"] == old["version"]
    metric = wh.load_metric(file)
    assert len(metric.places) == 6
    best = wh.optimal(metric.places, [0.5, 0.1, 0.1, 0.1, 0.1, 0.1], 1.07, privacy_metric=metric)
    assert best.epsilon == 1.07


@of_kind("movement")
def test_a_movement_model_is_read(old: dict[str, Any], tmp_path: Path) -> None:
    model = wh.load_movement(put(old["name"], tmp_path / "model.json"))
    assert model.transitions.sum(axis=-1) == pytest.approx(1)


@of_kind("ledger")
def test_a_ledger_keeps_its_charges(old: dict[str, Any], tmp_path: Path) -> None:
    """What a new place costs is added to the old charges, and the old budget ends it."""
    file = put(old["name"], tmp_path / "mine.ledger")
    keys = [one["name"] for one in INDEX if one["name"] == f"{old['name']}-key"]
    for name in keys:
        put(name, tmp_path / "mine.ledger.key")
    assert bool(keys) == (old["version"] != "1")  # the first version had no key
    mechanism, _ = wh.load_mechanism(put("mechanism-1-first", tmp_path / "k.whereish"))
    reporter = wh.Reporter(mechanism, file, clock=lambda: NOW)
    report = reporter.report(BEEN)
    assert report.budget == 5
    assert report.spent == pytest.approx(old["spent"] + report.cost, rel=1e-12)
    new = ((48.87, 2.342), (48.87, 2.33), (48.85, 2.342), (48.86, 2.33))
    with pytest.raises(wh.BudgetError):
        list(map(reporter.report, new))


@of_kind("refused-ledger")
def test_a_ledger_that_states_no_unit_is_refused(old: dict[str, Any], tmp_path: Path) -> None:
    """Epsilons of different metrics cannot be added, and nobody knows what its charges are per."""
    file = put(old["name"], tmp_path / "mine.ledger")
    mechanism, _ = wh.load_mechanism(put("mechanism-1-first", tmp_path / "k.whereish"))
    with pytest.raises(wh.FormatError):
        wh.Reporter(mechanism, file, clock=lambda: NOW)
    assert file.read_bytes() == content(old["name"]), "it was not changed"


@of_kind("batch")
def test_a_batch_goes_on(old: dict[str, Any], tmp_path: Path) -> None:
    """Digests without a salt become digests with one: the same people, and nothing is lost."""
    for name, text in json.loads(content(old["name"])).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = re.findall(
        r'"digest": "([0-9a-f]{64})"', content(old["name"]).decode().replace("\\", "")
    )
    assert len(before) == 2
    told = json.loads((tmp_path / ".batch" / "parameters.json").read_text())
    options = BuildOptions(epsilon_per_km=told["epsilon"], keep_prior=told["keep_prior"])
    for user, digest in zip(("ada", "ben"), before, strict=True):
        (tmp_path / f"{user}.whereish").write_bytes(bytes(2560))  # done means: of that size
        with Journal(Folder(tmp_path), Shared(options)) as journal:
            assert journal.done(user, journal.salt.digest(user, digest)) is not None
    written = b"".join(file.read_bytes() for file in (tmp_path / ".batch").iterdir())
    assert not any(digest.encode() in written for digest in before)


def test_every_version_that_we_write_has_a_file() -> None:
    """Who adds a version adds a file of the one before it."""
    found = {(one["kind"], one["version"]) for one in INDEX}
    source = ROOT / "src" / "whereish"
    texts = {
        "mechanism": (source / "format" / "mechanism_file.py", r"version must be ([\d, or]+), got"),
        "metric": (source / "format" / "metric_file.py", r"version must be ([\d, or]+), got"),
        "movement": (source / "profiles" / "movement_file.py", r"_VERSION = .*, (\d+)"),
        "ledger": (source / "device" / "ledger_file.py", r"_VERSION, _WITH_RUNS = (\d+, \d+)"),
        "client-ledger": (ROOT / "clients/js/whereish/ledger.js", r"WITH_RUNS = (\d+)"),
    }
    for kind, (file, pattern) in texts.items():
        match = re.search(pattern, file.read_text())
        assert match is not None, kind
        for version in re.findall(r"\d+", match[1]):
            assert (kind, version) in found, f"tests/old_files has no {kind} of version {version}"


@pytest.mark.heavy
@pytest.mark.skipif(NODE is None, reason="there is no Node.js to run the client")
def test_the_client_reads_what_it_claims_to_read(tmp_path: Path) -> None:
    for one in INDEX:
        put(one["name"], tmp_path / one["name"])
    shutil.copy(OLD / "index.json", tmp_path)
    command = [str(NODE), str(ROOT / "clients/js/test/old-files.js"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    kinds = ("mechanism", "movement", "client-ledger")
    assert read == [one["name"] for one in INDEX if one["kind"] in kinds]
