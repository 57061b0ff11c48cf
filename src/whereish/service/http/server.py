"""The server: bind the address, start the queue, answer requests until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from whereish.errors import InputError
from whereish.files import locked
from whereish.service.http.app import create_app
from whereish.service.http.connections import open_files
from whereish.service.http.context import Service
from whereish.service.http.protocol import ConnectionProtocol
from whereish.service.limits import FIXED
from whereish.service.settings import Settings, private_folder
from whereish.service.workers.process import disable_core_dumps

_CHECK_TICKS = 10  # between two checks of all connections: a second


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends after a signal without raising it again."""

    def __init__(
        self, config: uvicorn.Config, service: Service, ready: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _CHECK_TICKS == 0:
            self._service.connections.check(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End open event streams as well."""
        self._service.stopping = True
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def serve(settings: Settings, ready: Callable[[str], object]) -> None:
    """Serve until interrupted; call `ready` with the URL once requests are answered.

    InputError is raised if other machines could reach it but there are no keys, if the address is
    in use, and if another server uses the folder.
    """
    os.umask(0o077)
    disable_core_dumps()
    _raise_file_limit()
    private_folder(settings.folder)
    with _lock(settings), _listen(settings) as listening:
        address = listening.getsockname()
        settings = replace(settings, port=address[1])
        app, service = create_app(settings)
        if not settings.is_local and not service.keys.exist:
            raise InputError(
                f"host must be 127.0.0.1 as long as there are no keys, got {settings.host}: "
                "whereish keys add NAME makes a key"
            )
        service.queue.start()
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        protocol = partial(ConnectionProtocol, connections=service.connections)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=3, backlog=min(1024, (open_files() or 4096) // 4), ws="none",
            proxy_headers=False, http=cast(Any, protocol),
        )  # fmt: skip
        server = _Server(config, service, lambda: ready(f"http://{shown}:{settings.port}"))
        # Loaded modules stay: a search for garbage in them would block all requests for 0.1 s.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(0.0005)  # threads of the queue delay answers less

        try:
            with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
                runner.run(server.serve(sockets=[listening]))
        finally:
            service.queue.stop()


def _raise_file_limit() -> None:
    """Allow as many open connections as the operating system permits."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _lock(settings: Settings) -> AbstractContextManager[None]:
    """Return a lock of the folder, so that no second server uses its embedded database."""
    if settings.database is not None:
        return contextlib.nullcontext()
    return locked(
        settings.folder / "lock",
        f"folder must be used by one server at a time, and another one uses {settings.folder}: "
        "give --folder, or --database for several servers",
    )


@contextlib.contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, FIXED.send_buffer_bytes)
        listening.bind((settings.host, settings.port))
        os.set_inheritable(listening.fileno(), False)
    except socket.gaierror:
        listening.close()
        raise InputError(
            "host must be an address of this machine, like 127.0.0.1 or 0.0.0.0, got "
            f"{settings.host}"
        ) from None
    except (OSError, OverflowError) as wrong:
        listening.close()
        reason = getattr(wrong, "strerror", None) or wrong
        raise InputError(
            f"host and port must be free, and {settings.host}:{settings.port} is not: {reason}"
        ) from None
    try:
        yield listening
    finally:
        listening.close()
