"""A little site on this machine and a browser to open it in, for tests of the client in a page."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CLIENT = Path(__file__).parent.parent / "clients" / "js"
PAGE = b"<!doctype html><title>page</title><body>"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves folders by the first part of a path and an empty page for all else; says nothing."""

    folders: Mapping[str, Path]
    isolated: bool  # from other origins, so that pages may share memory with their workers

    def end_headers(self) -> None:
        if self.isolated:
            self.send_header("cross-origin-opener-policy", "same-origin")
            self.send_header("cross-origin-embedder-policy", "require-corp")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        first, _, rest = path.lstrip("/").partition("/")
        return str(self.folders[first] / rest)

    def do_GET(self) -> None:
        if self.path.lstrip("/").partition("/")[0] in self.folders:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def site(*, isolated: bool = False, **folders: Path) -> Iterator[str]:
    """Serve the client as /client/ and these folders by their names; yield the address."""
    served = {"folders": {"client": CLIENT, **folders}, "isolated": isolated}
    handler = type("Site", (_Quiet,), served)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Start Debian's browser without its sandbox: tests run as root."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless=new", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()
