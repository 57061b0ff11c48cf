"""A Ray cluster of two nodes on this machine, for tests: started, killed and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# A process of its own: Ray belongs to a process, and `ray stop` would be the whole machine's.
_CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "include_dashboard": False, **json.loads(sys.argv[1])}
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""
_LONGEST = 40  # bytes in the name of a folder: Ray's sockets below it may have 107


class Nodes:
    """A cluster of two nodes, each with a core.

    Ray writes nowhere but into a folder of this cluster: not into its default one, which a machine
    on which Ray has never run does not have.
    """

    def __init__(self) -> None:
        self._start()

    def start_again(self) -> None:
        """Start it at the same address, after a kill."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._start(int(self.address.rsplit(":", 1)[1]))

    def _start(self, port: int | None = None) -> None:
        self.folder = _short_folder()
        try:
            (self.folder / "ray").mkdir()
            self._errors = self.folder / "stderr"
            with self._errors.open("w") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _CLUSTER,
                     json.dumps({} if port is None else {"gcs_server_port": port})],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                    start_new_session=True, env=os.environ | {"RAY_TMPDIR": str(self.folder)},
                )  # fmt: skip
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        try:
            assert self._process.stdout is not None
            self.address = self._process.stdout.readline().strip()
            if not self.address:
                raise RuntimeError(f"the test cluster did not start:\n{self._words()}")
        except BaseException:
            self.kill()
            self.stop()
            raise

    @property
    def running(self) -> bool:
        """Whether it was started and not ended since."""
        return self._process.returncode is None

    def _words(self) -> str:
        """Return what the cluster said, and the last lines of Ray's own logs."""
        said = [self._errors.read_text()]
        for log in sorted(self.folder.glob("ray/session_2*/logs/*.err")):
            with contextlib.suppress(OSError):
                said.append(f"{log.name}: {log.read_text(errors='replace')[-2000:]}")
        return "\n".join(said)

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
        """Tell whether it, or what started it, is of the session in which the cluster runs."""
        while pid > 1:
            told = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            parent, session = int(told[1]), int(told[3])
            if session == self._process.pid:
                return told[0] != "Z"
            pid = parent
        return False

    def kill(self) -> None:
        """End all of it at once, as the power does; nothing of it is left."""
        while left := {*self.processes("")} - {self._process.pid}:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)  # the system needs a moment to end them
        self._process.kill()
        self._close()

    def stop(self) -> None:
        """End it as Ray does, and whatever outlives that; remove its folder."""
        try:
            if self.running:
                assert self._process.stdin is not None
                self._process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=60)
                self.kill()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def _short_folder() -> Path:
    """Make a folder whose name leaves room for those of Ray's sockets."""
    home = tempfile.gettempdir()
    with contextlib.suppress(OSError):
        made = Path(tempfile.mkdtemp(prefix="ray-", dir=home))
        if len(os.fsencode(made)) <= _LONGEST:
            return made
        made.rmdir()
    return Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
