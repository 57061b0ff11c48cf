"""Forged and honest files, judged alike by Python, by the client in node and in Chromium."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forgeries
import whereish as wh
from checks import broken_counts
from littlesite import CHROMIUM, CLIENT, chromium, site
from mangled import mangled
from whereish.format import mechanism_bytes
from whereish.measures import Limits

NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
REFUSED = {"FormatError", "GuaranteeError"}
IN_A_PAGE = """async (names) => {
  const { readMechanism } = await import("/client/whereish.js");
  const said = {};
  for (const name of names) {
    const bytes = await (await fetch("/files/" + name)).arrayBuffer();
    try {
      const mechanism = await readMechanism(bytes, { warn: false });
      said[name] = mechanism.certified ? "taken" : "taken, without an epsilon";
    } catch (wrong) {
      said[name] = wrong.constructor.name;
    }
  }
  return said;
}"""


class Files:
    """A folder with all files by number, and what each is called."""

    def __init__(self, folder: Path, forged: dict[str, bytes], honest: dict[str, bytes]) -> None:
        self.folder = folder
        self.forged, self.honest = list(forged), list(honest)
        self.names = [*forged, *honest]
        assert len(set(self.names)) == len(self.names)
        for number, content in enumerate([*forged.values(), *honest.values()]):
            (folder / str(number)).write_bytes(content)

    def check(self, said: dict[str, str]) -> None:
        told = {self.names[int(number)]: word for number, word in said.items()}
        assert {name: told[name] for name in self.forged if told[name] not in REFUSED} == {}
        wrong = {name: told[name] for name in self.honest if not told[name].startswith("taken")}
        assert wrong == {}
        without = [name for name in self.honest if told[name] != "taken"]
        assert without == ["no epsilon"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"), forgeries.forged(), forgeries.honest())


def test_there_are_enough_of_them(files: Files) -> None:
    assert len(files.forged) >= 200
    assert len(files.honest) >= 120


def test_python_refuses_what_is_forged_and_takes_the_rest(files: Files) -> None:
    said = {}
    for number, name in enumerate(files.names):
        try:
            found = wh.audit_file(files.folder / str(number))
            said[str(number)] = "taken" if found["certified"] else "taken, without an epsilon"
        except (wh.FormatError, wh.GuaranteeError) as wrong:
            said[str(number)] = type(wrong).__name__
            assert len(str(wrong)) < 600, name
    files.check(said)


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
def test_node_refuses_what_is_forged_and_takes_the_rest(files: Files) -> None:
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "verdicts.js"), str(CLIENT / "whereish.js"),
         str(files.folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    files.check(json.loads(done.stdout))


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
@pytest.mark.slow
def test_ratios_are_decided_as_python_decides_them(tmp_path: Path) -> None:
    """One count below, at and above the limit of a ratio, for generated places and levels."""
    rng = np.random.default_rng(5)
    expected = {}
    for number in range(600):
        at = rng.uniform(-1, 1, 2) * 10 ** rng.uniform(-3, 3)
        where = wh.Places.from_xy([[0.1, -0.2], at.tolist()])
        apart = float(np.hypot(*(where.xy[1] - where.xy[0])))
        level = float(np.clip(rng.uniform(1e-6, 45) / apart, 1e-9, 1e9))
        limits = Limits(level, where.xy)
        factor, shift = int(limits.factor[0, 1]), int(limits.shift[0, 1])
        most = ((2**63 - 1) << shift) // factor
        low = int(rng.integers(1, max(2, min(most, 2**62))))
        high = min((factor * low >> shift) + int(rng.integers(-1, 2)), 2**63 - 1)
        counts = np.array([[high, 2**63 - high], [low, 2**63 - low]], np.uint64)
        content = made_of(where, counts, level)
        (tmp_path / str(number)).write_bytes(content)
        try:
            wh.load_mechanism(tmp_path / str(number))
            expected[str(number)] = "taken"
            # And what is taken holds by the definition, by code of neither.
            assert broken_counts(counts.tolist(), level, where.xy.tolist()) == []
        except wh.GuaranteeError:
            expected[str(number)] = "GuaranteeError"
    assert 100 < list(expected.values()).count("taken") < 500
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "verdicts.js"), str(CLIENT / "whereish.js"),
         str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == expected


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
@pytest.mark.slow
def test_what_is_changed_at_random_is_judged_alike(tmp_path: Path) -> None:
    """The client takes what Python's audit takes, and nothing that Python cannot load."""
    bases = [forgeries.honest_base(), *list(forgeries.honest().values())[::5]]
    loaded, audited = set(), set()
    for number, content in enumerate(mangled(bases, 700, 3)):
        path = tmp_path / str(number)
        path.write_bytes(content)
        with contextlib.suppress(wh.FormatError, wh.GuaranteeError):
            wh.load_mechanism(path)
            loaded.add(str(number))
            wh.audit_file(path)
            audited.add(str(number))
    assert 50 < len(audited) < 500
    done = subprocess.run(
        [str(NODE), str(CLIENT / "test" / "verdicts.js"), str(CLIENT / "whereish.js"),
         str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said: dict[str, str] = json.loads(done.stdout)
    taken = {number for number, word in said.items() if word.startswith("taken")}
    assert audited <= taken <= loaded
    assert {word for number, word in said.items() if number not in taken} == REFUSED


IN_NODE = """
import { readFileSync } from "node:fs";
const { readMechanism } = await import(process.argv[1]);
const { certificate } = await readMechanism(readFileSync(process.argv[2]), { warn: false });
process.stdout.write(JSON.stringify([certificate, Object.isFrozen(certificate)]));
"""
CHECKED = {
    "certified", "epsilon", "epsilon_unit", "metric", "places", "outputs", "ratios_checked",
    "largest_snap_km", "prior_sha256", "quality_loss_km",
}  # fmt: skip


@pytest.mark.skipif(NODE is None, reason="there is no node to run the client in")
@pytest.mark.parametrize("kept", [True, False])
def test_the_client_repeats_no_claim_that_it_has_not_checked(tmp_path: Path, kept: bool) -> None:
    """Words, bounds and the least room are the file's own: they are not in `certificate`."""
    arrays, told, claimed = forgeries.taken_apart(forgeries.honest_base())
    if not kept:
        arrays = {k: v for k, v in arrays.items() if not k.startswith(("proof_", "prior"))}
    lies = {
        "guarantee": ["This mechanism has epsilon 0.0001: perfect privacy."], "worst_slack": 999,
        "worst_slack_at": {"places": [0, 0], "output": 77}, "method": "perfect", "gap": 0.0,
        "lower_bound_km": 1e-9, "rounding_cost_km": 0.0, "created": "tomorrow",
    }  # fmt: skip
    path = tmp_path / "lies"
    path.write_bytes(forgeries.file_of(arrays, told, {**claimed, **lies}))
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", IN_NODE, str(CLIENT / "whereish.js"), str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said, frozen = json.loads(done.stdout)
    expected = {name: claimed[name] for name in CHECKED}
    if not kept:
        expected |= {"prior_sha256": None, "quality_loss_km": None}
    for name in ("largest_snap_km", "quality_loss_km"):  # worked out there: to the last digits
        if expected[name] is not None:
            expected[name] = pytest.approx(expected[name], rel=1e-9)
    assert said == expected
    assert frozen


@functools.cache
def pattern() -> tuple[forgeries.Arrays, Any, Any]:
    where = wh.Places.from_xy([[0, 0], [1, 0]])
    made = wh.Mechanism(np.full((2, 2), 0.5), where, where, 1.0)
    return forgeries.taken_apart(mechanism_bytes(made))


def made_of(where: wh.Places, counts: Any, level: float) -> bytes:
    arrays, told, claimed = pattern()
    return forgeries.file_of(
        {**arrays, "counts": counts, "inputs": where.xy, "outputs": where.xy},
        {**told, "epsilon": level},
        {**claimed, "epsilon": level, "largest_snap_km": where.largest_snap_km},
    )


@pytest.mark.thorough
@pytest.mark.heavy
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_chromium_refuses_what_is_forged_and_takes_the_rest(files: Files) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with site(files=files.folder) as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address)
        numbers = [str(number) for number in range(len(files.names))]
        said: dict[str, str] = page.evaluate(IN_A_PAGE, numbers)
    files.check(said)
