"""The service under attack by somebody without a key: memory, connections, and another's answers.

    python benchmarks/connections.py [--seconds 60] [--attack NAME ...] [--connections 2100]

Each attack runs for so many seconds in a process of its own against a server on loopback, and ends
by itself. Meanwhile another client asks `/healthz` ten times a second, each time over a new
connection from the same address as the attacker, which is the hardest case; with `--per-address N`
from another address (127.0.0.2, on Linux), and the server allows N connections an address. The
memory is the server's own (RSS).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from serving import serving
from test_service import keys

_POST = b"POST /v1/mechanisms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_BLOCK = 64 * 1024
_PATIENCE_S = 10.0
Attack = Callable[["Target"], Coroutine[Any, Any, None]]


class Target:
    """Where the attack goes, until when, and how wide it may be."""

    def __init__(self, port: int, seconds: float, width: int) -> None:
        self.port, self.width = port, width
        self.until = time.monotonic() + seconds

    @property
    def on(self) -> bool:
        return time.monotonic() < self.until

    async def flood(self, first: bytes, block: bytes, *, read: bool = True) -> None:
        """Send the block again and again, over a new connection when one is closed."""
        while self.on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                eating = asyncio.create_task(_eat(reader)) if read else None
                try:
                    writer.write(first)
                    while self.on and not writer.is_closing():
                        writer.write(block)
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(1):
                                await writer.drain()
                finally:
                    writer.transport.abort()
                    if eating is not None:
                        eating.cancel()
            await asyncio.sleep(0.001)

    async def hold(self, first: bytes, then: bytes, pause_s: float = 1.0) -> None:
        """Hold as many connections as allowed: open again what was closed."""

        async def one(i: int) -> None:
            await asyncio.sleep(i / self.width)
            while self.on:
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    eating = asyncio.create_task(_eat(reader))
                    try:
                        writer.write(first)
                        while self.on and not writer.is_closing() and not eating.done():
                            await asyncio.sleep(pause_s)
                            writer.write(then)
                    finally:
                        writer.transport.abort()
                        eating.cancel()
                await asyncio.sleep(0.2)

        await asyncio.gather(*(one(i) for i in range(self.width)))


async def _eat(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(_BLOCK):
            pass


async def trailers(target: Target) -> None:
    """Trailers without end after the last chunk."""
    await target.flood(_CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * (_BLOCK // 6))


async def one_trailer(target: Target) -> None:
    """One trailer whose value has no end."""
    await target.flood(_CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * _BLOCK)


async def extensions(target: Target) -> None:
    """A chunk extension without end."""
    await target.flood(_CHUNKED + b"2;a=", b"b" * _BLOCK)


async def tiny_chunks(target: Target) -> None:
    """A body in chunks of one byte, over fifty connections."""
    block = b"1\r\n \r\n" * (_BLOCK // 6)
    await asyncio.gather(*(target.flood(_CHUNKED, block) for _ in range(50)))


async def pipelined(target: Target) -> None:
    """Requests one behind the other, without waiting for answers, over twenty connections."""
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    await asyncio.gather(*(target.flood(b"", one * (_BLOCK // len(one))) for _ in range(20)))


async def many_headers(target: Target) -> None:
    """Headers of almost the largest size, in the shortest lines, held."""
    await target.hold(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 16_000, b"", 2.0)


async def slow_headers(target: Target) -> None:
    """Headers one byte a second."""
    await target.hold(b"GET / HTTP/1.1\r\nX: ", b"a")


async def unread_bodies(target: Target) -> None:
    """Answered before the body, then one byte, which used to stop the only clock."""
    await target.hold(_POST + b"Content-Length: 1000000\r\n\r\n", b"{")


async def empty_lines(target: Target) -> None:
    """Answered, then empty lines, which begin no request."""
    await target.hold(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\r\n")


async def never_read(target: Target) -> None:
    """Ask for the page's largest file, and never read the answer."""
    one = b"GET /assets/vendor/swagger-ui-bundle.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    async def held() -> None:
        while target.on:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port, limit=1024)
                writer.write(one * 4)
                while target.on and not reader.at_eof() and reader.exception() is None:
                    await asyncio.sleep(1)
                writer.transport.abort()

    await asyncio.gather(*(held() for _ in range(min(300, target.width))))


ATTACKS: tuple[Attack, ...] = (
    trailers, one_trailer, extensions, tiny_chunks, pipelined, many_headers, slow_headers,
    unread_bodies, empty_lines, never_read,
)  # fmt: skip


def attack(name: str, port: int, seconds: float, width: int) -> None:
    """Run an attack: the body of the attacker's process."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    target = Target(port, seconds, width)
    found = next(each for each in ATTACKS if each.__name__ == name)

    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 2):
                await found(target)

    asyncio.run(run())


async def health(port: int, source: tuple[str, int] | None) -> float:
    """Return the seconds that a health check takes over a new connection."""
    begun = time.perf_counter()
    async with asyncio.timeout(_PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
        try:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read(4096)
        finally:
            writer.transport.abort()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(answer[:40])
    return time.perf_counter() - begun


def rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def sockets(pid: int) -> int:
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return count


async def measure(
    pid: int, port: int, attacker: Any, most_mb: float, source: tuple[str, int] | None
) -> str:
    """Ask while the attack lasts; stop it if the server takes too much of this machine."""
    took: list[float] = []
    failed, most, open_ = 0, rss_mb(pid), 0
    before = most
    while attacker.is_alive():
        try:
            took.append(await health(port, source))
        except (OSError, TimeoutError):
            failed += 1
        most, open_ = max(most, rss_mb(pid)), max(open_, sockets(pid))
        if most > most_mb:
            attacker.kill()
        await asyncio.sleep(0.1)
    took = sorted(took) or [float("nan")]
    at = [1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.99, 1)]
    return (
        f"{before:4.0f} -> {most:5.0f} MB, at most {open_:5d} sockets; health check: {len(took)} "
        f"answered, {failed} not; p50 {at[0]:.1f} ms, p99 {at[1]:.0f} ms, max {at[2]:.0f} ms"
        + (f"; STOPPED at {most_mb:.0f} MB" if most > most_mb else "")
    )


def main() -> None:
    names = [each.__name__ for each in ATTACKS]
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--attack", nargs="*", choices=names, default=names)
    parser.add_argument("--connections", type=int, default=2100)
    parser.add_argument("--most-mb", type=float, default=2000.0)
    parser.add_argument("--no-keys", action="store_true", help="a server that asks for no key")
    parser.add_argument("--per-address", type=int, help="connections an address may have")
    flags = parser.parse_args()
    capped: tuple[str, ...] = ()
    source = None
    if flags.per_address is not None:
        capped = ("--connections-per-address", str(flags.per_address))
        source = ("127.0.0.2", 0)
    seconds, width = min(flags.seconds, 600.0), min(flags.connections, 5000)
    for name in flags.attack:
        with tempfile.TemporaryDirectory() as folder:
            if not flags.no_keys:
                keys(Path(folder), "add", "somebody")
            with serving(Path(folder), "--log-level", "error", *capped) as service:
                port = int(service.url.rsplit(":", 1)[1])
                attacker = multiprocessing.get_context("spawn").Process(
                    target=attack, args=(name, port, seconds, width), daemon=True
                )
                attacker.start()
                told = asyncio.run(measure(service.pid, port, attacker, flags.most_mb, source))
                attacker.join()
                print(f"{name:14s} {told}", flush=True)


if __name__ == "__main__":
    main()
