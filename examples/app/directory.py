"""A directory of cafés: the third party of the example. It answers who is near a point.

It stands for any service that takes a position: places, weather, transport. Its operator may
keep every request for ever, so it must only ever see reports.
"""

from __future__ import annotations

import http.server
import json
import math
import random
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Of a synthetic town: where people are, and so where the cafés are.
TOWN = {"south": 48.835, "west": 2.30, "north": 48.885, "east": 2.40}
_WORDS = ("Blue", "Old", "Corner", "Garden", "Station", "River", "Market", "Little")


def cafes(count: int = 300, seed: int = 7) -> list[dict[str, Any]]:
    """Return synthetic cafés, more of them towards the centre of the town."""
    rng = random.Random(seed)  # noqa: S311
    middle = ((TOWN["south"] + TOWN["north"]) / 2, (TOWN["west"] + TOWN["east"]) / 2)
    found: list[dict[str, Any]] = []
    while len(found) < count:
        lat, lon = rng.gauss(middle[0], 0.014), rng.gauss(middle[1], 0.026)
        if TOWN["south"] < lat < TOWN["north"] and TOWN["west"] < lon < TOWN["east"]:
            name = f"{rng.choice(_WORDS)} Café {len(found) + 1}"
            found.append({"name": name, "lat": round(lat, 5), "lon": round(lon, 5)})
    return found


def km_between(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance of two points in degrees, accurate enough for a town."""
    north = (a[0] - b[0]) * 111.2
    east = (a[1] - b[1]) * 111.2 * math.cos(math.radians((a[0] + b[0]) / 2))
    return math.hypot(north, east)


class Directory(http.server.ThreadingHTTPServer):
    """The server. ``seen`` has every request as it came: what a curious operator would have."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.cafes = cafes()
        self.seen: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Directory

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.client_address[0]} {self.requestline}\n{self.headers}")
        asked = parse_qs(urlsplit(self.path).query)
        try:
            lat, lon, radius = (float(asked[name][0]) for name in ("lat", "lon", "radius_km"))
        except (KeyError, ValueError):
            self.send_error(400, "lat, lon and radius_km must be numbers")
            return
        near = [c for c in self.server.cafes
                if km_between((lat, lon), (c["lat"], c["lon"])) <= min(radius, 10)]  # fmt: skip
        body = json.dumps(near).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
