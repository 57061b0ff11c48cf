"""What a service may be told: where it listens and keeps things, and how much it lets anyone do."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from whereish.errors import InputError
from whereish.limits import MEMORY_GB, SERVICE_PLACES, SERVICE_TIME_S
from whereish.places.validation import as_number, as_whole

SECRET_VARIABLE = "WHEREISH_SECRET"  # noqa: S105
DATABASE_VARIABLE = "WHEREISH_DATABASE"
_LONGEST_S = 3653 * 86400.0
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]+\]")
_DURATION = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# What a connection may do, with a key or without. These are no flags: no honest client needs more.
MOST_HEADERS = 64 * 1024  # bytes of a request line with its headers
MOST_HEADER_LINES = 100
MOST_FRAMING = 64 * 1024  # bytes of chunk sizes and extensions beyond the size of the body itself
LONGEST_PATH = 512  # bytes
HEADERS_S = 10.0  # from the first byte of a request, or from connecting, to the end of its headers
PIECE_S = 10.0  # from one piece of a body to the next
BODY_S = 120.0  # from the end of the headers to the end of the body
IDLE_S = 30.0  # from an answer to the next request
WRITE_S = 60.0  # without the client taking any byte of an answer that waits for it
LINGER_S = 5.0  # after an answer that came before the end of its request, so that it can be read
LINGER_BYTES = 8 * 2**20  # of such a request that are thrown away
SEND_BUFFER = 128 * 1024  # bytes of an answer that the operating system keeps for a slow client
MOST_CONNECTIONS = 2000
MOST_PER_ADDRESS = 200
MOST_BODIES = 256 * 2**20  # bytes of all bodies that are being read or wait to be


@dataclass(frozen=True)
class Limits:
    """How much a service lets anyone do. Each is tested at the limit and one past it.

    Attributes
    ----------
    connections
        Open connections in all; None for 2,000, or half of the file descriptors that the operating
        system allows if that is less.
    connections_per_address
        Open connections of one client address (of one /64 network with IPv6). None for 200, and
        no limit but the one in all for this machine's own addresses, where a proxy may be.
    """

    body_bytes: int = 4 * 2**20
    places: int = SERVICE_PLACES
    memory_gb: float = MEMORY_GB
    time_limit_s: float = SERVICE_TIME_S
    queue: int = 1000
    jobs_per_key: int = 200
    posts_per_minute: int = 600
    reads_per_second: int = 20_000
    streams_per_key: int = 100
    connections: int | None = None
    connections_per_address: int | None = None

    def __post_init__(self) -> None:
        for name in (
            "body_bytes", "places", "queue", "jobs_per_key", "posts_per_minute",
            "reads_per_second", "streams_per_key",
        ):  # fmt: skip
            as_whole(name, getattr(self, name))
        for name in ("connections", "connections_per_address"):
            if getattr(self, name) is not None:
                as_whole(name, getattr(self, name))
        as_number("memory_gb", self.memory_gb, unit="GB")
        as_number("time_limit_s", self.time_limit_s, unit="seconds")


@dataclass(frozen=True)
class Settings:
    """Everything a service is told.

    Attributes
    ----------
    folder
        Where the embedded database and the secret are kept: only its owner may look inside.
    database
        A PostgreSQL URL, for several servers; None for the embedded SQLite file.
    workers
        How many solves may run at a time, each in a process of its own; None for as many as there
        are cores, here or on the cluster.
    retention_s
        How long a finished job and its file are kept when nobody deletes them.
    hosts
        Names this service answers to, besides the one it listens on.
    tiles
        A tile address or a local PMTiles file that the page may show; none unless set. Who made
        them is named on the map.
    cluster
        ``auto`` or HOST:PORT of a Ray cluster that solves; None for this machine.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    database: str | None = None
    workers: int | None = None
    retention_s: float = 86_400.0
    limits: Limits = Limits()
    hosts: tuple[str, ...] = ()
    tiles: str | None = None
    tiles_credit: str = ""
    cluster: str | None = None
    name: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        if self.workers is not None:
            as_whole("workers", self.workers)
        as_number("retention_s", self.retention_s, unit="seconds")
        if self.retention_s > _LONGEST_S:
            raise InputError("retention must be at most ten years: files are for devices to keep")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise InputError(
                    f"allow-host must be a name like whereish.example.org, got {host!r}"
                )
        if not 0 <= self.port <= 65535:
            raise InputError(f"port must be from 0 to 65535, got {self.port}")
        if self.database is not None and not self.database.startswith(
            ("postgresql://", "postgres://")
        ):
            raise InputError("database must be a URL like postgresql://user@host/name")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def server(self) -> str:
        """What this server is called among those that share a database; the same after a crash."""
        return "embedded" if self.database is None else f"{self.name}:{self.port}"


def duration_s(text: str, name: str = "retention") -> float:
    """Read a duration with its unit.

    >>> duration_s("90m"), duration_s("1d")
    (5400.0, 86400.0)
    """
    number, unit = text.strip()[:-1], text.strip()[-1:].lower()
    try:
        value = float(number) * _DURATION[unit]
    except (ValueError, KeyError):
        raise InputError(
            f"{name} must be a duration with its unit, like 90m, 24h or 7d, got {text!r}"
        ) from None
    return as_number(name, value, unit="seconds")


def default_folder() -> Path:
    """Return where a service keeps what it has to keep, when nothing else is said."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "whereish"


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner may enter, or take one that is.

    Raises
    ------
    InputError
        If it cannot be written, or is somebody's folder of other things, which others may enter.
    """
    try:
        if folder.is_dir() and folder.stat().st_mode & 0o077 and any(folder.iterdir()):
            raise InputError(
                f"folder must be new, empty, or its owner's only (chmod 700), and {folder} is not"
            )
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as wrong:
        raise InputError(
            f"folder must be one that can be written, got {folder}: {wrong.strerror}"
        ) from None
    return folder
