"""Readers of traces in one run: ours beside trackintel's, T-Drive at full size, many small files.

    python benchmarks/readers.py [--geolife FOLDER]

Without a folder of GeoLife's users (its ``Data``) the tree is a synthetic city's. trackintel is
compared where it is installed: pip install -e '.[bench-readers]'. Every reading has a process of
its own, so that its memory is its own; each is done three times and the best counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import whereish as wh

_OURS = """
import json, resource, sys, time
import whereish as wh
start = time.perf_counter()
funnel, rows = wh.Funnel(), 0
for batch in wh.open_traces(sys.argv[1]).batches(funnel):
    rows += len(batch)
"""
_VISITS = """
import json, resource, sys, time
import whereish as wh
start = time.perf_counter()
traces = wh.open_traces(sys.argv[1])
cells = wh.SquareCells.over(39.75, 116.15, 40.15, 116.65)
rows = wh.count_visits(traces, cells, "Asia/Shanghai").funnel.kept
"""
_PEER = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from trackintel.io.dataset_reader import read_geolife
start = time.perf_counter()
rows = len(read_geolife(sys.argv[1])[0])
"""
_TELL = """
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"rows": rows, "seconds": seconds, "peak_gb": peak}))
"""


def timed(code: str, folder: Path, times: int = 3) -> dict[str, float] | None:
    """Run a reading in processes of its own and return the best."""
    found: list[dict[str, float]] = []
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-c", code + _TELL, str(folder)], capture_output=True, text=True
        )
        if done.returncode != 0:
            print(f"  failed: {done.stderr.strip().splitlines()[-1]}")
            return None
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return min(found, key=lambda one: float(one["seconds"]))


def show(name: str, one: dict[str, float] | None) -> None:
    if one is not None:
        rate = one["rows"] / one["seconds"]
        print(
            f"{name:<44} {one['rows']:>12,} rows {one['seconds']:>8.2f} s "
            f"{rate:>12,.0f} rows/s {one['peak_gb']:>6.2f} GB"
        )


def some_users(data: Path, count: int, into: Path) -> Path:
    """Link the first people of a tree into a folder of their own."""
    into.mkdir()
    for user in sorted(p for p in data.iterdir() if p.is_dir() and p.name.isdigit())[:count]:
        (into / user.name).symlink_to(user.resolve())
    return into


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--geolife", type=Path, help="the folder with the users' folders")
    parser.add_argument("--taxis", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        data = asked.geolife
        if data is None:
            print("no GeoLife: a synthetic city of 40 people instead")
            data = wh.SyntheticCity(users=40, every_s=5).write_geolife(here / "city") / "Data"
        else:
            show("GeoLife, all, ours", timed(_OURS, data))
            show("GeoLife, all, to visits in cells", timed(_VISITS, data))
        twenty = some_users(data, 20, here / "twenty")
        ours, peer = timed(_OURS, twenty), timed(_PEER, twenty, 1)
        show("20 people, ours", ours)
        show("20 people, trackintel", peer)
        if ours and peer:
            print(f"{'':44} ours is {peer['seconds'] / ours['seconds']:.1f} times as fast")
        taxis = _taxis(asked.taxis, here / "taxis")
        show(f"T-Drive, {asked.taxis} taxis, a week", timed(_OURS, taxis))
        show("the same, to visits in cells", timed(_VISITS, taxis))
        many = here / "many"
        many.mkdir()
        for number in range(20_000):
            text = "time,lat,lon\n" + f"2020-01-01 00:00:00,10,{number / 1000}\n" * 20
            (many / f"{number}.csv").write_text(text)
        show("20,000 small CSV files", timed(_OURS, many))


def _taxis(count: int, folder: Path) -> Path:
    """Write taxis that are out all day: 30,000 points in a week each, every 20 seconds."""
    import numpy as np
    import polars as pl

    folder.mkdir()
    start = np.datetime64("2008-02-02T13:30:00", "us")
    clock = pl.Series(start + np.arange(30_000) * np.timedelta64(20, "s"))
    for number in range(count):
        rng = np.random.default_rng(number)
        lon, lat = (np.cumsum(rng.normal(0, 1e-4, 30_000)) + at for at in (116.4, 39.9))
        columns = [pl.Series([number + 1] * 30_000), clock, lon.round(5), lat.round(5)]
        table = pl.DataFrame(dict(zip(("id", "time", "lon", "lat"), columns, strict=True)))
        file = folder / f"{number + 1}.txt"
        table.write_csv(
            file, include_header=False, float_precision=5, datetime_format="%Y-%m-%d %H:%M:%S"
        )
    return folder


if __name__ == "__main__":
    main()
