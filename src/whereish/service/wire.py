"""The wire: what a connection may do before there is a request at all.

uvicorn's parser takes headers of any size for any time, before keys and limits are looked at.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADERS = 64 * 1024
HEADERS_S = 10.0


class Wire(HttpToolsProtocol):
    """A connection whose headers have a largest size, and a time to come in."""

    _reading = True
    _bytes = 0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the clock: who connects has something to say."""
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop it."""
        self._stop()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Start it for every request."""
        super().on_message_begin()
        self._start()

    def on_headers_complete(self) -> None:
        """Stop it: a body has limits of its own."""
        self._stop()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what comes, as long as headers are not too large."""
        while data and not self.transport.is_closing():
            piece, data = data[:MOST_HEADERS], data[MOST_HEADERS:]
            if self._reading:
                self._bytes += len(piece)
            super().data_received(piece)
            if self._reading and self._bytes > MOST_HEADERS:
                self._refuse(431, "headers", f"headers must be at most {MOST_HEADERS:,} bytes")

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, in the form that every error has."""
        self._refuse(400, "not_http", "this is not a request that can be understood")

    def _start(self) -> None:
        self._stop()
        self._reading, self._bytes = True, 0
        self._clock = self.loop.call_later(HEADERS_S, self._too_slow)

    def _stop(self) -> None:
        self._reading = False
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        self._refuse(408, "too_slow", f"headers must be sent within {HEADERS_S:g} s")

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        request = secrets.token_hex(8)
        error = {"code": code, "message": message, "field": "headers", "request_id": request}
        content = json.dumps({"error": error}).encode()
        self.transport.write(
            f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\nx-request-id: {request}\r\n"
            "x-content-type-options: nosniff\r\ncontent-security-policy: default-src 'none'\r\n"
            "\r\n".encode()
            + content
        )
        self.transport.close()
