"""A format of traces is one class and one line: everything else finds it in the registry."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner

import whereish as wh
from whereish.cli import app
from whereish.traces import KINDS, READERS, open_traces, register
from whereish.traces.readers.points import Point, PointReader


class Log(PointReader):
    """A made-up format: a line is seconds since 1970, a latitude and a longitude."""

    name: ClassVar[str] = "log"
    words: ClassVar[str] = "a made-up format."
    suffixes: ClassVar[tuple[str, ...]] = (".log",)

    def sniff(self, file: Path, head: bytes) -> bool:
        return head.startswith(b"LOG")

    def points(self, file: Path) -> Iterator[Point]:
        for number, line in enumerate(file.read_text().splitlines()[1:], start=2):
            time, lat, lon = line.split()
            yield time, lat, lon, number


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WHEREISH_CACHE", str(tmp_path / "cache"))
    register(Log())
    file = tmp_path / "walk.log"
    rows = [f"{1_700_000_000 + 600 * k} {48.85 + 0.001 * (k % 7)} 2.35" for k in range(200)]
    file.write_text("LOG\n" + "\n".join(rows))
    yield file
    del READERS["log"]


def test_the_library_reads_a_new_format(log: Path) -> None:
    for kind in (None, "log"):
        traces = open_traces(log, kind)
        assert traces.kind == "log"
        (batch,) = traces.batches()
        assert len(batch) == 200
        assert batch["user"][0] == "walk"
    bare = log.rename(log.with_name("walk"))  # found by how it begins
    assert open_traces(bare).kind == "log"
    with pytest.raises(wh.InputError, match=r"must be one of .*\blog\b"):
        open_traces(bare, "kml")


def test_the_command_line_reads_a_new_format(log: Path, tmp_path: Path) -> None:
    profiles = []
    for flags in ([], ["--kind", "log"]):
        output = tmp_path / "me.csv"
        done = CliRunner().invoke(app, ["profile", str(log), *flags, "-o", str(output), "--json"])
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["rows"]["kept"] == 200
        assert "1 log file" in done.stderr
        profiles.append(output.read_bytes())
    assert profiles[0] == profiles[1]
    shown = CliRunner().invoke(app, ["profile", "--help"], env={"COLUMNS": "200"}).output
    assert "log" in KINDS
    assert ", ".join(KINDS) in " ".join(shown.split())


def test_a_mixed_folder_is_read_in_the_order_of_the_registry(log: Path) -> None:
    (log.parent / "a.gpx").write_text("<gpx></gpx>")
    traces = open_traces(log.parent)
    assert (traces.kind, traces.left_out) == ("gpx", {"log": 1})
    assert open_traces(log.parent, "log").left_out == {"gpx": 1}


def test_the_documentation_lists_every_format() -> None:
    page = (Path(__file__).parent.parent / "docs" / "traces.md").read_text()
    lines = [
        textwrap.fill(f"- `{reader.name}`: {reader.words}", 100, subsequent_indent="  ")
        for reader in READERS.values()
    ]
    for line in lines:
        assert line in page, f"docs/traces.md must have this entry:\n{line}"
    assert "\n".join(lines) in page, "docs/traces.md must have the formats in the registry's order"
