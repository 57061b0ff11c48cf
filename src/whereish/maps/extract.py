"""Read an OpenStreetMap extract: the roads, waters, parks and names of an area."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whereish.lazy import shapely
from whereish.maps.area import Area
from whereish.maps.kinds import COAST, PLACES, Kind, area_kind, area_pairs, line_kind, tag_pairs
from whereish.maps.parser import MOST_POINTS, Progress, TooManyPointsError, parse_extract

_NEWS = 20_000  # kept objects between two messages
_NAME_LETTERS = 80
_OVERLAP = 0.01  # of the area's size: lines are clipped a bit outside of it


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
    box, shapes, names = parse_extract(
        path, _Reader, area, progress, "whereish map", "roads, water, parks or names"
    )
    made = {kind: list(shapely.from_wkb(wkb).geoms) for kind, wkb in shapes.items()}
    return Found(Area(*box), made, names)


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
            raise TooManyPointsError
        if name and kind in (("park", "park"), ("park", "wood"), ("water", "lake")):
            inside = shape.representative_point()
            if self._holds(inside.x, inside.y):
                # The rank of an area's name is its size: see `reduce_map`.
                self.names.append((f"{kind[0]}:{shape.area:.12g}", name[:_NAME_LETTERS],
                                   inside.x, inside.y))  # fmt: skip
        if self.kept % _NEWS == 0:
            self.news(f"{self.kept:,} roads, waters and parks found")

    def result(self) -> tuple[Any, ...] | None:
        if not self.shapes and not self.names:
            return None
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
        return tuple(area), packed, self.names


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
