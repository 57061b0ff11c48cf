"""The same batch on a Ray cluster of two nodes on loopback: equal, and not to be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import whereish as wh
from clusters import Nodes
from test_batch import counts, people, run, summary, table

pytest.importorskip("ray", reason="Ray is not installed: pip install 'whereish[cluster]'")

pytestmark = pytest.mark.xdist_group("heavy")


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.stop()


def start(source: Path, output: Path, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "whereish", "batch", str(source), "-o", str(output),
               "--epsilon", "1.07", "--cluster", address]  # fmt: skip
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_a_cluster_gives_the_same_and_a_dead_worker_changes_nothing(
    nodes: Nodes, tmp_path: Path
) -> None:
    source = table(tmp_path, people(80, places=30))
    running = start(source, tmp_path / "cluster", nodes.address)
    killed = 0
    while running.poll() is None:
        ready = len(list((tmp_path / "cluster").glob("*.whereish")))
        workers = nodes.processes("ray::build")
        if killed < 2 and ready >= 10 * (killed + 1) and workers:
            os.kill(workers[0], signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    said = running.communicate()[1]
    assert running.returncode == 0, said
    assert killed > 0
    rows = summary(tmp_path / "cluster")
    assert len(rows) == len({row["user"] for row in rows}) == 80
    assert {row["state"] for row in rows} == {"done"}
    run(source, tmp_path / "here", workers=2)
    assert counts(tmp_path / "cluster") == counts(tmp_path / "here")
    for file in (tmp_path / "cluster").glob("*.whereish"):
        assert wh.audit_file(file)["certified"]


def test_when_the_head_is_gone_the_rest_is_done_later(nodes: Nodes, tmp_path: Path) -> None:
    source = table(tmp_path, people(150, places=30))
    running = start(source, tmp_path / "out", nodes.address)
    while len(list((tmp_path / "out").glob("*.whereish"))) < 30:
        assert running.poll() is None
        time.sleep(0.05)
    nodes.kill()
    said = running.communicate(timeout=120)[1]
    assert running.returncode != 0
    assert "Traceback" not in said, said
    for file in (tmp_path / "out").glob("*.whereish"):
        wh.load_mechanism(file)
    done = run(source, tmp_path / "out", workers=2)
    assert done.kept > 0
    assert done.built + done.kept == 150
