"""Read the body of a request: within its size, its time and the memory for all bodies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import Request

from whereish.service.http.errors import ApiError
from whereish.service.limits import FIXED


class BodyMemory:
    """Memory for all bodies that are being read, or wait for a thread."""

    def __init__(self, most: int) -> None:
        self._left = most

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves bytes or raises; all are free again at the end."""
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if count > self._left:
                message = "there are too many requests at once: try again"
                raise ApiError("busy", message, "service", {"retry-after": "2"})
            self._left -= count
            taken += count

        try:
            yield take
        finally:
            self._left += taken


async def read_body(request: Request, limit: int, take: Callable[[int], None]) -> bytes:
    """Read a JSON body: at most `limit` bytes, without long pauses."""
    _check_media_type(request)
    declared = request.headers.get("content-length", "0")
    too_large = ApiError("too_large", f"the body must be at most {limit:,} bytes", "body")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(FIXED.piece_s) as patience:
            loop = asyncio.get_running_loop()
            end = loop.time() + FIXED.body_s
            async for piece in request.stream():
                patience.reschedule(min(end, loop.time() + FIXED.piece_s))
                if len(body) + len(piece) > limit:
                    raise too_large
                take(len(piece))
                body += piece
    except TimeoutError:
        message = "the body must be sent without long pauses"
        raise ApiError("too_slow", message, "body") from None
    return bytes(body)


def _check_media_type(request: Request) -> None:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise ApiError("media_type", "Content-Type must be application/json", "Content-Type")
    codings = ",".join(request.headers.getlist("content-encoding")).lower().split(",")
    if not {coding.strip() for coding in codings} <= {"", "identity"}:
        message = "Content-Encoding must be left out: a body must not be compressed"
        plain = {"accept-encoding": "identity"}
        raise ApiError("media_type", message, "Content-Encoding", plain)
