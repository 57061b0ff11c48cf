"""The same batch on a Ray cluster of two nodes on this machine: equal, also after deaths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import whereish as wh
from clusters import Nodes
from serving import wait_until
from stepping import halting
from test_batch import counts, people, run, summary, table

pytest.importorskip("ray", reason="Ray is not installed: pip install 'whereish[cluster]'")

pytestmark = pytest.mark.heavy


# Its worker dies twice, each time as it is about to write somebody's file.
_DEADLY = """
import os, signal, sys
from pathlib import Path
from whereish.batch import open_engine, run_batch
from whereish.batch.output import Folder
from whereish.profiles import People
from whereish.spec import BuildOptions

class Deadly(Folder):
    def write(self, name, content):
        died = Path(f"{self.path}.died-over-{name}")
        if name in ("user-0003.whereish", "user-0041.whereish") and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, content)

engine = open_engine(cluster=sys.argv[3])
people, options = People(Path(sys.argv[1])), BuildOptions(epsilon_per_km=1.07)
done = run_batch(people, options, Deadly(Path(sys.argv[2])), engine)
engine.close()
print(done.built, done.kept, done.failed)
"""


@pytest.mark.thorough
def test_a_cluster_gives_the_same_and_a_dead_worker_changes_nothing(
    nodes: Nodes, tmp_path: Path
) -> None:
    source, out = table(tmp_path, people(80, places=30)), tmp_path / "cluster"
    command = [sys.executable, "-c", _DEADLY, str(source), str(out), nodes.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["80", "0", "0"]
    died = {path.name for path in tmp_path.glob("cluster.died-over-*")}
    assert len(died) == 2, "its workers were to die"
    rows = summary(out)
    assert len(rows) == len({row["user"] for row in rows}) == 80
    assert {row["state"] for row in rows} == {"done"}
    run(source, tmp_path / "here", workers=2)
    assert counts(out) == counts(tmp_path / "here")
    for file in out.glob("*.whereish"):
        assert wh.audit_file(file)["certified"]


def profile(folder: Path, count: int) -> Path:
    """Write a profile on a grid as wide as a city, with a prior as skewed as people's."""
    prior = np.random.default_rng(count).gamma(0.3, size=count)
    places = wh.Places.from_latlon(
        [[39.8 + 0.0064 * (i // 20), 116.3 + 0.0077 * (i % 20)] for i in range(count)]
    )
    wh.write_profile(folder / "who.json", wh.Profile(places, prior / prior.sum()))
    return folder / "who.json"


def build(source: Path, output: Path, *options: str) -> list[str]:
    """Return the words of a command that builds, with the facts as JSON."""
    return ["build", str(source), "-o", str(output), "--epsilon", "1.07", "--json", *options]


# The group itself says that it is about to answer an all-reduce, in the middle of the solve: there
# are some 14 in a step, and a checkpoint every 25 of some 90 steps. This is after the first one.
ANSWER, AT = "whereish.distributed.ray_solver:_Group._answer", 600


def test_one_solve_on_two_machines_is_the_local_one_though_a_member_dies(
    nodes: Nodes, tmp_path: Path
) -> None:
    """200 places, to the last bit; and what comes of it is audited."""
    source = profile(tmp_path, 200)
    far_file, here_file = tmp_path / "far.whereish", tmp_path / "here.whereish"
    with halting(ANSWER, AT, *build(source, far_file, "--cluster", nodes.address)) as running:
        running.wait()
        members = nodes.processes("ray::MemberProcess")
        assert len(members) == 2
        os.kill(members[0], signal.SIGKILL)
        running.resume()
        out, said = running.process.communicate()
        assert running.process.returncode == 0, said
    far = json.loads(out)
    assert any("2 machines of a cluster" in note for note in far["notes"]), out
    command = [sys.executable, "-m", "whereish", *build(source, here_file)]
    here = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert abs(far["quality_loss_km"] - here["quality_loss_km"]) <= 1e-8
    far_m, _ = wh.load_mechanism(far_file)
    here_m, _ = wh.load_mechanism(here_file)
    assert (far_m.counts == here_m.counts).all()
    assert wh.audit_file(far_file)["certified"]


@pytest.mark.thorough
def test_ctrl_c_ends_a_solve_on_a_cluster_with_the_best_so_far(
    nodes: Nodes, tmp_path: Path
) -> None:
    source, file = profile(tmp_path, 300), tmp_path / "far.whereish"
    with halting(ANSWER, AT, *build(source, file, "--cluster", nodes.address)) as running:
        running.wait()
        running.process.send_signal(signal.SIGINT)
        running.resume()
        out, said = running.process.communicate()
        assert running.process.returncode == 130, said
    assert json.loads(out)["stopped"] == "asked"
    assert wh.audit_file(file)["certified"]
    wait_until(lambda: nodes.processes("ray::MemberProcess") == [])


@pytest.mark.thorough
def test_when_the_head_is_gone_the_rest_is_done_later(nodes: Nodes, tmp_path: Path) -> None:
    source = table(tmp_path, people(100, places=30))
    with halting(
        "whereish.batch.journal:Journal.add", 30, "batch", str(source),
        "-o", str(tmp_path / "out"), "--epsilon", "1.07", "--cluster", nodes.address,
    ) as running:  # fmt: skip
        running.wait()
        nodes.kill()
        running.resume()
        said = running.process.communicate()[1]
        # Ray itself would end the process after a minute, with exit code 1.
        assert running.process.returncode == 3, said
    assert "the cluster does not answer any more: finished files are kept" in said, said
    assert "Traceback" not in said, said
    for file in (tmp_path / "out").glob("*.whereish"):
        wh.load_mechanism(file)
    done = run(source, tmp_path / "out", workers=2)
    assert done.kept > 0
    assert done.built + done.kept == 100
