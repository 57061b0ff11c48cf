"""The limits of the service: every number with its unit and its reason.

docs/http.md has tables made from this file by tools/http_reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whereish.limits import MEMORY_GB
from whereish.places.validation import as_number, as_whole

_KIB, _MIB = 2**10, 2**20


def _limit(value: Any, unit: str, reason: str, *, flag: str = "", past: str = "") -> Any:
    """Return a field with its unit, its reason, its flag, and the answer beyond the limit."""
    about = {"unit": unit, "reason": reason, "flag": flag, "past": past}
    return field(default=value, metadata=about)


@dataclass(frozen=True)
class Limits:
    """The limits that an operator can set. Each is tested at the limit and one past it."""

    # fmt: off
    body_bytes: int = _limit(
        4 * _MIB, "bytes", "a metric given as a matrix of 400 places takes 3 MB of JSON",
        flag="--body", past="413 `too_large`")
    places: int = _limit(
        2000, "places", "the check and the audit of so many places take a minute or two",
        flag="--places", past="422 `invalid`")
    memory_gb: float = _limit(
        MEMORY_GB, "GB for each solve",
        "1,200 places take about as much; the estimate is compared with it, and the process may "
        "take half as much again and 1 GB",
        flag="--memory", past="422 `invalid`, or the job fails with `memory`")
    time_limit_s: float = _limit(
        900.0, "seconds for each solve",
        "400 places take half a minute; one job must not hold a worker for hours. The process is "
        "ended a fifth later, plus the time that check and audit of so many places may take",
        flag="--time-limit", past="422 `invalid`, or the job fails with `time`")
    queue: int = _limit(
        1000, "jobs that wait", "more would wait for longer than a client is likely to",
        flag="--queue", past="429 `too_much`")
    jobs_per_key: int = _limit(
        200, "jobs for each key", "one client must not fill the database",
        flag="--jobs", past="429 `too_much`")
    posts_per_minute: int = _limit(
        600, "new jobs a minute for each key", "each has to be read, planned and sealed",
        flag="--rate", past="429 `too_often`")
    reads_per_second: int = _limit(
        20_000, "requests a second for each key",
        "three times what a server of two cores answers: it stops a faulty client only",
        flag="--reads", past="429 `too_often`")
    streams_per_key: int = _limit(
        100, "open event streams for each key", "each holds a connection while its job runs",
        flag="--streams", past="429 `too_many_streams`")
    connections: int | None = _limit(
        None, "open connections; by default 2,000, or half of the file descriptors if that is less",
        "a connection takes memory and a file descriptor before a key is checked",
        flag="--connections", past="see below")
    connections_per_address: int | None = _limit(
        None,
        "open connections of one client address (one /64 network with IPv6); by default 200, and "
        "no limit for this machine",
        "one client must not take all connections; a proxy may run on this machine",
        flag="--connections-per-address", past="see below")
    # fmt: on

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "memory_gb":
                as_number(name, value, unit="GB")
            elif name == "time_limit_s":
                as_number(name, value, unit="seconds")
            elif value is not None:
                as_whole(name, value)


@dataclass(frozen=True)
class FixedLimits:
    """The limits that hold for every client, with a key or without. They have no flags."""

    # fmt: off
    header_bytes: int = _limit(
        64 * _KIB, "bytes of a request line and its headers", "browsers send less than 16 KiB",
        past="431 `headers`")
    header_lines: int = _limit(
        100, "header lines", "browsers send about 30", past="431 `headers`")
    framing_bytes: int = _limit(
        64 * _KIB, "bytes of chunk sizes and extensions beyond the size of the body",
        "chunk extensions have no limit in HTTP", past="400 `chunks`")
    path_bytes: int = _limit(
        512, "bytes of a path", "paths of the API and the page have fewer than 100",
        past="414 `too_long`")
    headers_s: float = _limit(
        10.0, "seconds from the first byte of a request, or from connecting, to the end of headers",
        "a client must not hold a connection without a request", past="408 `too_slow`")
    piece_s: float = _limit(
        10.0, "seconds between two pieces of a body", "an upload that stalls is given up",
        past="408 `too_slow`")
    body_s: float = _limit(
        120.0, "seconds from the end of the headers to the end of the body",
        "4 MiB in two minutes are 35 kB/s", past="408 `too_slow`")
    idle_s: float = _limit(
        30.0, "seconds from an answer to the next request", "a client may keep its connection open",
        past="closed")
    write_s: float = _limit(
        60.0, "seconds in which the client takes no byte of its answer", "the answer fills memory",
        past="closed")
    linger_s: float = _limit(
        5.0, "seconds after an answer that was sent before the end of its request",
        "the client can read the answer; to close at once would reset the connection",
        past="closed")
    linger_bytes: int = _limit(
        8 * _MIB, "bytes of such a request that are read and thrown away",
        "twice the largest body", past="closed")
    stalled_s: float = _limit(
        5.0, "seconds in which the client takes no byte of its answer",
        "after that its connection may be closed in favour of a new one", past="see below")
    send_buffer_bytes: int = _limit(
        128 * _KIB, "bytes of an answer that the operating system keeps for each connection",
        "2,000 slow clients take 256 MB", past="the answer waits")
    bodies_bytes: int = _limit(
        256 * _MIB, "bytes of all bodies being read (or twice `--body` if that is more)",
        "64 bodies of 4 MiB at the same time", past="503 `busy`")
    connections: int = _limit(
        2000, "open connections unless `--connections` is set",
        "attacks with 2,100 clients took at most 50 MB", past="see below")
    connections_per_address: int = _limit(
        200, "open connections of one address unless `--connections-per-address` is set",
        "ten addresses are needed to take all connections", past="see below")
    threads: int = _limit(
        40, "requests that use the database at the same time",
        "more would only wait for one of its connections", past="the request waits")
    database_connections: int = _limit(
        8, "connections to the database", "a PostgreSQL allows 100 for all its servers by default",
        past="the request waits")
    database_s: float = _limit(
        15.0, "seconds for an answer of the database", "a client should not wait longer",
        past="503 `database`")
    database_lock_s: float = _limit(
        20.0, "seconds for a connection to the database, or a lock of SQLite",
        "longer than `database_s`: housekeeping may wait longer than a client",
        past="503 `database`")
    retention_s: float = _limit(
        3653 * 86_400.0, "seconds that `--retention` may be: ten years",
        "files are for devices to keep", past="refused at the start")
    # fmt: on


FIXED = FixedLimits()
