"""The service's commands: serve, and the keys of those who may ask it."""

from __future__ import annotations

import os
import re
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
        help="Where jobs and keys are kept, readable by you only; ~/.local/share/whereish if not "
        "given."
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        envvar=DATABASE_VARIABLE, help="A PostgreSQL URL, for several servers; else a file.",
        show_envvar=True,
    ),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
_DEFAULT = Limits()

if TYPE_CHECKING:
    from whereish.service.auth.keys import Keys

keys_app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the keys of a service.")


@command
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    folder: Folder = None,
    database: DatabaseUrl = None,
    workers: Annotated[
        int | None, typer.Option(help="Solves at a time; as many as cores if not given.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Solve on a Ray cluster that is there already: auto or HOST:PORT."),
    ] = None,
    retention: Annotated[
        str, typer.Option(help="How long finished jobs are kept, like 90m, 24h or 7d.")
    ] = "24h",
    places: Annotated[int, typer.Option(help="Most places of a recipe.")] = _DEFAULT.places,
    body: Annotated[int, typer.Option(help="Most bytes of a recipe.")] = _DEFAULT.body_bytes,
    memory: Annotated[float, typer.Option(help="Gigabytes a solve may take.")] = _DEFAULT.memory_gb,
    time_limit: Annotated[
        float, typer.Option(help="Seconds a solve may take.")
    ] = _DEFAULT.time_limit_s,
    queue: Annotated[int, typer.Option(help="Most jobs that wait.")] = _DEFAULT.queue,
    jobs: Annotated[int, typer.Option(help="Most jobs of one key.")] = _DEFAULT.jobs_per_key,
    rate: Annotated[
        int, typer.Option(help="New jobs a minute and key.")
    ] = _DEFAULT.posts_per_minute,
    reads: Annotated[
        int, typer.Option(help="Other requests a second and key.")
    ] = _DEFAULT.reads_per_second,
    streams: Annotated[
        int, typer.Option(help="Open event streams of one key.")
    ] = _DEFAULT.streams_per_key,
    connections: Annotated[
        int | None,
        typer.Option(help="Open connections in all; 2000 if not given, or what the system allows."),
    ] = None,
    connections_per_address: Annotated[
        int | None,
        typer.Option(
            help="Open connections of one client address; 200 if not given, and any number from "
            "this machine, where a proxy may be."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name it answers to, e.g. behind a proxy.")
    ] = None,
    tiles: Annotated[
        str | None,
        typer.Option(help="A .pmtiles file or a tile address for the page's map; none if not set."),
    ] = None,
    tiles_credit: Annotated[
        str, typer.Option(help="Who made the tiles: shown on the map with them.")
    ] = "",
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    as_json: AsJson = False,
) -> None:
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
        say(f"{SECRET_VARIABLE} is not set: a secret of this folder is used, which no other has")

    def ready(url: str) -> None:
        say(f"Whereish is at {url} (the API: {url}/docs). Ctrl-C stops it.")
        if as_json:
            emit({"url": url, "pid": os.getpid()})
            sys.stdout.flush()
        if open_page:
            webbrowser.open(url)

    listen(settings, ready)
    say("Stopped. Jobs that were not done go on when it starts again.")
    # A solve that waits to be taken up again must not hold up the exit.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@keys_app.command("add")
@command
def add(
    name: Annotated[str, typer.Argument(help="Whose it is: for you, to tell keys apart.")],
    folder: Folder = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it, once: only a digest of it is kept."""
    made = _keys(folder, database).add(name)
    if as_json:
        emit({"name": name, "key": made})
        return
    say("This is the key. It cannot be shown again:")
    sys.stdout.write(made + "\n")


@keys_app.command("list")
@command
def list_(folder: Folder = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List the keys: their names, and since when."""
    found = _keys(folder, database, there=True).list()
    if as_json:
        emit([vars(key) for key in found])
        return
    if not found:
        say("There are no keys: the service listens on this machine only, and asks for none.")
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
    """Revoke a key, and forget its jobs: servers refuse it within a second."""
    _keys(folder, database, there=True).revoke(name)
    say(f"{name} is revoked, and its jobs are forgotten.")
    if as_json:
        emit({"revoked": name})


def _are_tiles(told: str) -> bool:
    if re.fullmatch(r"https?://[A-Za-z0-9.-]+(:\d+)?/[^\s;,'\"]*", told):
        return told.endswith(".pmtiles") or all(part in told for part in ("{z}", "{x}", "{y}"))
    return told.endswith(".pmtiles") and Path(told).is_file()


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
