"""Join a Ray cluster that runs already. Whereish starts, stops and schedules no machines."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from whereish.errors import InputError, SolveError, described
from whereish.extras import require
from whereish.retries import RETRY

_SETTINGS = 4  # the frame with which both sides of HTTP/2 begin
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


def join_cluster(address: str) -> Any:
    """Join the cluster at an address, ``auto`` or HOST:PORT, and return the module `ray`.

    A process that has joined a cluster already stays in it. InputError is raised if Ray is not
    installed, or no cluster answers.
    """
    if not isinstance(address, str) or not address:
        raise InputError(
            f"cluster must be auto, or HOST:PORT of a Ray cluster, got {described(address)}"
        )
    ray = require("ray", "every machine of a cluster")
    if ray.is_initialized():
        return ray
    # If nothing listened there, Ray itself would wait for minutes.
    if address != "auto" and not _answers(address):
        raise InputError(
            "cluster must be auto, or HOST:PORT of the head of a Ray cluster of which this machine "
            f"is a node, and none answers at {address}: ray start --head starts one"
        )
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as wrong:
        raise InputError(
            f"cluster must be the address of a Ray cluster that answers, got {address} "
            f"({type(wrong).__name__}): ray start --head starts one"
        ) from None
    # Ray would print lost workers on standard output: our own messages report them.
    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *words, **more: None
    return ray


def check_cluster(ray: Any) -> None:
    """Raise SolveError if the head of the cluster does not answer.

    Call it now and then while waiting: Ray would end the whole process a minute later.
    """
    try:
        address = ray.get_runtime_context().gcs_address
    except Exception:  # joined through a proxy (ray://), which reports a loss itself
        return
    for _ in range(RETRY.head_probes):
        if _answers(address):
            return
        time.sleep(RETRY.head_pause_s)
    leave_cluster(ray)
    raise SolveError("the cluster does not answer any more: its head is lost")


def leave_cluster(ray: Any) -> None:
    """Leave the cluster; work under way for this process ends."""
    with contextlib.suppress(Exception):
        ray.shutdown()


def _answers(address: str) -> bool:
    """Return whether a server there speaks HTTP/2, as Ray does; Ray would retry for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5) as stream:
            stream.sendall(_PREFACE)
            answer = stream.recv(9)
    except (OSError, ValueError, OverflowError):
        return False
    return len(answer) >= 4 and answer[3] == _SETTINGS


def machines_of(ray: Any) -> list[tuple[str, int]]:
    """Return name and number of cores of each machine that has some, the largest first."""
    found = [
        (str(node["NodeID"]), int(node["Resources"].get("CPU", 0)))
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    return sorted(found, key=lambda node: (-node[1], node[0]))
