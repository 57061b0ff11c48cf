"""The service under load: 200 clients that ask for states while two solves run; a crowd of posts.

    python benchmarks/service.py [--clients 200] [--seconds 10] [--posts 1000] [--database URL]

Every client asks again as soon as it has its answer, which is more than any real one does; then
the same with a pause of half a second. Client and server share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from serving import Served, recipe, serving


async def ask(url: str, request: bytes, until: float, pause_s: float, took: list[float]) -> None:
    """Ask over one connection until the time is up, and note how long each answer took."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
            raise RuntimeError(head.decode())
        took.append(time.perf_counter() - begun)
        if pause_s:
            await asyncio.sleep(pause_s)
    writer.close()


def told(what: str, took: list[float], seconds: float) -> None:
    took.sort()
    at = {share: 1000 * took[int(share * (len(took) - 1))] for share in (0.5, 0.99, 1.0)}
    print(
        f"{what}: {len(took):,} answers, {len(took) / seconds:,.0f} a second; "
        f"half within {at[0.5]:.1f} ms, 99 % within {at[0.99]:.1f} ms, all within {at[1.0]:.0f} ms"
    )


async def states(service: Served, clients: int, seconds: float, pause_s: float) -> None:
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as client:
        ids = []
        for seed in range(2):
            made = await client.post("/v1/mechanisms", json=recipe(400, seed=seed))
            ids.append(made.json()["id"])
        while True:
            now = [(await client.get(f"/v1/mechanisms/{job}")).json() for job in ids]
            if all(job["progress"] for job in now):
                break
            await asyncio.sleep(0.2)
        host = service.url.removeprefix("http://")
        requests = [f"GET /v1/mechanisms/{job} HTTP/1.1\r\nHost: {host}\r\n\r\n" for job in ids]
        took: list[float] = []
        until = time.perf_counter() + seconds
        await asyncio.gather(
            *(
                ask(service.url, requests[i % 2].encode(), until, pause_s, took)
                for i in range(clients)
            )
        )
        after = [(await client.get(f"/v1/mechanisms/{job}")).json()["state"] for job in ids]
        pause = f"{pause_s:g} s apart" if pause_s else "one after the other"
        told(f"{clients} clients, {pause}, while two solves run (then {after})", took, seconds)
        for job in ids:
            await client.delete(f"/v1/mechanisms/{job}")


async def posts(service: Served, count: int) -> None:
    body = json.dumps(recipe(50)).encode()
    host, port = service.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/mechanisms HTTP/1.1\r\nHost: {host}:{port}\r\nIdempotency-Key: crowd\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    wires = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    begun = time.perf_counter()
    for _, writer in wires:
        writer.write(head.encode() + body)
    answers = await asyncio.gather(*(reader.readuntil(b'}, "progress') for reader, _ in wires))
    seconds = time.perf_counter() - begun
    for _, writer in wires:
        writer.close()
    kinds = {answer.split(b" ", 2)[1].decode() for answer in answers}
    ids = {answer.split(b'"id": "')[1].split(b'"')[0] for answer in answers}
    print(f"{count:,} posts at once with one key: {len(ids)} job, answers {kinds}, {seconds:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--posts", type=int, default=1000)
    parser.add_argument("--database")
    flags = parser.parse_args()
    database = () if flags.database is None else ("--database", flags.database)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "--reads", "1000000", *database) as service,
    ):
        print(f"ready after {service.seconds_to_ready:.1f} s")
        for pause_s in (0.0, 0.5):
            asyncio.run(states(service, flags.clients, flags.seconds, pause_s))
        asyncio.run(posts(service, flags.posts))


if __name__ == "__main__":
    main()
