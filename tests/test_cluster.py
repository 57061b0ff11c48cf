"""The same batch on a Ray cluster of two nodes on loopback: equal, and not to be stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
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
    said = running.communicate(timeout=45)[1]  # before Ray would end the process, its way
    assert running.returncode == 3, said
    assert "the cluster is gone: what is done is kept" in said, said
    assert "Traceback" not in said, said
    for file in (tmp_path / "out").glob("*.whereish"):
        wh.load_mechanism(file)
    done = run(source, tmp_path / "out", workers=2)
    assert done.kept > 0
    assert done.built + done.kept == 150


def profile(folder: Path, count: int) -> Path:
    """Write a profile on a grid as wide as a city, with a prior as skewed as people's."""
    prior = np.random.default_rng(count).gamma(0.3, size=count)
    places = wh.Places.from_latlon(
        [[39.8 + 0.0064 * (i // 20), 116.3 + 0.0077 * (i % 20)] for i in range(count)]
    )
    wh.write_profile(folder / "who.json", wh.Profile(places, prior / prior.sum()))
    return folder / "who.json"


def build(source: Path, output: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "whereish", "build", str(source), "-o", str(output),
               "--epsilon", "1.07", "--json", *options]  # fmt: skip
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def when_busy(nodes: Nodes, running: subprocess.Popen[str], seconds: float) -> list[int]:
    """Wait until the two who hold the blocks have worked for so long; return them."""
    while running.poll() is None:
        members = nodes.processes("ray::Member")
        if len(members) == 2 and min(map(worked_s, members), default=0.0) > seconds:
            return members
        time.sleep(0.05)
    raise AssertionError(running.communicate())


def worked_s(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return int(words[11]) / os.sysconf("SC_CLK_TCK")


def test_one_solve_on_two_machines_is_the_local_one_though_a_member_dies(
    nodes: Nodes, tmp_path: Path
) -> None:
    """200 places, to the last bit; and what comes of it is audited."""
    source = profile(tmp_path, 200)
    running = build(source, tmp_path / "far.whereish", "--cluster", nodes.address)
    os.kill(when_busy(nodes, running, 3.0)[0], signal.SIGKILL)
    out, said = running.communicate(timeout=300)
    assert running.returncode == 0, said
    assert any("2 machines of a cluster" in note for note in json.loads(out)["notes"]), out
    alone = build(source, tmp_path / "here.whereish")
    here, _ = alone.communicate(timeout=300)
    far = json.loads(out)
    assert abs(far["quality_loss_km"] - json.loads(here)["quality_loss_km"]) <= 1e-8
    far_m, _ = wh.load_mechanism(tmp_path / "far.whereish")
    here_m, _ = wh.load_mechanism(tmp_path / "here.whereish")
    assert (far_m.counts == here_m.counts).all()
    assert wh.audit_file(tmp_path / "far.whereish")["certified"]


def test_ctrl_c_ends_a_solve_on_a_cluster_with_the_best_so_far(
    nodes: Nodes, tmp_path: Path
) -> None:
    running = build(profile(tmp_path, 300), tmp_path / "far.whereish", "--cluster", nodes.address)
    when_busy(nodes, running, 3.0)
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=120)
    assert running.returncode == 130, said
    assert json.loads(out)["stopped"] == "asked"
    assert wh.audit_file(tmp_path / "far.whereish")["certified"]
    assert nodes.processes("ray::Member") == []
