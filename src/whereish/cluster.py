"""A Ray cluster that is there already. Nothing of ours starts, stops or schedules machines."""

from __future__ import annotations

import contextlib
import importlib
import socket
from typing import Any

from whereish.errors import InputError


def join_cluster(address: str) -> Any:
    """Join the cluster at an address, ``auto`` or HOST:PORT, and return the module `ray`.

    Who has joined already stays where they are.

    Raises
    ------
    InputError
        If Ray is not installed, or nobody answers.
    """
    if not isinstance(address, str) or not address:
        raise InputError(f"cluster must be auto, or HOST:PORT of a Ray cluster, got {address!r}")
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "a cluster needs Ray: pip install 'whereish[cluster]', on every machine of it"
        ) from None
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
    return ray


def leave_cluster(ray: Any) -> None:
    """Leave it; whatever it still does for us ends."""
    with contextlib.suppress(Exception):
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise InputError at once where nobody listens: Ray itself would wait for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return
    except (OSError, ValueError, OverflowError):
        raise InputError(
            f"cluster must be auto, or HOST:PORT of a Ray cluster that answers, got {address}"
        ) from None


def machines_of(ray: Any) -> list[tuple[str, int]]:
    """Return the machines of a cluster that have cores: names and how many, most first."""
    found = [
        (str(node["NodeID"]), int(node["Resources"].get("CPU", 0)))
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    ]
    return sorted(found, key=lambda node: (-node[1], node[0]))
