"""The arrays of version 2 in Python and in JavaScript: what one refuses, the other refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import damaged
import whereish as wh
from effort import ONE_OF
from lattice_files import lattice_file

CLIENT = Path(__file__).parent.parent / "clients" / "js"
NODE = shutil.which("node") or shutil.which("node", path=str(Path(sys.executable).parent))
REFUSED = {"FormatError", "GuaranteeError"}
pytestmark = [
    pytest.mark.xdist_group("client"),
    pytest.mark.skipif(NODE is None, reason="there is no node to run the client in"),
]


SAYS = """
import { readdirSync, readFileSync } from "node:fs";
const [client, folder] = process.argv.slice(1);
const { readMechanism } = await import(client);
const said = {};
for (const name of readdirSync(folder)) {
  try {
    await readMechanism(readFileSync(`${folder}/${name}`), { warn: false });
    said[name] = ["taken", ""];
  } catch (wrong) {
    said[name] = [wrong.constructor.name, wrong.message];
  }
}
process.stdout.write(JSON.stringify(said));
"""


def client_says(folder: Path) -> dict[str, list[str]]:
    """Return the verdict of the client for each file of a folder, and its error in words."""
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", SAYS, str(CLIENT / "whereish.js"), str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    said: dict[str, list[str]] = json.loads(done.stdout)
    return said


def judged_alike(folder: Path, files: Iterable[tuple[str, damaged.Parts]]) -> tuple[int, int]:
    """Check that both readers take the same files; return how many there are and were taken."""
    names: list[str] = []
    loaded: list[bool] = []
    for number, (name, parts) in enumerate(files):
        names.append(name)
        loaded.append(damaged.certified(folder / str(number), *parts))
    assert len(set(names)) == len(names)
    said = client_says(folder)
    assert len(said) == len(names)
    different = {}
    for number, (name, fine) in enumerate(zip(names, loaded, strict=True)):
        verdict, words = said[str(number)]
        # Python's loader does not look at the certificate: it refuses a file for something else.
        refused = verdict in REFUSED and "the certificate does not hold" not in words
        if verdict != "taken" if fine else not refused:
            different[name] = fine, verdict, words
        # A number with a point would be a coordinate, a weight or a multiplier.
        assert not re.search(r"\d\.\d|\de-", words.replace("epsilon 1.07", "")), name
    assert different == {}
    return len(names), sum(loaded)


@pytest.mark.thorough
@pytest.mark.slow
def test_every_rule_of_the_arrays_is_the_same_in_both_languages(tmp_path: Path) -> None:
    count, taken = judged_alike(tmp_path, damaged.by_design())
    assert count > 300
    assert 60 < taken < count / 2


def test_arrays_that_are_changed_at_random_are_judged_alike(tmp_path: Path) -> None:
    count, taken = judged_alike(tmp_path, damaged.at_random(1200 // ONE_OF, 11))
    assert count / 8 < taken < 0.7 * count


def test_more_points_than_can_be_saved_are_refused_by_both(tmp_path: Path) -> None:
    arrays, told, claimed = damaged.bases()["noise, plane"]
    n = 1_000_001
    many = {**arrays, "points": np.zeros((n, 2)), "weights": np.full(n, 1 / n)}
    (tmp_path / "k").write_bytes(lattice_file(many, told, claimed))
    with pytest.raises(wh.FormatError, match="points must be from 1 to 1,000,000"):
        wh.load_mechanism(tmp_path / "k")
    assert client_says(tmp_path)["k"] == ["FormatError", "points must be from 1 to 1,000,000"]
