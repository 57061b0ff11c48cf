"""Connections of clients without a key: no attack with them blocks the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from uvicorn.server import ServerState

from serving import Served, serving, wait_until
from test_service import keys
from whereish.service.http.body import BodyMemory, read_body
from whereish.service.http.connection_state import State
from whereish.service.http.connections import Connections
from whereish.service.http.errors import ApiError
from whereish.service.http.protocol import ConnectionProtocol
from whereish.service.limits import FIXED, Limits

POST = b"POST /v1/mechanisms HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
FLOOD = 2**25  # far more than any limit and all buffers of the operating system together


# --- one connection, with a clock of its own ------------------------------------------------------


class FakeTransport:
    """Keeps what is written; takes as much of it as a test says."""

    def __init__(self) -> None:
        self.written, self.waiting = b"", 0
        self.closed = self.eof = False
        self.reading = True

    def get_extra_info(self, name: str) -> Any:
        return ("192.0.2.1", 4000) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write_eof(self) -> None:
        self.eof = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Talk:
    """A connection to an application, in which time is what the test says."""

    def __init__(self, app: Any, limits: Limits | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none")
        self.connections = Connections(limits or Limits())
        self.server = ServerState()
        self.wire, self.transport = self.connect()

    def connect(self) -> tuple[ConnectionProtocol, FakeTransport]:
        wire = ConnectionProtocol(
            self.config, self.server, {}, self.loop, connections=self.connections
        )
        transport = FakeTransport()
        wire.connection_made(transport)
        return wire, transport

    async def send(self, data: bytes, turns: int = 200) -> None:
        """Send as the operating system does: in blocks, and none while nobody reads."""
        for i in range(0, len(data), 65536):
            for _ in range(turns):
                if self.transport.reading or self.transport.closed:
                    break
                await asyncio.sleep(0)
            if self.transport.closed or not self.transport.reading:
                return
            self.wire.data_received(data[i : i + 65536])
        await self.rest()

    async def rest(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    def after(self, seconds: float) -> None:
        self.connections.check(self.loop.time() + seconds)

    @property
    def over(self) -> bool:
        return self.transport.closed or self.transport.eof


async def no_body(scope: Any, receive: Any, send: Any) -> None:
    """Answer at once, whatever is still to come."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"no"})


async def whole_body(scope: Any, receive: Any, send: Any) -> None:
    """Answer when the body has ended, and with its length."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return
        size, more = size + len(message["body"]), message["more_body"]
    content = b"%d" % size
    headers = [(b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def never(scope: Any, receive: Any, send: Any) -> None:
    """Work on an answer for ever."""
    await asyncio.Event().wait()


async def large(scope: Any, receive: Any, send: Any) -> None:
    """Answer with a lot."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 10_000})


def talking(story: Callable[[], Any]) -> Callable[[], None]:
    def test() -> None:
        asyncio.run(story())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    return test


@talking
async def test_what_is_answered_before_its_body_is_closed_and_says_so() -> None:
    for begin in (POST + b"Content-Length: 10000\r\n\r\n", CHUNKED):
        for then in (b"", b"{", b"5\r\nab"):
            talk = Talk(no_body)
            await talk.send(begin + then)
            assert b"connection: close" in talk.transport.written
            assert talk.transport.eof
            await talk.send(b"{")  # this one byte stopped the only clock there was
            talk.after(FIXED.linger_s - 1)
            assert not talk.transport.closed, "the client may read the answer first"
            talk.after(FIXED.linger_s + 1)
            assert talk.transport.closed


@talking
async def test_what_is_thrown_away_has_a_largest_size() -> None:
    talk = Talk(no_body)
    await talk.send(CHUNKED)
    await talk.send(b"a" * FIXED.linger_bytes)
    assert not talk.transport.closed
    await talk.send(b"a")
    assert talk.transport.closed


@talking
async def test_a_body_that_ended_keeps_the_connection() -> None:
    for app in (no_body, whole_body):
        talk = Talk(app)
        for request in (POST + b"Content-Length: 2\r\n\r\n{}", CHUNKED + b"2\r\n{}\r\n0\r\n\r\n"):
            await talk.send(request)
            assert talk.wire.state is State.IDLE
        assert b"connection: close" not in talk.transport.written
        assert talk.transport.written.count(b"HTTP/1.1 ") == 2


@talking
async def test_an_idle_connection_has_its_time_whatever_comes_between_requests() -> None:
    talk = Talk(whole_body)
    await talk.send(GET)
    for _ in range(5):
        await talk.send(b"\r\n")
        talk.after(FIXED.idle_s - 1)
        assert not talk.over
    talk.after(FIXED.idle_s + 1)
    assert talk.over
    talk = Talk(whole_body)
    await talk.send(GET)
    await talk.send(b"\r\n" * FLOOD)
    assert talk.over


@talking
async def test_every_part_of_a_request_has_its_time() -> None:
    for begin, seconds in (
        (b"", FIXED.headers_s), (b"GET / HTTP/1.1\r\nX: ", FIXED.headers_s),
        (POST + b"Content-Length: 10\r\n\r\n{", FIXED.body_s), (CHUNKED, FIXED.body_s),
        (CHUNKED + b"2;a=", FIXED.body_s), (CHUNKED + b"2\r\n{}\r\n0\r\na", FIXED.body_s),
    ):  # fmt: skip
        talk = Talk(whole_body)
        await talk.send(begin)
        talk.after(seconds - 1)
        assert not talk.over, begin
        talk.after(seconds + 1)
        assert talk.over, begin
        assert b" 408 " in talk.transport.written
        await talk.rest()
        talk.after(seconds + FIXED.linger_s + 2)
        assert talk.transport.closed


@talking
async def test_an_answer_that_is_worked_on_has_all_the_time() -> None:
    talk = Talk(never)
    await talk.send(GET)
    talk.after(1e6)
    assert not talk.over
    assert not talk.wire.is_waiting()


@pytest.mark.parametrize(
    ("begin", "block"),
    [
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n"),  # trailers
        (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * 1000),  # one trailer without an end
        (CHUNKED + b"0\r\na", b"a" * 1000),  # the name of one
        (CHUNKED + b"2;a=", b"b" * 1000),  # a chunk extension
        (CHUNKED + b'2;a="', b"b" * 1000),
        (CHUNKED, b"0" * 1000),  # the size of a chunk
        (CHUNKED, b"1\r\n \r\n"),  # chunks of one byte
        (CHUNKED, b"00000001;aaaa=bbbbbbbb\r\n \r\n"),
        (b"", b"\r\n"),  # empty lines
        (b"GET /", b"a" * 1000),
        (b"GET / HTTP/1.1\r\n", b"a:\r\n"),
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 1000),
    ],
)
def test_nothing_but_a_body_goes_on_without_an_end(begin: bytes, block: bytes) -> None:
    async def story() -> None:
        talk = Talk(whole_body)
        await talk.send(begin)
        sent = 0
        while not talk.over:
            await talk.send(block * (2**14 // len(block)))
            sent += 2**14
            assert sent < 2**22, "it was taken without an end"
        answer = talk.transport.written
        assert answer.startswith(b"HTTP/1.1 4")
        assert json.loads(answer.split(b"\r\n\r\n")[-1])["error"]["code"]

    asyncio.run(story())


@talking
async def test_a_body_in_small_chunks_is_read() -> None:
    """Chunks of five bytes have as much framing as body; a client may send them."""
    talk = Talk(whole_body)
    await talk.send(CHUNKED + b"5\r\n12345\r\n" * 100_000 + b"0\r\n\r\n")
    for _ in range(1000):
        await asyncio.sleep(0)
    assert talk.transport.written.endswith(b"500000")


@talking
async def test_headers_have_a_largest_number() -> None:
    def lines(count: int) -> bytes:
        return b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * count + b"\r\n"

    talk = Talk(whole_body)
    await talk.send(lines(FIXED.header_lines))
    assert b" 200 " in talk.transport.written
    await talk.send(lines(FIXED.header_lines + 1))
    assert b" 431 " in talk.transport.written
    assert talk.over


def head(size: int, form: str) -> bytes:
    """Return a request without a body, of so many bytes."""
    begin, end = {
        "line": (b"GET /", b" HTTP/1.1\r\n\r\n"),
        "value": (b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"),
        "name": (b"GET / HTTP/1.1\r\n", b": b\r\n\r\n"),
    }[form]
    return begin + b"a" * (size - len(begin) - len(end)) + end


@pytest.mark.parametrize("form", ["line", "value", "name"])
@pytest.mark.parametrize("before", [b"", GET, POST + b"Content-Length: 2\r\n\r\n{}"])
def test_headers_have_a_largest_size(form: str, before: bytes) -> None:
    """To the byte, whatever the pieces that they come in, and whatever came before or is behind."""

    async def told(size: int, step: int, then: bytes = b"") -> list[int]:
        talk = Talk(whole_body)
        await talk.send(before)
        data = head(size, form) + then
        for i in range(0, len(data), step):
            await talk.send(data[i : i + step])
        return [int(one[:3]) for one in talk.transport.written.split(b"HTTP/1.1 ")[1:]]

    async def story() -> None:
        first = [200] if before else []
        for step in (1000, 4096, 2**20):
            assert await told(FIXED.header_bytes, step) == [*first, 200], step
            assert await told(FIXED.header_bytes, step, GET) == [*first, 200, 200], step
            for more in (1, 2, 64, 500, 3000, 4096, 5000, 100_000):
                for then in (b"", GET):
                    size = FIXED.header_bytes + more
                    assert await told(size, step, then) == [*first, 431], (size, step)

    asyncio.run(story())


@pytest.mark.parametrize("form", ["line", "value", "name"])
def test_headers_behind_a_request_have_a_largest_size(form: str) -> None:
    """Also where they begin in the middle of what is parsed at once."""

    async def told(size: int) -> bytes:
        talk = Talk(whole_body)
        await talk.send(GET + head(size, form))
        for _ in range(200):
            await asyncio.sleep(0)
        assert talk.transport.written.startswith(b"HTTP/1.1 200")
        return talk.transport.written

    async def story() -> None:
        assert (await told(FIXED.header_bytes)).count(b" 200 ") == 2
        for more in (64, 500, 3000, 5000):
            assert (await told(FIXED.header_bytes + more)).count(b" 200 ") == 1, more

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "codings"),
    [
        (501, ["gzip, chunked"]), (501, ["deflate,chunked"]), (501, ["gzip", "chunked"]),
        (501, ["identity"]), (501, ["gzip"]), (501, ["GZip , Chunked"]), (501, ["x"]),
        (400, ["chunked, gzip"]), (400, ["chunked, chunked"]), (400, ["chunked", "chunked"]),
        (200, ["chunked"]), (200, ["Chunked"]),
    ],
)  # fmt: skip
def test_no_transfer_coding_but_chunked_is_taken(status: int, codings: list[str]) -> None:
    async def story() -> None:
        talk = Talk(whole_body)
        lines = "".join(f"Transfer-Encoding: {coding}\r\n" for coding in codings).encode()
        await talk.send(POST + lines + b"\r\n2\r\n{}\r\n0\r\n\r\n")
        assert talk.transport.written.startswith(b"HTTP/1.1 %d " % status)
        assert talk.transport.written.count(b"HTTP/1.1") == 1
        assert talk.over == (status != 200)
        assert (b"connection: close" in talk.transport.written) == talk.over

    asyncio.run(story())


def test_a_compressed_body_is_refused() -> None:
    async def told(*codings: bytes) -> bytes:
        headers = [(b"content-encoding", coding) for coding in codings]
        headers.append((b"content-type", b"application/json"))

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
        return await read_body(request, 10, lambda _: None)

    for plain in ([], [b""], [b"identity"], [b"Identity"]):
        assert asyncio.run(told(*plain)) == b"{}"
    for codings in ([b"gzip"], [b"identity", b"br"], [b"gzip, identity"], [b"x"]):
        with pytest.raises(ApiError) as wrong:
            asyncio.run(told(*codings))
        assert (wrong.value.status, wrong.value.field) == (415, "Content-Encoding")


@talking
async def test_requests_behind_requests_wait_outside() -> None:
    """However many are sent without waiting, few are kept; all are answered, in order."""
    talk = Talk(never)
    await talk.send(GET * (FLOOD // len(GET)))
    assert not talk.transport.reading
    assert len(talk.wire.pipeline) < 200
    talk = Talk(whole_body)
    await talk.send((GET + POST + b"Content-Length: 7\r\n\r\n1234567") * 2000, 20_000)
    for _ in range(20_000):
        await asyncio.sleep(0)
    answers = talk.transport.written.split(b"HTTP/1.1 ")[1:]
    assert [answer[-1:] for answer in answers] == [b"0", b"7"] * 2000


@talking
async def test_a_client_that_takes_nothing_is_cut_off() -> None:
    talk = Talk(large)
    talk.transport.waiting = 9000
    await talk.send(GET)
    talk.after(0)
    for seconds in range(10, 100, 10):  # it takes a little, now and then
        talk.transport.waiting -= 1
        talk.after(seconds)
    assert not talk.over
    talk.after(90 + FIXED.write_s - 1)
    assert not talk.transport.closed
    talk.after(90 + FIXED.write_s + 1)
    assert talk.transport.closed


@talking
async def test_rubbish_behind_a_request_does_not_spoil_its_answer() -> None:
    talk = Talk(whole_body)
    await talk.send(GET + b"\x00\x00\x00\r\n\r\n")
    assert talk.transport.written.count(b"HTTP/1.1") == 1
    assert b" 200 " in talk.transport.written
    assert talk.over


@talking
async def test_who_leaves_is_noticed_though_more_requests_wait() -> None:
    told = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told.append((await receive())["type"])
        told.append((await receive())["type"])

    talk = Talk(app)
    await talk.send(GET + GET)
    talk.wire.connection_lost(None)
    await talk.rest()
    assert told == ["http.request", "http.disconnect"]


@talking
async def test_an_upgrade_is_not_granted_and_ends_the_connection() -> None:
    talk = Talk(whole_body)
    await talk.send(
        b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    assert b" 200 " in talk.transport.written
    assert talk.over


# --- many connections -----------------------------------------------------------------------------


@talking
async def test_who_keeps_the_server_waiting_longest_makes_room() -> None:
    talk = Talk(whole_body, Limits(connections=3))
    first, second, third = (talk.wire, talk.transport), talk.connect(), talk.connect()
    await asyncio.sleep(0.01)
    first[0].data_received(GET)  # it was answered just now: it is not the one that waits longest
    await talk.rest()
    fourth = talk.connect()
    assert [one.closed for _, one in (first, second, third, fourth)] == [False, True, False, False]
    assert len(talk.connections) == 3


BODY = POST + b"Content-Length: 3000000\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nX: "


@talking
async def test_headers_without_an_end_close_no_upload() -> None:
    """Whoever only opens connections, from here or elsewhere, closes no body that goes on."""
    for limits in (Limits(connections=50), Limits(connections_per_address=50)):
        talk = Talk(whole_body, limits)
        await talk.send(BODY)
        for _ in range(30):
            for _ in range(60):  # more than there may be, from one piece to the next
                talk.connect()[0].data_received(HALF)
            assert not talk.transport.closed
            await talk.send(b"x" * 100_000)
        assert talk.transport.written.endswith(b"3000000")
        assert len(talk.connections) == 50


@talking
async def test_a_body_that_goes_on_is_closed_after_those_that_do_not() -> None:
    talk = Talk(whole_body, Limits(connections=4))
    still = [talk.connect() for _ in range(3)]
    await talk.send(BODY)
    for wire, _ in still:
        wire.data_received(BODY + b"x")
    await talk.rest()
    for i in range(3):
        await talk.send(b"x" * 20_000)
        talk.connect()[0].data_received(BODY + b"x")
        await talk.rest()
        assert [one.closed for _, one in still] == [True] * (i + 1) + [False] * (2 - i)
        assert not talk.transport.closed


@talking
async def test_framing_is_no_progress_of_a_body() -> None:
    talk = Talk(whole_body, Limits(connections=2))
    await talk.send(CHUNKED)
    other, transport = talk.connect()
    other.data_received(BODY + b"x")
    await talk.rest()
    await talk.send(b"5;" + b"a" * 20_000)
    talk.connect()
    assert talk.transport.closed
    assert not transport.closed


@talking
async def test_a_body_that_trickles_has_its_time_and_no_more() -> None:
    talk = Talk(whole_body, Limits(connections=2))
    now = start = talk.loop.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(talk.loop, "time", lambda: now)
        await talk.send(BODY)
        while not talk.over:
            assert now - start < FIXED.body_s + 2
            now += 1
            await talk.send(b"x")
            talk.connect()[0].data_received(HALF)
            talk.connections.check(now)
        assert now - start > FIXED.body_s
    assert b" 408 " in talk.transport.written


@talking
async def test_held_bodies_leave_room_for_newcomers() -> None:
    """Bodies are not all that there is: who comes pushes them out, not who came just before."""
    talk = Talk(whole_body, Limits(connections=20))
    held = [(talk.wire, talk.transport), *(talk.connect() for _ in range(19))]
    for wire, _ in held:
        wire.data_received(BODY + b"x")
    await talk.rest()
    new = [talk.connect()[1] for _ in range(5)]
    assert not any(one.closed for one in new)
    assert [one.closed for _, one in held] == [True] * 5 + [False] * 15


@talking
async def test_an_address_has_its_share_and_no_more() -> None:
    talk = Talk(never, Limits(connections=100, connections_per_address=3))
    others = [talk.connect() for _ in range(2)]
    for wire, _ in [(talk.wire, talk.transport), *others]:
        wire.data_received(GET)  # all are being answered: none can be closed for another
    refused = talk.connect()[1]
    assert refused.closed
    assert refused.written.startswith(b"HTTP/1.1 503")
    assert json.loads(refused.written.split(b"\r\n\r\n")[1])["error"]["code"] == "connections"
    elsewhere = FakeTransport()
    elsewhere.get_extra_info = lambda name: ("192.0.2.2", 1) if name == "peername" else None  # type: ignore[method-assign]
    ConnectionProtocol(
        talk.config, talk.server, {}, talk.loop, connections=talk.connections
    ).connection_made(elsewhere)  # fmt: skip
    assert not elsewhere.closed
    others[0][0].connection_lost(None)
    assert not talk.connect()[1].closed


def test_one_client_is_an_address_or_a_network_of_ipv6() -> None:
    class One:
        def is_waiting(self) -> bool:
            return False

        check = drop = lambda *told: None

    def admitted(addresses: list[str], **most: int) -> list[bool]:
        found = Connections(Limits(**most))
        return [found.admit(cast(Any, One()), address) for address in addresses]

    mixed = ["2001:db8::1", "2001:db8::2:3", "2001:db8:0:1::1", "::ffff:192.0.2.1", "192.0.2.1"]
    assert admitted(mixed, connections_per_address=1) == [True, False, True, True, False]
    # This machine's own addresses are a proxy's, unless it is said how many it may have.
    assert all(admitted(["127.0.0.1"] * (FIXED.connections_per_address + 1)))
    assert not all(admitted(["127.0.0.1"] * 3, connections_per_address=2))
    assert admitted(["192.0.2.1"] * (FIXED.connections_per_address + 1)).count(False) == 1
    assert Connections(Limits(), 300).most == 150
    assert Connections(Limits(), 10**6).most == FIXED.connections


# --- a server -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("guarded")
    keys(folder, "add", "somebody")
    with serving(folder, "--connections", "150") as served:
        yield served


def connect(service: Served) -> socket.socket:
    host, port = service.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def memory(service: Served) -> int:
    told = Path(f"/proc/{service.pid}/status").read_text()
    return int(told.split("VmRSS:")[1].split()[0]) * 1024


def sockets(service: Served) -> int:
    count = 0
    for entry in Path(f"/proc/{service.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(entry.readlink()).startswith("socket:")
    return count


def healthy(service: Served) -> bool:
    return httpx.get(f"{service.url}/healthz", timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("begin", "block"),
    [
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 10_000),
        (CHUNKED + b"2\r\n{}\r\n0\r\na: ", b"b" * 60_000),
        (CHUNKED + b"2;a=", b"b" * 60_000),
        (b"", GET * 1500),
    ],
)
@pytest.mark.heavy
def test_a_flood_takes_no_memory(guarded: Served, begin: bytes, block: bytes) -> None:
    before = memory(guarded)
    for _ in range(4):
        with connect(guarded) as wire:
            wire.settimeout(2)  # whose answers are not read is not read from
            with contextlib.suppress(OSError):
                wire.sendall(begin)
                for _ in range(FLOOD // len(block)):
                    wire.sendall(block)
        assert healthy(guarded)
    assert memory(guarded) - before < 50e6


@pytest.mark.heavy
def test_an_answer_before_the_body_can_be_read_by_who_sends_on(guarded: Served) -> None:
    told = httpx.post(f"{guarded.url}/v1/mechanisms", content=b"x" * 6_000_000, timeout=60)
    assert told.status_code == 401
    assert told.headers["connection"] == "close"
    assert told.json()["error"]["code"] == "key"


@pytest.mark.heavy
def test_held_connections_stop_nobody(guarded: Served) -> None:
    """Far more of them than there may be, one byte after the answer each."""
    with contextlib.ExitStack() as all_:
        for i in range(450):
            wire = all_.enter_context(connect(guarded))
            with contextlib.suppress(OSError):
                wire.sendall(POST + b"Content-Length: 1000\r\n\r\n" if i % 3 else b"GET /")
                wire.sendall(b"{")
            if i % 50 == 0:
                assert healthy(guarded)
        wait_until(lambda: sockets(guarded) < 180)
        assert healthy(guarded)
        metrics = "whereish_connections "
        assert metrics not in httpx.get(f"{guarded.url}/metrics").text, "not without a key"
    wait_until(lambda: sockets(guarded) < 20)


@pytest.mark.heavy
def test_a_server_without_free_descriptors_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path) as service, contextlib.ExitStack() as all_:
        used = len(list(Path(f"/proc/{service.pid}/fd").iterdir()))
        most = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (used + 10, most[1]))
        for _ in range(60):
            all_.enter_context(connect(service)).sendall(b"GET / HTTP/1.1\r\n")
        time.sleep(0.5)
        all_.close()
        wait_until(lambda: healthy_at_last(service))


def healthy_at_last(service: Served) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{service.url}/healthz", timeout=10).status_code == 200
    return False


def test_bodies_have_a_largest_size_together() -> None:
    """What is read of bodies that have not ended waits in memory: only so much of it."""

    def request(*pieces: bytes) -> Request:
        left = list(pieces)

        async def receive() -> dict[str, Any]:
            piece = left.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(left)}

        headers = [(b"content-type", b"application/json")]
        return Request({"type": "http", "method": "POST", "headers": headers}, receive)

    async def story() -> None:
        room = BodyMemory(20)
        with room.share() as one, room.share() as two:
            assert await read_body(request(b"x" * 5, b"y" * 5), 10, one) == b"xxxxxyyyyy"
            with pytest.raises(ApiError) as too_large:
                await read_body(request(b"x" * 11), 10, two)
            assert too_large.value.status == 413
            assert await read_body(request(b"x" * 10), 10, two)
            with room.share() as three, pytest.raises(ApiError) as refused:
                await read_body(request(b"x"), 10, three)
            assert (refused.value.status, refused.value.code) == (503, "busy")
            assert "retry-after" in refused.value.headers
        with room.share() as again:
            assert await read_body(request(b"x" * 10), 10, again)

    asyncio.run(story())
