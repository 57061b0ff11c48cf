"""Regions, in which points are counted: square cells, H3 cells, or districts of any shape.

Each class numbers its regions, finds the regions of many points at once, and returns regions as
places (their centres) and as shapes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError, InputError, described
from whereish.extras import require
from whereish.places import Array, LocalPlane, Places, as_numbers, as_whole, euclidean, grid_layout

Ids = NDArray[np.int64]
PAPER_CELL_KM = (0.658, 0.712)  # Section 4.2
ELSEWHERE = np.iinfo(np.int64).min
FAR_KM = 500.0  # further away, a plane is no picture of the earth: unbounded cells end there
_ROW = np.int64(1) << np.int64(32)
_HALF = _ROW >> np.int64(1)


@runtime_checkable
class Regions(Protocol):
    """The methods of every class of regions. Those that cannot be drawn or extended inherit two."""

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the number of the region each point is in, or `ELSEWHERE`."""
        ...

    def places(self, ids: Ids) -> Places:
        """Return regions as places: their centres."""
        ...

    def shapes(self, ids: Ids) -> list[Any]:
        """Return regions as shapes (shapely, in degrees); none if they are not known."""
        return []

    def around(self, ids: Ids, count: int) -> Ids:
        """Return up to so many other regions, those next to these first; none by default."""
        return np.empty(0, dtype=np.int64)

    def recipe(self) -> Any:
        """Return all parameters of the regions, as JSON: the same recipe, the same regions."""
        ...


@dataclass(frozen=True)
class SquareCells:
    """Equal cells in a local plane, numbered by row from the south and column from the west.

    A cell holds its southern and western edge. Distances between centres are those of a perfect
    grid.

    Attributes
    ----------
    plane
        Where the plane touches the earth.
    cell_km
        Width and height of a cell.
    corner_km
        South-western corner of cell 0, 0 in the plane.
    columns, rows
        How many there are; unbounded if not given.
    """

    plane: LocalPlane
    cell_km: tuple[float, float]
    corner_km: tuple[float, float] = (0.0, 0.0)
    columns: int | None = None
    rows: int | None = None

    @classmethod
    def over(
        cls, south: float, west: float, north: float, east: float,
        cell_km: tuple[float, float] = PAPER_CELL_KM,
    ) -> SquareCells:  # fmt: skip
        """Cover an area, given in degrees: the same cells as `square_grid`.

        >>> cells = SquareCells.over(south=48.84, west=2.29, north=48.89, east=2.38)
        >>> cells.columns, cells.rows
        (11, 8)
        """
        plane, cell, (columns, rows) = grid_layout(south, west, north, east, cell_km)
        corner = (-columns * cell[0] / 2, -rows * cell[1] / 2)
        return cls(plane, cell, corner, columns, rows)

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the number of the cell each point is in."""
        lat, lon = np.asarray(lat, np.float64), np.asarray(lon, np.float64)
        found = np.full(len(lat), ELSEWHERE)
        near = np.flatnonzero(self._near(lat, lon))
        xy = self.plane.to_xy(np.column_stack([lat[near], lon[near]]))
        column, row = np.floor((xy - self.corner_km) / self.cell_km).astype(np.int64).T
        found[near] = np.where(self._fits(column, row), self.numbered(column, row), ELSEWHERE)
        return found

    def _fits(self, column: Ids, row: Ids) -> NDArray[np.bool_]:
        """Tell which cells there are: all, unless their columns or rows have an end."""
        fits = np.ones(len(column), dtype=bool)
        if self.columns is not None:
            fits &= (column >= 0) & (column < self.columns)
        if self.rows is not None:
            fits &= (row >= 0) & (row < self.rows)
        return fits

    def _near(self, lat: Array, lon: Array) -> NDArray[np.bool_]:
        """Tell which points may be in a cell: only those are projected."""
        reach_km = FAR_KM
        if self.columns is not None and self.rows is not None:
            size = np.array([self.columns, self.rows]) * self.cell_km
            corner = np.array(self.corner_km)
            ends = np.maximum(np.abs(corner), np.abs(corner + size))
            reach_km = float(np.hypot(*ends))
        up = reach_km / 110 + 1e-3  # a degree of latitude is at least 110.5 km
        near = np.abs(lat - self.plane.lat) <= up
        narrow = np.cos(np.radians(min(89.0, abs(self.plane.lat) + up)))
        east = np.abs((lon - self.plane.lon + 180) % 360 - 180)
        if abs(self.plane.lat) + up < 85:
            near &= east <= up / narrow
        return np.asarray(near)

    @property
    def all_ids(self) -> Ids:
        """The numbers of all cells, where they have an end: row by row from the south-west."""
        if self.columns is None or self.rows is None:
            raise InputError("cells without an end cannot all be numbered")
        column, row = np.meshgrid(np.arange(self.columns), np.arange(self.rows))
        return self.numbered(column.ravel(), row.ravel())

    @staticmethod
    def numbered(column: Ids, row: Ids) -> Ids:
        """Return the number of the cell in a column and a row."""
        return np.asarray(np.asarray(row, np.int64) * _ROW + np.asarray(column, np.int64))

    @staticmethod
    def grid(ids: Ids) -> tuple[Ids, Ids]:
        """Return the column and the row of cells."""
        column = (np.asarray(ids, np.int64) + _HALF) % _ROW - _HALF
        return column, (ids - column) // _ROW

    def places(self, ids: Ids) -> Places:
        """Return the centres of cells, in a plane where they are a perfect grid."""
        xy = np.asarray((np.column_stack(self.grid(ids)) + 0.5) * self.cell_km + self.corner_km)
        return Places(xy, self.plane.to_latlon(xy), self.plane, self.cell_km)

    def shapes(self, ids: Ids) -> list[Any]:
        """Return cells as polygons in degrees."""
        from shapely.geometry import Polygon

        corner = np.column_stack(self.grid(ids)) * np.array(self.cell_km) + self.corner_km
        round_it = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * self.cell_km
        xy = (corner[:, None, :] + round_it).reshape(-1, 2)
        latlon = self.plane.to_latlon(xy).reshape(-1, 4, 2)
        return [Polygon(ring[:, ::-1]) for ring in latlon]

    def around(self, ids: Ids, count: int) -> Ids:
        """Return up to so many other cells, the nearest first."""
        known = np.column_stack(self.grid(ids))
        seen = set(np.asarray(ids).tolist())
        size = np.array(self.cell_km)
        furthest = FAR_KM
        if self.columns is not None and self.rows is not None:
            furthest = float(np.hypot(*(size * (self.columns, self.rows))))
        reach = float(np.sqrt(max(count, 1) * size.prod()) + size.max())
        while True:
            found = self._within(known, seen, reach, count)
            if len(found) >= count or reach > furthest:
                return np.array(list(found)[:count], dtype=np.int64)
            reach *= 2

    def _within(
        self, known: NDArray[np.int64], seen: set[int], reach: float, count: int
    ) -> dict[int, None]:
        """Collect new cells around known ones: all at one distance before any further away."""
        wide, high = (int(reach / side) + 1 for side in self.cell_km)
        wide, high = min(wide, self.columns or wide), min(high, self.rows or high)
        column, row = np.meshgrid(np.arange(-wide, wide + 1), np.arange(-high, high + 1))
        offsets = np.column_stack([column.ravel(), row.ravel()])
        away = np.hypot(*(offsets * self.cell_km).T)
        order = np.argsort(away, kind="stable")
        found: dict[int, None] = {}
        for offset in offsets[order[away[order] <= reach]]:
            column, row = (known + offset).T
            fits = self._fits(column, row)
            for number in self.numbered(column[fits], row[fits]).tolist():
                if number not in seen:
                    found.setdefault(number)
            if len(found) >= count:
                break
        return found

    def coarser(self, factor: int) -> SquareCells:
        """Return cells that are made of factor x factor of these, from the same corner."""
        size = (self.cell_km[0] * factor, self.cell_km[1] * factor)
        if self.columns is not None or self.rows is not None:
            raise InputError("cells of an area have no coarser ones: they would stick out")
        return SquareCells(self.plane, size, self.corner_km)

    def recipe(self) -> Any:
        """Return plane, cell, corner and size."""
        where = [self.plane.lat, self.plane.lon]
        return ["square", where, self.cell_km, self.corner_km, self.columns, self.rows]


@dataclass(frozen=True)
class H3Cells:
    """Uber's hexagons (the extra ``h3``): resolution 7 is 1.4 km a side, 8 530 m, 9 200 m."""

    resolution: int

    def __post_init__(self) -> None:
        if as_whole("resolution", self.resolution, 0) > 15:
            raise InputError(f"resolution must be from 0 to 15, got {self.resolution}")
        _ = self._h3

    @cached_property
    def _h3(self) -> Any:
        return require("h3.api.basic_int", "a grid of H3 hexagons")

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the index of the hexagon each point is in."""
        index, size = self._h3.latlng_to_cell, self.resolution
        pairs = zip(np.asarray(lat).tolist(), np.asarray(lon).tolist(), strict=True)
        return np.fromiter((index(a, b, size) for a, b in pairs), np.int64, len(lat))

    def places(self, ids: Ids) -> Places:
        """Return the centres of hexagons."""
        return Places.from_latlon([self._h3.cell_to_latlng(int(i)) for i in ids])

    def shapes(self, ids: Ids) -> list[Any]:
        """Return hexagons (and a few pentagons) as polygons in degrees."""
        from shapely.geometry import Polygon

        rings = [self._h3.cell_to_boundary(int(i)) for i in ids]
        return [Polygon([(lon, lat) for lat, lon in ring]) for ring in rings]

    def around(self, ids: Ids, count: int) -> Ids:
        """Return up to so many other hexagons, ring by ring."""
        known, found = {int(i) for i in ids}, list[int]()
        for ring in range(1, count + 2):
            disk = {cell for i in known for cell in self._h3.grid_disk(i, ring)}
            found += sorted(disk.difference(known, found))
            if len(found) >= count:
                break
        return np.array(found[:count], dtype=np.int64)

    def recipe(self) -> Any:
        """Return the resolution."""
        return ["h3", self.resolution]


@dataclass(frozen=True, eq=False)
class Districts:
    """Regions of any shape, numbered as they come; a point on a border is in the first of them."""

    polygons: Sequence[Any] = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Districts:
        """Read the regions of a GeoJSON file.

        Raises
        ------
        InputError, FormatError
            If it is no file, or a feature has no shape with an area.
        """
        from shapely.errors import ShapelyError
        from shapely.geometry import shape

        file = Path(path)
        try:
            features = json.loads(file.read_text(encoding="utf-8-sig"))["features"]
            found = [shape(feature["geometry"]) for feature in features]
        except OSError as wrong:
            raise InputError(f"districts {file} cannot be read: {wrong.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, ShapelyError, RecursionError,
                ArithmeticError):  # fmt: skip
            raise FormatError(f"districts {file} must be a GeoJSON FeatureCollection") from None
        for number, region in enumerate(found):
            sound = region.geom_type in ("Polygon", "MultiPolygon") and region.is_valid
            if not sound or region.is_empty:
                raise FormatError(f"districts {file}: feature {number} must be a valid polygon")
            if crosses_date_line(region):
                raise FormatError(
                    f"districts {file}: feature {number} spans more than 180 degrees of "
                    "longitude: where it crosses the date line, split it there (RFC 7946)"
                )
        if not found:
            raise FormatError(f"districts {file} has no feature")
        return cls(tuple(found))

    @cached_property
    def _tree(self) -> Any:
        from shapely import STRtree

        return STRtree(list(self.polygons))

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the number of the district each point is in."""
        import shapely

        point, district = self._tree.query(shapely.points(lon, lat), predicate="intersects")
        found = np.full(len(lat), len(self.polygons), dtype=np.int64)
        np.minimum.at(found, point, district)
        return np.where(found < len(self.polygons), found, ELSEWHERE)

    def places(self, ids: Ids) -> Places:
        """Return a point inside each district."""
        points = [self.polygons[int(i)].representative_point() for i in ids]
        return Places.from_latlon([[point.y, point.x] for point in points])

    def shapes(self, ids: Ids) -> list[Any]:
        """Return the districts."""
        return [self.polygons[int(i)] for i in ids]

    def around(self, ids: Ids, count: int) -> Ids:
        """Return up to so many other districts, the nearest first."""
        others = np.setdiff1d(np.arange(len(self.polygons)), ids)
        if len(others) == 0:
            return others
        everywhere = self.places(np.arange(len(self.polygons)))
        away = euclidean(everywhere)[others][:, np.asarray(ids)].min(axis=1)
        return others[np.argsort(away, kind="stable")][:count]

    def recipe(self) -> Any:
        """Return the shapes as text."""
        return ["districts", [shape.wkt for shape in self.polygons]]


@dataclass(frozen=True)
class DegreeTiles(Regions):
    """Tiles of the earth, a hundredth of a degree wide and high: to find the area of a person."""

    step: float = 0.01

    def of(self, lat: Array, lon: Array) -> Ids:
        """Return the number of the tile each point is in."""
        row = np.floor((np.asarray(lat) + 90) / self.step).astype(np.int64)
        return row * _ROW + np.floor((np.asarray(lon) + 180) / self.step).astype(np.int64)

    def places(self, ids: Ids) -> Places:
        """Return the middle of tiles."""
        return Places.from_latlon(np.column_stack(self.middles(ids)))

    def middles(self, ids: Ids) -> tuple[Array, Array]:
        """Return the latitude and longitude of the middle of tiles."""
        column, row = SquareCells.grid(ids)
        lat, lon = (row + 0.5) * self.step - 90, (column + 0.5) * self.step - 180
        return np.clip(lat, -90, 90), np.clip(lon, -180, 180)

    def recipe(self) -> Any:
        """Return the size."""
        return ["degrees", self.step]


def crosses_date_line(region: Any) -> bool:
    """Tell whether a part of a shape spans more than 180 degrees of longitude."""
    bounds = [part.bounds for part in getattr(region, "geoms", [region])]
    return any(east - west > 180 for west, _, east, _ in bounds)


def as_cell_km(value: Any) -> tuple[float, float]:
    """Check the width and height of a cell."""
    try:
        pair = np.broadcast_to(np.asarray(value, dtype=np.float64), (2,))
    except (TypeError, ValueError):
        raise InputError(f"cell_km must be (width, height) in km, got {described(value)}") from None
    width, height = as_numbers("cell_km", pair, (2,))
    if not (1e-3 <= width <= 1e3 and 1e-3 <= height <= 1e3):
        raise InputError(f"cell_km must be from a metre to 1,000 km, got {described(value)}")
    return float(width), float(height)
