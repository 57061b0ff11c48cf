"""The states of a connection, and how long each may last."""

from __future__ import annotations

from enum import Enum, auto

from whereish.service.limits import FIXED


class State(Enum):
    """What a connection waits for."""

    HEADERS = auto()  # the rest of the headers of a request
    BODY = auto()  # the rest of the body of a request
    ANSWER = auto()  # the server
    IDLE = auto()  # the next request
    LAST = auto()  # the server, whose answer is the last one: nothing more is read
    LINGER = auto()  # the client, which reads the last answer
    CLOSED = auto()


# How long each may last. In other states the client waits for the server: no limit here.
SECONDS = {
    State.HEADERS: FIXED.headers_s,
    State.BODY: FIXED.body_s,
    State.IDLE: FIXED.idle_s,
    State.LINGER: FIXED.linger_s,
}
