"""The commands of the service: serve, and keys for its clients."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whereish.cli.completion import one_of
from whereish.cli.console import command, emit, say
from whereish.errors import InputError
from whereish.places.validation import as_number, as_whole
from whereish.service.limits import Limits
from whereish.service.settings import (
    DATABASE_VARIABLE,
    SECRET_VARIABLE,
    Settings,
    default_folder,
    duration_s,
    private_folder,
)

Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Jobs and keys. If not given: ~/.local/share/whereish.",
        rich_help_panel="Data",
    ),
]  # fmt: skip
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar=DATABASE_VARIABLE, show_envvar=True,
        help="Use PostgreSQL.", rich_help_panel="Data",
    ),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
_DEFAULT = Limits()
_LISTEN, _SOLVE, _LIMITS, _PAGE = "Address", "Solving", "Limits", "The page"

if TYPE_CHECKING:
    from whereish.service.auth.keys import Keys

keys_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of a service.")


@command
def serve(
    host: Annotated[
        str, typer.Option(metavar="NAME", help="Listen here.", rich_help_panel=_LISTEN)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="0 takes a free port.", rich_help_panel=_LISTEN)
    ] = 8765,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Answer to this name, too, e.g. behind a proxy.",
            rich_help_panel=_LISTEN,
        ),
    ] = None,
    folder: Folder = None,
    database: DatabaseUrl = None,
    retention: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Keep finished jobs: 90m, 24h, 7d.", rich_help_panel="Data"
        ),
    ] = "24h",
    workers: Annotated[
        int | None,
        typer.Option(help="Solves at a time. If not given: all cores.", rich_help_panel=_SOLVE),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Use a Ray cluster: auto, or HOST:PORT.",
            rich_help_panel=_SOLVE,
        ),
    ] = None,
    memory: Annotated[
        float, typer.Option(metavar="GB", help="For each solve.", rich_help_panel=_SOLVE)
    ] = _DEFAULT.memory_gb,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="For each solve.", rich_help_panel=_SOLVE)
    ] = _DEFAULT.time_limit_s,
    places: Annotated[
        int, typer.Option(help="Places of a mechanism.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.places,
    body: Annotated[
        int, typer.Option(help="Bytes of a request.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.body_bytes,
    queue: Annotated[
        int, typer.Option(help="Jobs that wait.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.queue,
    jobs: Annotated[
        int, typer.Option(help="Jobs of one key.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.jobs_per_key,
    rate: Annotated[
        int, typer.Option(help="New jobs of one key in a minute.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.posts_per_minute,
    reads: Annotated[
        int, typer.Option(help="Other requests of one key in a second.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.reads_per_second,
    streams: Annotated[
        int, typer.Option(help="Open event streams of one key.", rich_help_panel=_LIMITS)
    ] = _DEFAULT.streams_per_key,
    connections: Annotated[
        int | None,
        typer.Option(help="Open connections (2000, or as the system).", rich_help_panel=_LIMITS),
    ] = None,
    connections_per_address: Annotated[
        int | None,
        typer.Option(
            help="From one address (200; from this machine: any).",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser.", rich_help_panel=_PAGE)
    ] = False,
    tiles: Annotated[
        str | None,
        typer.Option(
            metavar="MAP", help="A .pmtiles file, or the address of tiles.",
            rich_help_panel=_PAGE,
        ),
    ] = None,
    tiles_credit: Annotated[
        str,
        typer.Option(help="Shown on the map: who made the tiles.", rich_help_panel=_PAGE,
                     show_default=False),
    ] = "",
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL", help="debug, info, warning or error.",
            autocompletion=one_of(("debug", "info", "warning", "error")),
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Serve the HTTP API and the page, until Ctrl-C.

    Without keys it listens on this machine only. No endpoint takes a true location.
    """
    from whereish.service.http.server import serve as listen
    from whereish.service.logs import LEVELS, start_logging

    level = log_level or ("warning" if sys.stderr.isatty() else "info")
    if level not in LEVELS:
        raise InputError(f"log-level must be one of {', '.join(LEVELS)}, got {level!r}")
    if tiles is not None and not _are_tiles(tiles):
        raise InputError(
            "tiles must be a .pmtiles file, or an address like https://host/{z}/{x}/{y}.png, got "
            f"{tiles}"
        )
    for flag, value in (
        ("places", places), ("body", body), ("queue", queue), ("jobs", jobs), ("rate", rate),
        ("reads", reads), ("streams", streams),
    ):  # fmt: skip
        as_whole(flag, value)
    for flag, given in (
        ("connections", connections), ("connections-per-address", connections_per_address),
    ):  # fmt: skip
        if given is not None:
            as_whole(flag, given)
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
    name: Annotated[str, typer.Argument(help="A name for the key.")],
    folder: Folder = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it once. Only a digest of it is stored."""
    made = _keys(folder, database).add(name)
    if as_json:
        emit({"name": name, "key": made})
        return
    say("This is the key. It cannot be shown again:")
    sys.stdout.write(made + "\n")


@keys_app.command("list")
@command
def list_(folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
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
    name: Annotated[str, typer.Argument(help="The key's name or id.")],
    folder: Folder = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key and delete its jobs. Servers refuse it within a second."""
    _keys(folder, database, there=True).revoke(name)
    say(f"{name} is revoked, and its jobs are deleted.")
    if as_json:
        emit({"revoked": name})


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
