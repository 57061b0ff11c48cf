"""Read an OpenStreetMap extract: the roads, waters, parks and names of an area.

The parser (osmium) is C++ and reads files of others. It runs in a process of its own: a file that
ends that process ends in one line of error here, and Ctrl-C ends it at once.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import shapely

from whereish.errors import FormatError, InputError
from whereish.extras import require
from whereish.maps.area import Area
from whereish.maps.kinds import COAST, PLACES, Kind, area_kind, area_pairs, line_kind, tag_pairs

MOST_POINTS = 20_000_000  # of the kept lines and outlines: about 2 GB
_IN_MEMORY = 300 << 20  # bytes of a file whose nodes (16 bytes each) are kept in memory
_NEWS = 20_000  # kept objects between two messages
_NAME_LETTERS = 80
_OVERLAP = 0.01  # of the area's size: lines are clipped a bit outside of it

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """The kept parts of an extract: geometries in degrees (lon, lat) by kind, and names."""

    area: Area
    shapes: dict[Kind, list[Any]]
    names: list[tuple[str, str, float, float]] = field(repr=False)  # class, name, lon, lat


def read_extract(path: Path, area: Area | None, progress: Progress = lambda news: None) -> Found:
    """Read what a map shows of an area, or of the whole extract.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or holds too much; if osmium is not installed.
    """
    require("osmium", "whereish map")
    if not path.is_file():
        raise InputError(f"an extract must be a file that exists, got {path}")
    _check_begin(path)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_child, args=(there, str(path), area), daemon=True)
    child.start()
    there.close()
    try:
        return _listen(here, path, progress)
    except EOFError:
        child.join()
        raise FormatError(
            f"{path.name} must be an OpenStreetMap extract (.osm.pbf), and its parser ended with "
            f"code {child.exitcode}: the file is damaged; fetch it again"
        ) from None
    finally:
        child.kill()
        child.join()
        here.close()


def _listen(pipe: Any, path: Path, progress: Progress) -> Found:
    while True:
        what, told = pipe.recv()
        if what == "news":
            progress(told)
        elif what == "wrong":
            raise FormatError(
                f"{path.name} must be an OpenStreetMap extract (.osm.pbf), and it is not, or is "
                f"damaged ({told}); fetch it again"
            )
        elif what == "large":
            raise InputError(
                f"an area must hold at most {MOST_POINTS:,} points of roads and outlines, and this "
                "one holds more: give a smaller one with --area or --around"
            )
        elif what == "empty":
            raise InputError(
                "an area must hold roads, water, parks or names, and this extract has none there: "
                "is it the extract of the right region?"
            )
        else:
            area, shapes, names = told
            made = {kind: list(shapely.from_wkb(wkb).geoms) for kind, wkb in shapes.items()}
            return Found(Area(*area), made, names)


def _check_begin(path: Path) -> None:
    """Refuse a file whose first block is not the header of a PBF file, before a process starts."""
    with path.open("rb") as stream:
        head = stream.read(64)
    if b"OSMHeader" not in head:
        raise FormatError(
            f"{path.name} must be an OpenStreetMap extract in PBF (.osm.pbf), and it does not "
            "begin as one"
        )


def _child(pipe: Any, path: str, area: Area | None) -> None:
    """Read in the other process; send news, and the result or what is wrong."""
    # What libraries print to standard error would be among the messages of the command.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        reader = _Reader(area, lambda news: pipe.send(("news", news)))
        with _node_store(path) as store:
            reader.read(path, store)
        pipe.send(reader.result())
    except KeyboardInterrupt:
        pass
    except _TooManyPointsError:
        pipe.send(("large", None))
    except (RuntimeError, ValueError, OSError, MemoryError) as wrong:
        # The words of the parser, without numbers: one could be a coordinate.
        words = "".join(c for c in str(wrong) if not c.isdigit())[:100]
        pipe.send(("wrong", " ".join(words.split()) or type(wrong).__name__))


class _TooManyPointsError(Exception):
    """More points than a map may have."""


@contextmanager
def _node_store(path: str) -> Iterator[str]:
    """Return where osmium keeps positions of nodes: memory, or a file for a large extract."""
    if os.path.getsize(path) <= _IN_MEMORY:
        yield "sparse_mem_array"
        return
    with tempfile.TemporaryDirectory(prefix="whereish-nodes-") as folder:
        yield f"sparse_file_array,{folder}/nodes"


class _Reader:
    """Collect what a map shows, clipped to the area."""

    def __init__(self, area: Area | None, news: Progress) -> None:
        self.area = area
        self.box = None if area is None else area.grown(_OVERLAP * max(area.size_km))
        self.news = news
        self.shapes: dict[Kind, list[Any]] = {}
        self.names: list[tuple[str, str, float, float]] = []
        self.points = self.kept = 0

    def read(self, path: str, store: str) -> None:
        import osmium

        wkb = osmium.geom.WKBFactory()
        # At an extract's border nodes are cut off, and have no position.
        broken = (RuntimeError, osmium.InvalidLocationError)
        areas = osmium.filter.TagFilter(*area_pairs())
        objects: Any = (
            osmium.FileProcessor(path)
            .with_locations(store)
            .with_areas(areas)
            .with_filter(osmium.filter.TagFilter(*tag_pairs()))
        )
        for one in objects:
            tags = dict(one.tags)
            if one.is_node():
                if one.location.valid():
                    self._add_name(tags, one.location.lon, one.location.lat)
            elif one.is_way():
                kind = line_kind(tags)
                if kind is not None:
                    for line in _lines(one, wkb, broken):
                        self._add(kind, line)
            elif one.is_area():
                kind = area_kind(tags)
                if kind is not None:
                    try:
                        made = shapely.from_wkb(wkb.create_multipolygon(one))
                    except broken:
                        continue
                    self._add(kind, made, tags.get("name"))

    def _add_name(self, tags: dict[str, str], lon: float, lat: float) -> None:
        name, kind = tags.get("name"), tags.get("place")
        if name and kind in PLACES and self._holds(lon, lat):
            self.names.append((kind, name[:_NAME_LETTERS], lon, lat))

    def _holds(self, lon: float, lat: float) -> bool:
        a = self.area
        return a is None or (a.south <= lat <= a.north and a.west <= lon <= a.east)

    def _add(self, kind: Kind, shape: Any, name: str | None = None) -> None:
        if self.box is not None:
            south, west, north, east = self.box
            low_x, low_y, high_x, high_y = shape.bounds
            if low_x > east or high_x < west or low_y > north or high_y < south:
                return
            # A coastline stays as it was drawn: its direction tells land from water.
            whole = west <= low_x and high_x <= east and south <= low_y and high_y <= north
            if not whole and kind != COAST:
                shape = shapely.clip_by_rect(shape, west, south, east, north)
        if shape.is_empty:
            return
        self.shapes.setdefault(kind, []).append(shape)
        self.points += int(shapely.get_num_coordinates(shape))
        self.kept += 1
        if self.points > MOST_POINTS:
            raise _TooManyPointsError
        if name and kind in (("park", "park"), ("park", "wood"), ("water", "lake")):
            inside = shape.representative_point()
            if self._holds(inside.x, inside.y):
                # The rank of an area's name is its size: see `reduce_map`.
                self.names.append((f"{kind[0]}:{shape.area:.12g}", name[:_NAME_LETTERS],
                                   inside.x, inside.y))  # fmt: skip
        if self.kept % _NEWS == 0:
            self.news(f"{self.kept:,} roads, waters and parks found")

    def result(self) -> tuple[str, Any]:
        if not self.shapes and not self.names:
            return "empty", None
        area = self.area
        if area is None:
            every = [shapely.total_bounds(shapes) for shapes in self.shapes.values()]
            every += [(lon, lat, lon, lat) for _, _, lon, lat in self.names]
            west, south, east, north = (
                pick(box[k] for box in every) for k, pick in enumerate((min, min, max, max))
            )
            area = Area(float(south), float(west), float(north), float(east))
        packed = {
            kind: shapely.to_wkb(shapely.GeometryCollection(shapes))
            for kind, shapes in self.shapes.items()
        }
        return "done", (tuple(area), packed, self.names)


def _lines(way: Any, wkb: Any, broken: tuple[type[Exception], ...]) -> list[Any]:
    """Return the line of a way; its parts, if an extract's border has cut off some nodes."""
    try:
        return [shapely.from_wkb(wkb.create_linestring(way))]
    except broken:
        runs: list[list[tuple[float, float]]] = [[]]
        for node in way.nodes:
            if node.location.valid():
                runs[-1].append((node.location.lon, node.location.lat))
            elif runs[-1]:
                runs.append([])
        return [shapely.LineString(run) for run in runs if len(set(run)) > 1]
