"""Results of benchmarks over the versions: ratios, the table of the page, no name of a machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import benchmark_history as history
import pytest

ROOT = Path(__file__).resolve().parent.parent


def row(method: str, seconds: float, seed: int = 0, state: str = "solved") -> dict[str, object]:
    told = {"places": 25, "dilation": 1.0, "seed": seed, "method": method, "state": state}
    return told | ({"seconds": seconds} if state == "solved" else {})


def test_a_ratio_is_that_of_the_fastest_peer_that_solved_all() -> None:
    rows = [row("structured", s, k) for k, s in enumerate((0.1, 0.3, 0.2))]
    rows += [row("glpk", 20.0, k) for k in range(3)] + [row("clarabel", 4.0, k) for k in range(3)]
    rows += [row("qif", 1.0, 0), row("qif", 1.0, 1), row("qif", 0, 2, "over")]
    found = history.ratios(rows)
    assert found == [{"places": 25, "dilation": 1.0, "ratio": 20.0, "peer": "clarabel"}]
    assert history.ratios(rows[:3]) == []


def test_the_page_has_the_table_of_all_kept_results() -> None:
    kept = history.kept()
    assert kept
    text = history.PAGE.read_text()
    assert text == history.page(text, kept), "run tools/benchmark_history.py draw"
    assert history.PICTURE.read_bytes().startswith(b"\x89PNG")
    for one in kept:
        assert f"| {one['version']} |" in text
        assert one["ratios"]


@pytest.mark.parametrize("file", sorted(history.KEPT.glob("[0-9]*.json")), ids=lambda f: f.stem)
def test_a_kept_result_is_small_and_names_no_machine(file: Path) -> None:
    told = json.loads(file.read_text())
    assert tuple(told) == history.FIELDS
    assert told["version"] == file.stem
    assert set(told["machine"]) == {"machine", "instruction_set", "cores"}
    assert re.fullmatch(r"[0-9a-f]{12}", told["commit"])
    assert file.stat().st_size < 4000
    assert "/home" not in file.read_text()
