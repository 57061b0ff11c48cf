"""The server of the app: its page, the mechanism file, and a proxy to the directory of cafés.

The device sends it a report. The proxy passes on the report and nothing else: no address of the
device, no cookie, no header that tells one device from another. It keeps no log.
"""

from __future__ import annotations

import http.server
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

HERE = Path(__file__).resolve().parent
CLIENT = HERE.parents[1] / "clients" / "js"  # an app has it from its package manager
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
RADIUS_KM = 3.0  # the same for every request: a radius that follows the person would tell on them
_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
_LARGEST = 1_000_000  # bytes of an answer
_WAIT_S = 10


class AppServer(http.server.ThreadingHTTPServer):
    """Serves the app. ``seen`` has every request as it came, for the tests of the example."""

    def __init__(self, mechanism: Path, directory: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.mechanism = mechanism
        self.directory = directory
        self.seen: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: AppServer

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.requestline}\n{self.headers}")
        path = urlsplit(self.path).path
        if path == "/cafes":
            self._proxy()
        elif path == "/town.whereish":
            self._send(200, self.server.mechanism.read_bytes(), "application/octet-stream")
        else:
            self._static(path)

    def do_POST(self) -> None:
        length = min(int(self.headers.get("content-length") or 0), _LARGEST)
        body = self.rfile.read(length).decode("latin-1")
        self.server.seen.append(f"{self.requestline}\n{self.headers}\n{body}")
        self._send(405, b"this app takes no POST", "text/plain")

    def _proxy(self) -> None:
        """Fetch on behalf of the device, with a request that is new and holds the report only."""
        asked = parse_qs(urlsplit(self.path).query)
        try:
            lat, lon = (float(asked[name][0]) for name in ("lat", "lon"))
        except (KeyError, ValueError):
            self._send(400, b"lat and lon must be numbers: a report", "text/plain")
            return
        query = urlencode({"lat": lat, "lon": lon, "radius_km": RADIUS_KM})
        request = urllib.request.Request(  # noqa: S310
            f"{self.server.directory}/near?{query}", headers={"user-agent": "cafe-app"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_WAIT_S) as answer:  # noqa: S310
                body = answer.read(_LARGEST)
        except (urllib.error.URLError, OSError):
            self._send(502, b"the directory does not answer: try again later", "text/plain")
            return
        self._send(200, body, "application/json")

    def _static(self, path: str) -> None:
        root, name = HERE / "page", path.lstrip("/") or "index.html"
        if name.startswith("client/"):
            root, name = CLIENT, name.removeprefix("client/")
        file = (root / name).resolve()
        if not file.is_relative_to(root) or file.suffix not in TYPES or not file.is_file():
            self._send(404, b"there is no such file", "text/plain")
            return
        self._send(200, file.read_bytes(), TYPES[file.suffix])

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-security-policy", _POLICY)
        self.send_header("referrer-policy", "no-referrer")
        self.send_header("cache-control", "no-cache")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
