"""A synthetic city: people with homes, work, evenings, errands and a few places everybody goes to.

The people are made up, but their priors are as skewed as real ones: on the cells and with the
filters of the paper, the likeliest of 50 places holds about a sixth of a person's points and the
five likeliest a little over half, as in GeoLife. The same seed makes the same city again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from whereish.day_periods import check_zone
from whereish.errors import InputError, described
from whereish.files import check_writable, new_folder, real_path
from whereish.lazy import pl
from whereish.places import Array, LocalPlane, as_whole
from whereish.traces.cleaning import schema

Progress = Callable[[int], object]
_PLT_HEADING = (
    "Geolife trajectory\r\nWGS 84\r\nAltitude is in Feet\r\nReserved 3\r\n"
    "0,2,255,My Track,0,0,2,8421376\r\n0\r\n"
)
_TAXI_ZONE = "Asia/Shanghai"
_NOISE_KM = 0.006
_PAUSE_S = 1200
_HALF_KM = 7.0


@dataclass(frozen=True)
class SyntheticCity:
    """A made-up city and its people; `person` returns one of them.

    Attributes
    ----------
    users, days, seed
        How many people, how many days of each, and which city.
    every_s
        Seconds between two points of a trace.
    lat, lon, zone
        Where it is; Paris by default.
    first_day
        The first of the days.

    >>> city = SyntheticCity(users=2, days=3)
    >>> city.person(0).columns
    ['user', 'time', 'lat', 'lon']
    """

    users: int = 100
    days: int = 90
    seed: int = 0
    every_s: int = 30
    lat: float = 48.8566
    lon: float = 2.3522
    zone: str = "Europe/Paris"
    first_day: date = field(default=date(2025, 3, 3))

    def __post_init__(self) -> None:
        for name in ("users", "days", "every_s"):
            as_whole(name, getattr(self, name))
        as_whole("seed", self.seed, 0)
        check_zone(self.zone)
        if not isinstance(self.first_day, date):
            raise InputError(f"first_day must be a date, got {described(self.first_day)}")
        _ = self._plane

    @property
    def area(self) -> tuple[float, float, float, float]:
        """South, west, north and east of the part where life takes place, in degrees."""
        corners = self._plane.to_latlon([[-_HALF_KM, -_HALF_KM], [_HALF_KM, _HALF_KM]])
        (south, west), (north, east) = corners.round(4).tolist()
        return south, west, north, east

    def name(self, number: int) -> str:
        """Return what a person is called: 000, 001 and so on."""
        return f"{number:0{max(3, len(str(self.users - 1)))}d}"

    def person(self, number: int) -> pl.DataFrame:
        """Return all points of one person: user, time, lat and lon."""
        life, rng = self._life(number)
        seconds, spots, recorded = self._walk(life, rng)
        times = [np.arange(begin, end, self.every_s) for begin, end in sorted(recorded)]
        when = np.concatenate([np.empty(0, dtype=np.int64), *times])
        xy = np.column_stack([np.interp(when, seconds, spots[:, part]) for part in (0, 1)])
        xy += rng.normal(0, _NOISE_KM, xy.shape)
        return self._table(number, when, xy)

    def _life(self, number: int) -> tuple[_Life, np.random.Generator]:
        if not 0 <= number < self.users:
            raise InputError(f"number must be from 0 to {self.users - 1}, got {number}")
        rng = np.random.default_rng([self.seed, 1, number])
        return _Life(self._hotspots, self._quarters, rng), rng

    def _table(self, number: int, when: NDArray[np.int64], xy: Array) -> pl.DataFrame:
        # Six decimals, as loggers write them: the same numbers in every format.
        latlon = self._plane.to_latlon(xy).round(6) if len(xy) else xy
        return pl.DataFrame(
            {
                "user": [self.name(number)] * len(when),
                "time": pl.Series(when * 1_000_000).cast(pl.Datetime("us", "UTC")),
                "lat": latlon[:, 0],
                "lon": latlon[:, 1],
            },
            schema=schema(),
        )

    def whole_path(self, number: int, every_s: int = 600) -> pl.DataFrame:
        """Return where one person is at all times, recorded or not: user, time, lat and lon."""
        life, rng = self._life(number)
        seconds, spots, _ = self._walk(life, rng)
        when = np.arange(seconds[0] // every_s + 1, seconds[-1] // every_s) * every_s
        xy = np.column_stack([np.interp(when, seconds, spots[:, part]) for part in (0, 1)])
        return self._table(number, when.astype(np.int64), xy)

    def home_and_work(self, number: int) -> Array:
        """Return where one person lives and works, (2, 2) degrees: the truth of `whole_path`."""
        life, _ = self._life(number)
        return self._plane.to_latlon([life.home, life.work])

    def people(self, progress: Progress | None = None) -> Iterator[pl.DataFrame]:
        """Yield the points of one person after another; progress gets their number."""
        for number in range(self.users):
            yield self.person(number)
            if progress is not None:
                progress(number + 1)

    def write_geolife(self, folder: str | Path, progress: Progress | None = None) -> Path:
        """Write a tree of files as GeoLife's: ``Data/000/Trajectory/20250303070000.plt``."""
        day = (pl.col("time").dt.epoch("s") / 86400 + 25569).round(10)
        paused = pl.col("time").diff().dt.total_seconds() > _PAUSE_S
        with new_folder(folder) as made:
            for table in self.people(progress):
                there = made / "Data" / str(table["user"][0] if len(table) else "") / "Trajectory"
                lines = table.select(
                    trace=paused.cum_sum().fill_null(0),
                    time="time",
                    line=pl.concat_str(
                        "lat", "lon", pl.lit("0,150"), day.cast(pl.String),
                        pl.col("time").dt.strftime("%Y-%m-%d,%H:%M:%S"), separator=",",
                    ),
                )  # fmt: skip
                for _, rows in lines.group_by("trace", maintain_order=True):
                    there.mkdir(parents=True, exist_ok=True)
                    begun = rows["time"][0].strftime("%Y%m%d%H%M%S")
                    text = _PLT_HEADING + "\r\n".join(rows["line"].to_list()) + "\r\n"
                    (there / f"{begun}.plt").write_bytes(text.encode())
        return Path(folder)

    def write_t_drive(self, folder: str | Path, progress: Progress | None = None) -> Path:
        """Write a file a person as T-Drive's: id, time (Beijing's), lon and lat to 5 decimals."""
        clock = pl.col("time").dt.convert_time_zone(_TAXI_ZONE).dt.strftime("%Y-%m-%d %H:%M:%S")
        with new_folder(folder) as made:
            for number, table in enumerate(self.people(progress)):
                rows = table.select(
                    pl.lit(str(number + 1)), clock, pl.col("lon").round(5), pl.col("lat").round(5)
                )
                rows.write_csv(made / f"{number + 1}.txt", include_header=False, float_precision=5)
        return Path(folder)

    def write_parquet(self, file: str | Path, progress: Progress | None = None) -> Path:
        """Write one Parquet table with the columns user, time, lat and lon."""
        from polars.io.plugins import register_io_source

        def source(
            with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None,
            batch_size: int | None,
        ) -> Iterator[pl.DataFrame]:  # fmt: skip
            # The stream calls from its own threads, whose stacks are too small for a projection.
            people = self.people(progress)
            while (table := worker.submit(next, people, None).result()) is not None:
                yield table

        worker = ThreadPoolExecutor(1)
        check_writable(file)
        target = real_path(file)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(descriptor)
        try:
            register_io_source(source, schema=schema()).sink_parquet(temporary)
            os.replace(temporary, target)
        finally:
            worker.shutdown()
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return Path(file)

    @cached_property
    def _plane(self) -> LocalPlane:
        return LocalPlane(self.lat, self.lon)

    @cached_property
    def _quarters(self) -> Array:
        return _scattered(np.random.default_rng([self.seed, 2]), 5, 2.8)

    @cached_property
    def _hotspots(self) -> Array:
        return _scattered(np.random.default_rng([self.seed, 3]), 8, 2.8)

    def _walk(
        self, life: _Life, rng: np.random.Generator
    ) -> tuple[Array, Array, list[tuple[int, int]]]:
        """Return when a person is where, and when that is recorded."""
        seconds: list[float] = []
        spots: list[Array] = []
        recorded: list[tuple[int, int]] = []
        here = life.home
        for number in range(self.days):
            day = self.first_day + timedelta(days=number)
            noon = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(self.zone))
            midnight = noon.timestamp() - 12 * 3600
            logs = rng.random() < life.diligence
            free = midnight + 4 * 3600.0
            for hour, there in life.itinerary(day.weekday() >= 5, rng):
                leave = max(midnight + hour * 3600, free)
                way, taken = _way(here, there, rng)
                for share, spot in way:
                    seconds.append(leave + share * taken)
                    spots.append(spot)
                free, here = leave + taken + 60, there
                stays = float(rng.exponential(1500))
                if logs and rng.random() < 0.85:
                    recorded.append((int(leave - 120), int(free + stays)))
        merged: list[tuple[int, int]] = []
        for begin, end in recorded:
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return np.array(seconds), np.array(spots).reshape(-1, 2), merged


class _Life:
    """Where a person goes, and how a day of the person's looks."""

    def __init__(self, hotspots: Array, quarters: Array, rng: np.random.Generator) -> None:
        popular = 1 / np.arange(1, len(hotspots) + 1)
        near = 1 / np.arange(1, len(quarters) + 1)
        self.home = quarters[rng.choice(len(quarters), p=near / near.sum())] + _off(rng, 0.9)
        at_work = popular[:3] / popular[:3].sum()
        self.work = hotspots[rng.choice(3, p=at_work)] + _off(rng, 0.35)
        chosen = rng.choice(len(hotspots), 3, replace=False, p=popular / popular.sum())
        self.evenings = hotspots[chosen] + _off(rng, 0.15, 3)
        around = np.vstack([np.tile(self.home, (3, 1)), np.tile(self.work, (2, 1))])
        self.errands = around + _off(rng, 0.9, 5)
        self.friends = _off(rng, 3.5, 2)
        self.diligence = float(0.04 + 0.9 * rng.beta(1.3, 1.6))
        self.goes_out, self.shops = float(rng.uniform(0.2, 0.7)), float(rng.uniform(0.2, 0.7))
        self.up, self.back = float(rng.normal(8.3, 0.6)), float(rng.normal(18.0, 0.8))
        self.works = rng.random(5) < rng.choice([0.98, 0.6], p=[0.85, 0.15])

    def itinerary(self, weekend: bool, rng: np.random.Generator) -> list[tuple[float, Array]]:
        """Return at which hours of a day the person leaves for where, in their order."""
        stops: list[tuple[float, Array]] = []
        errand = self.errands[rng.choice(5, p=[0.4, 0.2, 0.1, 0.2, 0.1])]
        evening = self.evenings[rng.choice(3, p=[0.6, 0.3, 0.1])]
        friend = self.friends[rng.choice(2, p=[0.7, 0.3])]
        if not weekend and self.works[rng.integers(5)]:
            stops.append((self.up + rng.normal(0, 0.3), self.work))
            if rng.random() < 0.5:
                lunch = 12.2 + rng.normal(0, 0.3)
                stops += [(lunch, self.errands[rng.integers(3, 5)]), (lunch + 0.9, self.work)]
            home = self.back + rng.normal(0, 0.5)
            if rng.random() < self.shops:
                stops.append((home, errand))
                home += 0.7
            stops.append((home, self.home))
        else:
            if rng.random() < 0.8:
                stops += [(9.5 + rng.normal(0, 1), errand), (11.5 + rng.normal(0, 0.5), self.home)]
            if rng.random() < 0.6:
                stops += [(14.5 + rng.normal(0, 1), friend if rng.random() < 0.4 else evening)]
                stops += [(17.5 + rng.normal(0, 0.7), self.home)]
        if rng.random() < self.goes_out:
            stops += [(19.8 + rng.normal(0, 0.5), evening), (23.0 + rng.normal(0, 0.8), self.home)]
        return stops


def _off(rng: np.random.Generator, by_km: float, count: int | None = None) -> Array:
    return np.asarray(rng.normal(0, by_km, (count, 2) if count else 2))


def _scattered(rng: np.random.Generator, count: int, reach_km: float) -> Array:
    """Return points in a disc, none on top of another."""
    found: list[Array] = []
    while len(found) < count:
        spot = rng.uniform(-reach_km, reach_km, 2)
        apart = [float(np.hypot(*(spot - other))) for other in found]
        if np.hypot(*spot) <= reach_km and min(apart, default=9.0) > 0.8 * reach_km / count**0.5:
            found.append(spot)
    return np.array(found)


def _way(
    here: Array, there: Array, rng: np.random.Generator
) -> tuple[list[tuple[float, Array]], float]:
    """Go from here to there along streets: one corner, on foot if near."""
    corner = np.array([there[0], here[1]] if rng.random() < 0.5 else [here[0], there[1]])
    first, second = np.abs(corner - here).sum(), np.abs(there - corner).sum()
    length = first + second
    speed_km_h = (4.8 if length < 1.3 else 16.0) * rng.uniform(0.8, 1.2)
    turn = first / length if length > 0 else 0.5
    return [(0.0, here), (turn, corner), (1.0, there)], length / speed_km_h * 3600
