"""Find the nearest café, and tell nobody where you are: a small app around a mechanism file.

    python examples/app/run.py

builds the mechanism for a public prior, starts the directory and the app, and prints the address.
docs/guides/protect-location-in-your-app.md explains every choice.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import whereish as wh

sys.path.insert(0, str(Path(__file__).resolve().parent))
from directory import TOWN, Directory, cafes
from server import AppServer

RATIO, WITHIN_KM = 2.0, 0.3  # reports at most twice likelier between two places 300 m apart
CELL_KM = 0.7


def build(file: Path) -> None:
    """Build the mechanism that all devices share, for a prior that is public anyway.

    Many cafés are where many people are. No person's own places go into it, so the file may be
    given to everybody.
    """
    places = wh.square_grid(**TOWN, cell_km=(CELL_KM, CELL_KM))
    if places.plane is None:
        raise ValueError("the grid is in degrees, so it has a plane")
    cafe_km = places.plane.to_xy([(one["lat"], one["lon"]) for one in cafes()])
    near = [int((np.hypot(*(cafe_km - cell).T) < CELL_KM).sum()) for cell in places.xy]
    prior = (np.array(near) + 1.0) / (sum(near) + len(near))
    wh.save_mechanism(file, wh.optimal(places, prior, epsilon=np.log(RATIO) / WITHIN_KM))


@contextlib.contextmanager
def running(mechanism: Path, port: int = 0) -> Iterator[tuple[str, AppServer, Directory]]:
    """Start the directory and the app; yield the app's address and both servers."""
    with Directory() as directory:
        address = f"http://127.0.0.1:{directory.server_port}"
        with AppServer(mechanism, address, port) as app:
            for server in (directory, app):
                threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{app.server_port}/", app, directory
            finally:
                app.shutdown()
                directory.shutdown()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "town.whereish")
        build(file)
        with running(file, port=8780) as (url, _, directory):
            print(f"The app is at {url}. Ctrl-C stops it.")
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                print(f"The directory has seen {len(directory.seen)} requests, and no position.")


if __name__ == "__main__":
    main()
