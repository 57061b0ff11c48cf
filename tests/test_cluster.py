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
from test_batch import counts, people, run, summary, table

pytest.importorskip("ray", reason="Ray is not installed: pip install 'whereish[cluster]'")

pytestmark = pytest.mark.xdist_group("heavy")
# A process of its own: Ray belongs to a process, and `ray stop` would be the whole machine's.
_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class Nodes:
    """A cluster of two nodes, each with a core."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address

    def processes(self, name: str) -> list[int]:
        """Return the processes of this cluster of that name."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self._is_ours(int(entry.name)):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if name in words:
                        found.append(int(entry.name))
            except (OSError, ValueError):
                continue
        return found

    def _is_ours(self, pid: int) -> bool:
        while pid > 1:
            if pid == self._process.pid:
                return True
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        return False

    def kill(self) -> None:
        """End all of it at once, as the power does."""
        for pid in [*self.processes(""), self._process.pid]:
            if pid != self._process.pid:
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._close()

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._close()

    def _close(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


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
