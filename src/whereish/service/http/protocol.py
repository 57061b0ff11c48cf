"""One connection: what its client may send before, between and after requests, and how long.

The parser of uvicorn takes any number of bytes for any time outside of bodies: headers, chunk
extensions, trailers, pipelined requests. Its only clock restarts at every byte. Here a connection
is always in one state, each state has a time limit, and all bytes that are no body are counted.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from whereish.service.error_body import HTTP_ERRORS, error_body
from whereish.service.http.connection_state import SECONDS, State
from whereish.service.http.connections import Connections
from whereish.service.limits import FIXED

# Bytes that the parser gets at a time, and that one connection may have parsed in one turn.
_PIECE, _TURN = 4 * 1024, 16 * 1024
# An upload counts as active again after so many bytes, or so many seconds.
_ACTIVE_BYTES, _ACTIVE_S = 16 * 1024, 1.0
_TOO_LONG = f"headers must be at most {FIXED.header_bytes:,} bytes"


class _ReadControl(FlowControl):
    """Reads from the transport only if everything read before has been parsed."""

    def __init__(self, connection: ConnectionProtocol, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Continue to read, because the application asks for more of a body."""
        self._connection.body_wanted = True
        if self._connection.has_unparsed:
            self._connection.feed_soon()
        else:
            super().resume_reading()


class ConnectionProtocol(HttpToolsProtocol):
    """A connection that is always in one state, and waits for its client for a limited time."""

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
        self._connections = connections
        self.state = State.HEADERS
        self._since = self.loop.time()
        self._unparsed = bytearray()  # received, not parsed yet
        self._turn: asyncio.Handle | None = None
        self._header_bytes = self._header_lines = 0  # of the headers being read
        self._known_bytes = 0  # bytes of their names and values alone
        self._between = True  # whether no request is being read
        self._piece = 0  # bytes of the piece being parsed, if a request begins in it
        self._since_body = self._framing = 0  # bytes that are no body
        self._body_bytes, self._active_since = 0, self._since  # of the body, since then
        self.body_wanted = False  # whether the application asked for the body
        self._drained = 0
        self._keep_alive = True
        self._error_to_send: tuple[str, str] | None = None
        self._running: RequestResponseCycle | None = None  # the request being answered
        self._read: RequestResponseCycle | None = None  # the request whose body is being read
        self.sent = 0  # bytes handed to the transport
        self._taken, self._taken_at = 0, self._since  # by the client, of these; and when

    # --- events of the transport ---------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Start the clock, and refuse the connection if there are too many."""
        super().connection_made(transport)
        self.flow = _ReadControl(self, transport)
        self._since = self._taken_at = self.loop.time()
        if not self._connections.admit(self, self.client[0] if self.client else ""):
            self._send_error("connections", "there are too many connections: try again later")
            self.state = State.CLOSED
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the request that is being answered; it need not be the last one that was read."""
        self.state = State.CLOSED
        self._connections.remove(self)
        self._unparsed.clear()
        if self._turn is not None:
            self._turn.cancel()
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes that arrive, and parse some of them."""
        if self.state is State.LINGER:
            self._drained += len(data)
            if self._drained > FIXED.linger_bytes:
                self.drop()
        elif not self._is_over():
            self._unparsed += data
            self._feed()

    def shutdown(self) -> None:
        if self.state is State.LINGER:
            self.drop()
        else:
            super().shutdown()

    # --- events of the parser ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start to count the headers of a request."""
        super().on_message_begin()
        # The parser does not say where in a piece a request begins; `_known_bytes` counts it then.
        self._header_bytes, self._piece = self._piece, 0
        self._header_lines = self._known_bytes = 0
        self._between = False
        self._read = None
        self.body_wanted = False
        self._enter(State.HEADERS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. After the body it is a trailer, which is an error here."""
        if self.state is not State.HEADERS:
            raise self._error("trailers", "a request must have no trailers")
        self._header_lines += 1
        if self._header_lines > FIXED.header_lines:
            raise self._error("headers", f"headers must be at most {FIXED.header_lines} lines")
        self._known_bytes += len(name) + len(value) + len(":\r\n")
        if name.lower() == b"transfer-encoding":
            codings = {coding.strip().lower() for coding in value.split(b",")}
            if codings != {b"chunked"}:  # the parser refuses a second one
                message = "Transfer-Encoding must be chunked, and no other coding"
                raise self._error("transfer_coding", message)
        super().on_header(name, value)

    def on_url(self, url: bytes) -> None:
        self._known_bytes += len(url)
        super().on_url(url)

    def on_headers_complete(self) -> None:
        """Start the answer. If it ends before the body does, the connection closes after it."""
        if max(self._header_bytes, self._known_bytes) > FIXED.header_bytes:
            raise self._error("headers", _TOO_LONG)
        self._enter(State.BODY)
        self._since_body = self._framing = 0
        super().on_headers_complete()
        # Bytes after an upgrade that was not granted are not HTTP.
        self._keep_alive = self.cycle.keep_alive and not self.parser.should_upgrade()
        self.cycle.keep_alive = False
        self.cycle.transport = self  # type: ignore[assignment]
        self._read = self.cycle

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body: these bytes are not framing."""
        self._since_body = 0
        self._framing -= 2 * len(body)
        self._body_bytes += len(body)
        now = self.loop.time()
        if self._body_bytes >= _ACTIVE_BYTES or now - self._active_since >= _ACTIVE_S:
            # Its time limit still runs: only its place in the order of closing changes.
            self._body_bytes, self._active_since = 0, now
            self._connections.changed(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Keep the connection open, unless the answer has already said that it closes."""
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._keep_alive
        super().on_message_complete()
        self._header_bytes, self._between = 0, True
        self._read = None
        self._enter(State.ANSWER if self._running is not None else State.IDLE)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """Continue with the next request, if there is one."""
        self._running = None
        super().on_response_complete()
        self._unset_keepalive_if_required()  # `check` is the only clock
        if not self._is_over():
            if self._running is None:
                self._enter(State.IDLE if self.state is State.ANSWER else self.state)
            self.feed_soon()

    def _unsupported_upgrade_warning(self) -> None:
        pass  # the warning would tell the operator to install a WebSocket library

    # --- parsing, in turns ---------------------------------------------------------------------

    @property
    def has_unparsed(self) -> bool:
        """Whether bytes wait to be parsed, or requests to be answered: no more bytes are read."""
        return bool(self._unparsed or self.pipeline)

    def feed_soon(self) -> None:
        """Parse more after the other connections had their turn."""
        if self._turn is None:
            self._turn = self.loop.call_soon(self._feed)

    def _feed(self) -> None:
        """Parse some of the received bytes, unless the server is behind."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        left = _TURN
        while self._unparsed and left > 0 and not self._is_behind():
            size = _PIECE
            if self.state is not State.BODY:
                # A piece ends at the limit of the headers: longer headers are an error.
                size = min(size, max(1, FIXED.header_bytes - self._header_bytes))
            piece = bytes(self._unparsed[:size])
            del self._unparsed[:size]
            left -= len(piece)
            self._parse(piece)
        if self._is_over():
            return
        if self.has_unparsed or self._is_behind():
            self.flow.pause_reading()
            if not self._is_behind():
                self.feed_soon()
        else:
            FlowControl.resume_reading(self.flow)

    def _is_over(self) -> bool:
        """Return whether no more bytes are read."""
        over = (State.LAST, State.LINGER, State.CLOSED)
        return self.state in over or self.transport.is_closing()

    def _is_behind(self) -> bool:
        cycle = self.cycle
        full = cycle is not None and not cycle.response_complete
        if self.pipeline or (full and len(cycle.body) > HIGH_WATER_LIMIT):
            return True
        # The body of a request that is refused because of its headers is not parsed.
        return self.state is State.BODY and not self.body_wanted

    def _parse(self, piece: bytes) -> None:
        in_body = self.state is State.BODY
        if in_body:
            self._since_body += len(piece)
            self._framing += len(piece)
        else:
            self._header_bytes += len(piece)
        self._piece = self._header_bytes if self._between else 0
        super().data_received(piece)
        if (
            self.state is State.BODY
            and in_body
            and max(self._since_body, self._framing) > FIXED.framing_bytes
        ):
            message = f"chunk sizes and extensions must be at most {FIXED.framing_bytes:,} bytes"
            self._refuse("chunks", f"{message} more than the body")
        elif self.state in (State.HEADERS, State.IDLE) and self._header_bytes > FIXED.header_bytes:
            self._refuse("headers", _TOO_LONG)

    # --- refusing and closing ------------------------------------------------------------------

    def _error(self, code: str, message: str) -> ValueError:
        """Keep an error to send, and return the exception that stops the parser."""
        self._error_to_send = (code, message)
        return ValueError(message)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not a request, in the form of every error."""
        wrong = ("not_http", "this is not an HTTP request")
        self._refuse(*(self._error_to_send or wrong))

    def _refuse(self, code: str, message: str) -> None:
        """Send an error and read no more. If an answer is being sent, only close after it."""
        if self._is_over():
            return
        running = self._running
        self._unparsed.clear()
        self.pipeline.clear()
        if running is not None and (running.response_started or running is not self._read):
            running.keep_alive = False
            self._enter(State.LAST)
            self.flow.pause_reading()
            return
        if running is not None:
            running.disconnected = True
            running.message_event.set()
        self._send_error(code, message)
        self.linger()

    def _send_error(self, code: str, message: str) -> None:
        request = secrets.token_hex(8)
        status = HTTP_ERRORS[code][0]
        content = error_body(code, message, "headers", request)
        self.write(
            f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\nx-request-id: {request}\r\n"
            "x-content-type-options: nosniff\r\ncontent-security-policy: default-src 'none'\r\n"
            "\r\n".encode()
            + content
        )

    # --- the transport of an answer ------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.sent += len(data)
        self.transport.write(data)

    def is_closing(self) -> bool:
        return self.state is State.LINGER or self.transport.is_closing()

    def close(self) -> None:
        """Close after an answer; if its request has not ended, let the client read the answer."""
        if self._unparsed or self.state in (State.BODY, State.LAST):
            self.linger()
        else:
            self._enter(State.CLOSED)
            self.transport.close()

    def linger(self) -> None:
        """Send the rest of the answer, and throw away received bytes for a while.

        If the server closed at once, the operating system would reset the connection, and the
        client might never read the answer.
        """
        self._enter(State.LINGER)
        self._unparsed.clear()
        self.pipeline.clear()
        if self.transport.is_closing():
            return
        self.transport.write_eof()
        self.flow.resume_reading()

    def drop(self) -> None:
        self._enter(State.CLOSED)
        self.transport.abort()

    # --- the clock -----------------------------------------------------------------------------

    def _enter(self, state: State) -> None:
        self.state, self._since = state, self.loop.time()
        self._body_bytes, self._active_since = 0, self._since
        self._connections.changed(self)

    def is_waiting(self) -> bool:
        if self.transport.get_write_buffer_size():
            return self.loop.time() - self._taken_at > FIXED.stalled_s
        if self.state in (State.ANSWER, State.LAST, State.CLOSED):
            return False
        running = self._running
        return running is None or (not running.response_started and running is self._read)

    def is_uploading(self) -> bool:
        return self.state is State.BODY

    def check(self, now: float) -> None:
        size = self.transport.get_write_buffer_size()
        if size == 0 or self.sent - size > self._taken:
            self._taken, self._taken_at = self.sent - size, now
        elif now - self._taken_at > FIXED.write_s:
            self.drop()
            return
        if size and self.state in (State.IDLE, State.LINGER):
            self._since = now  # its answer is still being sent
        most = SECONDS.get(self.state)
        if most is None or now - self._since <= most:
            return
        if self.state is State.LINGER:
            self.drop()
        elif self.state is State.IDLE:
            self._enter(State.CLOSED)
            self.transport.close()
        elif self.state is State.BODY:
            self._refuse("too_slow", f"a body must be sent within {FIXED.body_s:g} s")
        elif self._running is None:
            self._refuse("too_slow", f"headers must be sent within {FIXED.headers_s:g} s")
