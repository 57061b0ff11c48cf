"""A Ray cluster of two nodes on loopback, for tests: started, killed and stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
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


class Nodes:
    """A cluster of two nodes, each with a core."""

    def __init__(self, port: int | None = None) -> None:
        # Not below pytest's own folder: the names of Ray's sockets would be too long.
        self.folder = Path(tempfile.mkdtemp(prefix="whereish-ray-"))
        told = {"temp_dir": str(self.folder)} | ({} if port is None else {"gcs_server_port": port})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER, json.dumps(told)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, start_new_session=True,
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
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
