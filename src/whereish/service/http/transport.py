"""The transport of a connection, as uvicorn sees it: reading in turns, closing with an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.flow_control import FlowControl

from whereish.service.http.states import State

if TYPE_CHECKING:
    from whereish.service.http.protocol import ConnectionProtocol


class ReadControl(FlowControl):
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


class AnswerTransport:
    """The transport of one answer: it counts bytes, and closes so that the client can read."""

    def __init__(self, connection: ConnectionProtocol) -> None:
        self._connection = connection

    def write(self, data: bytes) -> None:
        self._connection.sent += len(data)
        self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """Return whether sending has no use any more."""
        connection = self._connection
        return connection.state is State.LINGER or connection.transport.is_closing()

    def close(self) -> None:
        self._connection.close()
