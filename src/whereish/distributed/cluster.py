"""A Ray cluster that is there already. Nothing of ours starts, stops or schedules machines."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from whereish.errors import InputError, SolveError, described
from whereish.extras import require

_KNOCKS = 5
_SETTINGS = 4  # the frame with which both sides of HTTP/2 begin
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


def join_cluster(address: str) -> Any:
    """Join the cluster at an address, ``auto`` or HOST:PORT, and return the module `ray`.

    Who has joined already stays where they are.

    Raises
    ------
    InputError
        If Ray is not installed, or nobody answers.
    """
    if not isinstance(address, str) or not address:
        raise InputError(
            f"cluster must be auto, or HOST:PORT of a Ray cluster, got {described(address)}"
        )
    ray = require("ray", "every machine of a cluster")
    if ray.is_initialized():
        return ray
    _check_answers(address)
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as wrong:
        raise InputError(
            f"cluster must be the address of a Ray cluster that answers, got {address} "
            f"({type(wrong).__name__}): ray start --head starts one"
        ) from None
    _keep_standard_output(ray)
    return ray


def _keep_standard_output(ray: Any) -> None:
    """Have Ray not print, on standard output, what became of its workers: who lost them tells."""
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *told, **more: None


def check_cluster(ray: Any) -> None:
    """Raise SolveError if the head of the cluster is gone.

    To be asked now and then while waiting: a minute later Ray would end the whole process.
    """
    try:
        address = ray.get_runtime_context().gcs_address
    except Exception:  # joined by a proxy (ray://), which tells by itself
        return
    for _ in range(_KNOCKS):
        if _answers(address):
            return
        time.sleep(1.0)
    leave_cluster(ray)
    raise SolveError("the cluster is gone: nothing answers where its head was")


def leave_cluster(ray: Any) -> None:
    """Leave it; whatever it still does for us ends."""
    with contextlib.suppress(Exception):
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise InputError at once where nobody listens: Ray itself would wait for minutes."""
    if address == "auto":
        return
    if not _answers(address):
        raise InputError(
            "cluster must be auto, or HOST:PORT of the head of a Ray cluster of which this machine "
            f"is a node, and none answers at {address}: ray start --head starts one"
        )


def _answers(address: str) -> bool:
    """Tell whether somebody there speaks HTTP/2, as Ray does: Ray would ask others for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as stream:
            stream.sendall(_PREFACE)
            answer = stream.recv(9)
    except (OSError, ValueError, OverflowError):
        return False
    return len(answer) >= 4 and answer[3] == _SETTINGS


def machines_of(ray: Any) -> list[tuple[str, int]]:
    """Return the machines of a cluster that have cores: names and how many, most first."""
    found = [
        (str(node["NodeID"]), int(node["Resources"].get("CPU", 0)))
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    return sorted(found, key=lambda node: (-node[1], node[0]))
