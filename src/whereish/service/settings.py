"""The settings of a service: where it listens, where it keeps its data, which limits it has."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from whereish.errors import InputError
from whereish.places.validation import as_number, as_whole
from whereish.service.limits import FIXED, Limits

SECRET_VARIABLE = "WHEREISH_SECRET"  # noqa: S105
DATABASE_VARIABLE = "WHEREISH_DATABASE"
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]+\]")


@dataclass(frozen=True)
class Settings:
    """The settings of a service."""

    folder: Path  # of the embedded database and the secret: only its owner may read it
    host: str = "127.0.0.1"
    port: int = 8765
    database: str | None = None  # a PostgreSQL URL, for several servers; None: a file in the folder
    workers: int | None = None  # solves at a time; None: the cores of this machine or the cluster
    retention_s: float = 86_400.0  # of a finished job and its file, unless a client deletes them
    limits: Limits = field(default_factory=Limits)
    hosts: tuple[str, ...] = ()  # names that requests may use, besides the address
    # For the map of the page: an address of tiles, a local PMTiles file, or a map file (.geojson).
    tiles: str | None = None
    tiles_credit: str = ""  # the attribution that the map shows with the tiles
    cluster: str | None = None  # ``auto`` or HOST:PORT of a Ray cluster; None: this machine solves
    name: str = field(default_factory=socket.gethostname)

    def __post_init__(self) -> None:
        if self.workers is not None:
            as_whole("workers", self.workers)
        as_number("retention_s", self.retention_s, unit="seconds")
        if self.retention_s > FIXED.retention_s:
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
    def map_file(self) -> str | None:
        """The map file of ``whereish map`` under the page's data, if there is one."""
        is_file = self.tiles is not None and self.tiles.endswith((".geojson", ".json"))
        return self.tiles if is_file else None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def server(self) -> str:
        """The name of this server among those that share a database; the same after a restart."""
        return "embedded" if self.database is None else f"{self.name}:{self.port}"


def default_folder() -> Path:
    """Return the folder of a service unless the operator sets one."""
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "whereish"


def private_folder(folder: Path) -> Path:
    """Make a folder that only its owner may enter, or use such a one, or one that is empty."""
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
