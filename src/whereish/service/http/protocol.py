"""One connection: what its client may send before, between and after requests, and for how long.

uvicorn's parser takes any number of bytes for any time outside of bodies, before keys and limits
are looked at: headers, chunk extensions, trailers, requests behind requests. Its only clock stops
at the next byte. Here every connection is in one of a few states, each state has a time, and
whatever is neither header nor body is counted.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from enum import Enum, auto
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from whereish.service.http.connections import Connections
from whereish.service.settings import (
    BODY_S,
    HEADERS_S,
    IDLE_S,
    LINGER_BYTES,
    LINGER_S,
    MOST_FRAMING,
    MOST_HEADER_LINES,
    MOST_HEADERS,
    WRITE_S,
)

# Bytes that the parser is given at a time, and that one connection may have parsed before others
# have their turn.
_PIECE, _TURN = 4 * 1024, 16 * 1024
# A body is moved back in the order of those who make room after so many bytes, or so many seconds.
_MOVED_BYTES, _MOVED_S = 16 * 1024, 1.0
# A client that has taken nothing for so long may be closed in favour of a new connection.
_STALLED_S = 5.0

_TOO_LONG = f"headers must be at most {MOST_HEADERS:,} bytes"


class State(Enum):
    """What a connection waits for."""

    HEADERS = auto()  # the rest of a request's headers
    BODY = auto()  # the rest of a request's body
    ANSWER = auto()  # the server
    IDLE = auto()  # the next request
    LAST = auto()  # the server, whose answer is the last: nothing more is read
    LINGER = auto()  # the client to read why nothing more is read
    CLOSED = auto()


_SECONDS = {
    State.HEADERS: HEADERS_S,
    State.BODY: BODY_S,
    State.IDLE: IDLE_S,
    State.LINGER: LINGER_S,
}


class Wire(HttpToolsProtocol):
    """A connection that is always in one state, and in none for ever without the server's doing."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._open = connections
        self.state = State.HEADERS
        self._since = self.loop.time()
        self._held = bytearray()  # received, and not parsed yet
        self._turn: asyncio.Handle | None = None
        self._headers = self._lines = 0  # bytes and lines of the headers that are being read
        self._least = 0  # bytes that their names and values alone have
        self._between = True  # whether no request has begun that has not ended
        self._piece = 0  # bytes of the piece being parsed, if a request begins with it
        self._run = self._framing = 0  # bytes that are no body: since the last that were, and more
        self._came, self._told = 0, self._since  # bytes of the body since it was moved back; when
        self.wanted = False  # whether somebody asked for the body
        self._drained = 0
        self._keep_alive = True
        self._wrong: tuple[int, str, str] | None = None
        self._running: RequestResponseCycle | None = None  # what is being answered
        self._read: RequestResponseCycle | None = None  # what is being read, after its headers
        self.sent = 0  # bytes handed to the transport
        self._taken, self._moved = 0, self._since  # of these by the client's side, and when

    # --- what the transport tells --------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Start the clock: who connects has something to say."""
        super().connection_made(transport)
        self.flow = _Flow(self, transport)
        self._since = self._moved = self.loop.time()
        if not self._open.admit(self, self.client[0] if self.client else ""):
            self._say(503, "connections", "there are too many connections: try again later")
            self.state = State.CLOSED
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered, which need not be the last that was read."""
        self.state = State.CLOSED
        self._open.remove(self)
        self._held.clear()
        if self._turn is not None:
            self._turn.cancel()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what comes; how much of it is parsed at once is another matter."""
        if self.state is State.LINGER:
            self._drained += len(data)
            if self._drained > LINGER_BYTES:
                self.drop()
        elif not self._is_over():
            self._held += data
            self._feed()

    def shutdown(self) -> None:
        """End, when the server does."""
        if self.state is State.LINGER:
            self.drop()
        else:
            super().shutdown()

    # --- what the parser tells -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin to count the headers of a request."""
        super().on_message_begin()
        # If a request begins within a piece, nobody says where: `_least` counts it then.
        self._headers, self._piece = self._piece, 0
        self._lines = self._least = 0
        self._between = False
        self._read = None
        self.wanted = False
        self._enter(State.HEADERS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; after the body it is a trailer, which nobody needs here."""
        if self.state is not State.HEADERS:
            raise self._error(400, "trailers", "a request must have no trailers")
        self._lines += 1
        if self._lines > MOST_HEADER_LINES:
            raise self._error(431, "headers", f"headers must be at most {MOST_HEADER_LINES} lines")
        self._least += len(name) + len(value) + len(":\r\n")
        if name.lower() == b"transfer-encoding":
            codings = {coding.strip().lower() for coding in value.split(b",")}
            if codings != {b"chunked"}:  # twice is no HTTP, which the parser knows
                message = "Transfer-Encoding must be chunked, and no other coding"
                raise self._error(501, "transfer_coding", message)
        super().on_header(name, value)

    def on_url(self, url: bytes) -> None:
        """Take a piece of a request's target."""
        self._least += len(url)
        super().on_url(url)

    def on_headers_complete(self) -> None:
        """Have the request answered; until its body has ended, the answer ends the connection."""
        if max(self._headers, self._least) > MOST_HEADERS:
            raise self._error(431, "headers", _TOO_LONG)
        self._enter(State.BODY)
        self._run = self._framing = 0
        super().on_headers_complete()
        # What follows an upgrade that is not granted is no HTTP.
        self._keep_alive = self.cycle.keep_alive and not self.parser.should_upgrade()
        self.cycle.keep_alive = False
        self.cycle.transport = _Outlet(self)  # type: ignore[assignment]
        self._read = self.cycle

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body; that many bytes were no framing."""
        self._run = 0
        self._framing -= 2 * len(body)
        self._came += len(body)
        now = self.loop.time()
        if self._came >= _MOVED_BYTES or now - self._told >= _MOVED_S:
            # Its own time goes on: only others are closed before it.
            self._came, self._told = 0, now
            self._open.changed(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Let the connection stay, unless the answer has begun and said otherwise."""
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        super().on_message_complete()
        self._headers, self._between = 0, True
        self._read = None
        self._enter(State.ANSWER if self._running is not None else State.IDLE)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Go on with the next request, if there is one."""
        self._running = None
        super().on_response_complete()
        self._unset_keepalive_if_required()  # there is one clock, and it is `check`
        if not self._is_over():
            if self._running is None:
                self._enter(State.IDLE if self.state is State.ANSWER else self.state)
            self.feed_soon()

    def _unsupported_upgrade_warning(self) -> None:
        pass  # nobody is to install anything because a client asks for it

    # --- parsing, in turns ---------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether bytes wait here to be parsed, or a request to be answered: no more are read."""
        return bool(self._held or self.pipeline)

    def feed_soon(self) -> None:
        """Parse more when the others have had their turn."""
        if self._turn is None:
            self._turn = self.loop.call_soon(self._feed)

    def _feed(self) -> None:
        """Parse some of what was received, unless the server is behind with what it has."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        left = _TURN
        while self._held and left > 0 and not self._is_behind():
            size = _PIECE
            if self.state is not State.BODY:
                # A piece ends where headers have to: those that have not ended there are too long.
                size = min(size, max(1, MOST_HEADERS - self._headers))
            piece = bytes(self._held[:size])
            del self._held[:size]
            left -= len(piece)
            self._parse(piece)
        if self._is_over():
            return
        if self.holds or self._is_behind():
            self.flow.pause_reading()
            if not self._is_behind():
                self.feed_soon()
        else:
            FlowControl.resume_reading(self.flow)

    def _is_over(self) -> bool:
        """Tell whether nothing that comes is read any more."""
        over = (State.LAST, State.LINGER, State.CLOSED)
        return self.state in over or self.transport.is_closing()

    def _is_behind(self) -> bool:
        cycle = self.cycle
        full = cycle is not None and not cycle.response_complete
        if self.pipeline or (full and len(cycle.body) > HIGH_WATER_LIMIT):
            return True
        # A body is not parsed for a request that is refused by its headers.
        return self.state is State.BODY and not self.wanted

    def _parse(self, piece: bytes) -> None:
        in_body = self.state is State.BODY
        if in_body:
            self._run += len(piece)
            self._framing += len(piece)
        else:
            self._headers += len(piece)
        self._piece = self._headers if self._between else 0
        super().data_received(piece)
        if self.state is State.BODY and in_body and max(self._run, self._framing) > MOST_FRAMING:
            message = f"chunk sizes and extensions must be at most {MOST_FRAMING:,} bytes"
            self._refuse(400, "chunks", f"{message} more than the body")
        elif self.state in (State.HEADERS, State.IDLE) and self._headers > MOST_HEADERS:
            self._refuse(431, "headers", _TOO_LONG)

    # --- refusing and closing ------------------------------------------------------------------

    def _error(self, status: int, code: str, message: str) -> ValueError:
        """Return what stops the parser, and keep what is to be said then."""
        self._wrong = (status, code, message)
        return ValueError(message)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, in the form that every error has."""
        wrong = (400, "not_http", "this is not a request that can be understood")
        self._refuse(*(self._wrong or wrong))

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Say why, unless an answer is under way, which ends the connection then; read no more."""
        if self._is_over():
            return
        running = self._running
        self._held.clear()
        self.pipeline.clear()
        if running is not None and (running.response_started or running is not self._read):
            running.keep_alive = False
            self._enter(State.LAST)
            self.flow.pause_reading()
            return
        if running is not None:
            running.disconnected = True
            running.message_event.set()
        self._say(status, code, message)
        self.linger()

    def _say(self, status: int, code: str, message: str) -> None:
        request = secrets.token_hex(8)
        error = {"code": code, "message": message, "field": "headers", "request_id": request}
        content = json.dumps({"error": error}).encode()
        _Outlet(self).write(
            f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\nx-request-id: {request}\r\n"
            "x-content-type-options: nosniff\r\ncontent-security-policy: default-src 'none'\r\n"
            "\r\n".encode()
            + content
        )

    def close(self) -> None:
        """Close after an answer; if its request has not ended, let the client read it first."""
        if self._held or self.state in (State.BODY, State.LAST):
            self.linger()
        else:
            self._enter(State.CLOSED)
            self.transport.close()

    def linger(self) -> None:
        """Send what is left, and throw away what comes, for a while.

        To close at once would have the operating system reset the connection, and the client might
        never see the answer.
        """
        self._enter(State.LINGER)
        self._held.clear()
        self.pipeline.clear()
        if self.transport.is_closing():
            return
        self.transport.write_eof()
        self.flow.resume_reading()

    def drop(self) -> None:
        """Close at once."""
        self._enter(State.CLOSED)
        self.transport.abort()

    # --- the clock -----------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        self.state, self._since = state, self.loop.time()
        self._came, self._told = 0, self._since
        self._open.changed(self)

    def is_waiting(self) -> bool:
        """Tell whether the client keeps this connection waiting."""
        if self.transport.get_write_buffer_size():
            return self.loop.time() - self._moved > _STALLED_S
        if self.state in (State.ANSWER, State.LAST, State.CLOSED):
            return False
        running = self._running
        return running is None or (not running.response_started and running is self._read)

    def is_uploading(self) -> bool:
        """Tell whether the client sends a body."""
        return self.state is State.BODY

    def check(self, now: float) -> None:
        """Close this connection if its client has had its time."""
        size = self.transport.get_write_buffer_size()
        if size == 0 or self.sent - size > self._taken:
            self._taken, self._moved = self.sent - size, now
        elif now - self._moved > WRITE_S:
            self.drop()
            return
        if size and self.state in (State.IDLE, State.LINGER):
            self._since = now  # its answer is still on the way
        most = _SECONDS.get(self.state)
        if most is None or now - self._since <= most:
            return
        if self.state is State.LINGER:
            self.drop()
        elif self.state is State.IDLE:
            self._enter(State.CLOSED)
            self.transport.close()
        elif self.state is State.BODY:
            self._refuse(408, "too_slow", f"a body must be sent within {BODY_S:g} s")
        elif self._running is None:
            self._refuse(408, "too_slow", f"headers must be sent within {HEADERS_S:g} s")


class _Flow(FlowControl):
    """Reads from the transport only when everything that was read has been parsed."""

    def __init__(self, wire: Wire, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._wire = wire

    def resume_reading(self) -> None:
        """Read on, because the application asks for more of a body."""
        self._wire.wanted = True
        if self._wire.holds:
            self._wire.feed_soon()
        else:
            super().resume_reading()


class _Outlet:
    """The transport as an answer sees it: it counts, and closes in a way that can be read."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def write(self, data: bytes) -> None:
        """Send bytes of an answer."""
        self._wire.sent += len(data)
        self._wire.transport.write(data)

    def is_closing(self) -> bool:
        """Tell whether there is no use in sending."""
        return self._wire.state is State.LINGER or self._wire.transport.is_closing()

    def close(self) -> None:
        """Close after the answer."""
        self._wire.close()
