"""The commands of the service: serve, and keys for its clients."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from whereish.cli.console import Facts, command, emit, say
from whereish.cli.options import AS_JSON, CLUSTER_HELP, argument, flag, option
from whereish.errors import InputError
from whereish.maps import read_map
from whereish.places.validation import as_number, as_whole
from whereish.service.limits import Limits
from whereish.service.logs import LEVELS, start_logging
from whereish.service.settings import (
    DATABASE_VARIABLE,
    SECRET_VARIABLE,
    Settings,
    default_folder,
    private_folder,
)
from whereish.units import duration_s

_LISTEN, _DATA, _SOLVE, _LIMITS, _PAGE = "Address", "Data", "Solving", "Limits", "The page"
_FOLDER = option(None, "Jobs and keys. If not given: ~/.local/share/whereish.", _DATA, "FOLDER")
_DATABASE = option(
    None, "Use PostgreSQL.", _DATA, "URL", envvar=DATABASE_VARIABLE, show_envvar=True
)
_DEFAULT = Limits()

if TYPE_CHECKING:
    from whereish.service.auth.keys import Keys

keys_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of a service.")


@command
def serve(
    host: str = option("127.0.0.1", "Listen here.", _LISTEN, "NAME"),
    port: int = option(8765, "0 takes a free port.", _LISTEN),
    allow_host: list[str] | None = option(
        None, "Answer to this name, too, e.g. behind a proxy.", _LISTEN, "NAME"
    ),
    folder: Path | None = _FOLDER,
    database: str | None = _DATABASE,
    retention: str = option("24h", "Keep finished jobs: 90m, 24h, 7d.", _DATA, "TIME"),
    workers: int | None = option(None, "Solves at a time. If not given: all cores.", _SOLVE),
    cluster: str | None = option(None, CLUSTER_HELP, _SOLVE, "ADDRESS"),
    memory: float = option(_DEFAULT.memory_gb, "For each solve.", _SOLVE, "GB"),
    time_limit: float = option(_DEFAULT.time_limit_s, "For each solve.", _SOLVE, "SECONDS"),
    places: int = option(_DEFAULT.places, "Places of a mechanism.", _LIMITS),
    body: int = option(_DEFAULT.body_bytes, "Bytes of a request.", _LIMITS),
    queue: int = option(_DEFAULT.queue, "Jobs that wait.", _LIMITS),
    jobs: int = option(_DEFAULT.jobs_per_key, "Jobs of one key.", _LIMITS),
    rate: int = option(_DEFAULT.posts_per_minute, "New jobs of one key in a minute.", _LIMITS),
    reads: int = option(
        _DEFAULT.reads_per_second, "Other requests of one key in a second.", _LIMITS
    ),
    streams: int = option(_DEFAULT.streams_per_key, "Open event streams of one key.", _LIMITS),
    connections: int | None = option(None, "Open connections (2000, or as the system).", _LIMITS),
    connections_per_address: int | None = option(
        None, "From one address (200; from this machine: any).", _LIMITS
    ),
    open_page: bool = flag("--open", "Open the page in a browser.", _PAGE),
    tiles: str | None = option(None, "A .pmtiles file, or the address of tiles.", _PAGE, "MAP"),
    map_: Path | None = option(
        None, "A map of whereish map, under the data of the page.", _PAGE, "FILE", "--map"
    ),
    tiles_credit: str = option(
        "", "Shown on the map: who made the tiles.", _PAGE, show_default=False
    ),
    log_level: str | None = option(
        None, "debug, info, warning or error.", None, "LEVEL", choices=LEVELS
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Serve the HTTP API and the page, until Ctrl-C.

    Without keys it listens on this machine only. No endpoint takes a true location.
    """
    from whereish.service.http.server import serve as listen

    level = log_level or ("warning" if sys.stderr.isatty() else "info")
    if level not in LEVELS:
        raise InputError(f"log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    if tiles is not None and not _are_tiles(tiles):
        raise InputError(
            "tiles must be a .pmtiles file, or an address like https://host/{z}/{x}/{y}.png, got "
            f"{tiles}"
        )
    if map_ is not None:
        if tiles is not None:
            raise InputError("give --map or --tiles, not both")
        if map_.suffix.lower() not in (".geojson", ".json"):
            raise InputError(f"map must be a .geojson file of whereish map, got {map_}")
        tiles, tiles_credit = str(map_.resolve()), read_map(map_).attribution
    for name, given in (
        ("places", places), ("body", body), ("queue", queue), ("jobs", jobs), ("rate", rate),
        ("reads", reads), ("streams", streams), ("connections", connections),
        ("connections-per-address", connections_per_address),
    ):  # fmt: skip
        if given is not None:
            as_whole(name, given)
    as_number("memory", memory, unit="GB")
    as_number("time-limit", time_limit, unit="seconds")
    settings = Settings(
        folder or default_folder(), host, port, database, workers, duration_s(retention),
        Limits(
            body_bytes=body, places=places, memory_gb=memory, time_limit_s=time_limit, queue=queue,
            jobs_per_key=jobs, posts_per_minute=rate, reads_per_second=reads,
            streams_per_key=streams, connections=connections,
            connections_per_address=connections_per_address,
        ),
        tuple(allow_host or ()), tiles, tiles_credit, cluster,
    )  # fmt: skip
    start_logging(level)
    if database is not None and SECRET_VARIABLE not in os.environ:
        say(
            f"{SECRET_VARIABLE} is not set: the secret of this folder is used, and no other server "
            "has it"
        )

    def ready(url: str) -> None:
        say(f"Whereish is at {url} (the API: {url}/docs). Ctrl-C stops it.")
        if as_json:
            emit({"url": url, "pid": os.getpid()})
            sys.stdout.flush()
        if open_page:
            webbrowser.open(url)

    listen(settings, ready)
    say("Stopped. Unfinished jobs continue at the next start.")
    # Threads of the queue must not delay the exit.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@keys_app.command("add")
@command
def add(
    name: str = argument(None, "A name for the key."),
    folder: Path | None = _FOLDER,
    database: str | None = _DATABASE,
    as_json: bool = AS_JSON,
) -> Facts:
    """Make a key and show it once. Only a digest of it is stored."""
    made = _keys(folder, database).add(name)
    if not as_json:
        say("This is the key. It cannot be shown again:")
        sys.stdout.write(made + "\n")
    return {"name": name, "key": made}


@keys_app.command("list")
@command
def list_(
    folder: Path | None = _FOLDER, database: str | None = _DATABASE, as_json: bool = AS_JSON
) -> None:
    """List the keys with their names and dates."""
    found = _keys(folder, database, there=True).list()
    if as_json:
        emit([vars(key) for key in found])
        return
    if not found:
        say("There are no keys: the service listens on this machine only, and needs none.")
    for key in found:
        say(f"{key.id}  {key.created}  {key.name}")


@keys_app.command("revoke")
@command
def revoke(
    name: str = argument(None, "The key's name or id."),
    folder: Path | None = _FOLDER,
    database: str | None = _DATABASE,
    as_json: bool = AS_JSON,
) -> Facts:
    """Revoke a key and delete its jobs. Servers refuse it within a second."""
    _keys(folder, database, there=True).revoke(name)
    say(f"{name} is revoked, and its jobs are deleted.")
    return {"revoked": name}


def _are_tiles(given: str) -> bool:
    if re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?/[^\s;,'\"]*", given):
        return given.endswith(".pmtiles") or all(part in given for part in ("{z}", "{x}", "{y}"))
    return given.endswith(".pmtiles") and Path(given).is_file()


def _keys(folder: Path | None, database: str | None, *, there: bool = False) -> Keys:
    from whereish.service.auth.keys import Keys as Made
    from whereish.service.jobs.database import Database

    settings = Settings(folder or default_folder(), database=database)
    if database is None and there and not (settings.folder / "whereish.sqlite").exists():
        raise InputError(
            f"folder must be one with keys or jobs in it, got {settings.folder}: whereish keys add "
            "NAME makes the first"
        )
    folder = settings.folder if database else private_folder(settings.folder)
    return Made(Database(folder, settings.database))
