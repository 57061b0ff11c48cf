"""Firefox driven by its own protocol, Marionette, for tests: JSON over a socket."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
START_S = 120


class Firefox:
    """A session: `command` sends one command of the protocol and returns its value."""

    def __init__(self, port: int) -> None:
        self._socket = self._connected(port)
        self._buffer = b""
        self._last = 0
        self._message()  # the greeting
        self.command("WebDriver:NewSession", capabilities={"alwaysMatch": {}})
        self.command("WebDriver:SetTimeouts", script=60_000, pageLoad=60_000, implicit=0)

    @staticmethod
    def _connected(port: int) -> socket.socket:
        until = time.monotonic() + START_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=120)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _message(self) -> Any:
        while b":" not in self._buffer:
            self._buffer += self._received()
        size, _, rest = self._buffer.partition(b":")
        while len(rest) < int(size):
            rest += self._received()
        self._buffer = rest[int(size) :]
        return json.loads(rest[: int(size)])

    def _received(self) -> bytes:
        got = self._socket.recv(65536)
        if not got:
            raise ConnectionError("firefox has closed the connection")
        return got

    def command(self, name: str, **parameters: Any) -> Any:
        self._last += 1
        text = json.dumps([0, self._last, name, parameters]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, _, wrong, value = self._message()
        if wrong is not None:
            raise RuntimeError(f"{name}: {wrong['error']}: {wrong['message']}")
        return value.get("value") if isinstance(value, dict) else value

    def run(self, script: str, *given: Any) -> Any:
        """Run the body of an asynchronous function in the page; its result comes back."""
        body = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {script} }})(...arguments)"
            ".then(done, (wrong) => done(String(wrong)));"
        )
        return self.command(
            "WebDriver:ExecuteAsyncScript", script=body, args=list(given), newSandbox=True,
            sandbox=None,
        )  # fmt: skip

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page, which may have replaced Promise."""
        return self.command(
            "WebDriver:ExecuteScript", script=f"return {expression};", args=[], newSandbox=True,
            sandbox=None,
        )  # fmt: skip

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Run scripts with the rights of the browser itself."""
        self.command("Marionette:SetContext", value="chrome")
        try:
            yield
        finally:
            self.command("Marionette:SetContext", value="content")

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def firefox(preferences: dict[str, Any]) -> Iterator[Firefox]:
    """Start Firefox with these preferences, in a profile of its own."""
    assert FIREFOX is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    profile = Path(tempfile.mkdtemp(prefix="whereish-firefox-"))
    lines = {"marionette.port": port, "app.update.enabled": False, **preferences}
    text = "".join(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in lines.items())
    (profile / "user.js").write_text(text)
    process = subprocess.Popen(
        [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), "--marionette",
         "--remote-allow-system-access"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        made = Firefox(port)
        try:
            yield made
        finally:
            made.close()
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(profile, ignore_errors=True)
