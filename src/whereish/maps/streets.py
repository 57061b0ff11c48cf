"""The roads of an OpenStreetMap extract as a network, and distances along them between places."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from whereish.errors import InputError
from whereish.maps.area import Area
from whereish.maps.map_file import ATTRIBUTION
from whereish.maps.parser import MOST_POINTS, Progress, TooManyPointsError, parse_extract
from whereish.places import Array, LocalPlane, MapMetric, Places, RoadNetwork

# Everything that people walk or drive along. One-way streets are roads in both directions: a
# distance is the same there and back.
HIGHWAYS = (
    "motorway", "motorway_link", "trunk", "trunk_link", "primary", "primary_link", "secondary",
    "secondary_link", "tertiary", "tertiary_link", "unclassified", "residential", "living_street",
    "road", "service", "pedestrian", "footway", "path", "cycleway", "bridleway", "steps", "track",
)  # fmt: skip
_NEWS = 20_000  # ways between two messages
_PER_DEGREE = 10_000_000  # OpenStreetMap's positions are whole numbers of 1e-7 degrees


class RoadReader:
    """Collect the pieces of roads between two neighbouring nodes, inside the area."""

    def __init__(self, area: Area | None, news: Progress) -> None:
        self.area, self.news = area, news
        self.pieces: list[NDArray[np.int64]] = []
        self.points = self.ways = 0

    def read(self, path: str, store: str) -> None:
        """Read a file."""
        import osmium

        pairs = [("highway", value) for value in HIGHWAYS]
        objects: Any = (
            osmium.FileProcessor(path, osmium.osm.NODE | osmium.osm.WAY)
            .with_locations(store)
            .with_filter(osmium.filter.EntityFilter(osmium.osm.WAY))
            .with_filter(osmium.filter.TagFilter(*pairs))
        )
        for way in objects:
            if way.tags.get("area") == "yes":
                continue
            run: list[tuple[int, int]] = []
            for node in way.nodes:
                at = node.location
                if at.valid() and self._holds(at.lat, at.lon):
                    run.append((at.y, at.x))
                else:  # outside of the area, or cut off at the border of the extract
                    self._add(run)
                    run = []
            self._add(run)

    def _holds(self, lat: float, lon: float) -> bool:
        a = self.area
        return a is None or (a.south <= lat <= a.north and a.west <= lon <= a.east)

    def _add(self, run: list[tuple[int, int]]) -> None:
        if len(run) < 2:
            return
        self.pieces.append(np.array(run, np.int64))
        self.points += len(run)
        self.ways += 1
        if self.points > MOST_POINTS:
            raise TooManyPointsError
        if self.ways % _NEWS == 0:
            self.news(f"{self.ways:,} roads found")

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return all points, in 1e-7 degrees, and where each run of them ends."""
        if not self.pieces:
            return None
        return np.concatenate(self.pieces), np.cumsum([len(run) for run in self.pieces])


def read_roads(
    path: Path, area: Area | None, progress: Progress = lambda news: None
) -> tuple[RoadNetwork, float]:
    """Return the largest connected network of roads, and which share of all road km it has.

    Roads meet where they share a position.

    Raises
    ------
    InputError
        If the file cannot be read, or has no roads there; if osmium is not installed.
    """
    points, ends = parse_extract(path, RoadReader, area, progress, "whereish metric", "roads")
    return network_of(points, ends)


def network_of(points: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[RoadNetwork, float]:
    """Return the largest connected network of runs of points, and its share of all km.

    Parameters
    ----------
    points
        (p, 2) latitude and longitude, in whole numbers of 1e-7 degrees.
    ends
        (r,) where each run of them ends.
    """
    different, number = np.unique(points, axis=0, return_inverse=True)
    number = number.reshape(-1)
    inside = np.ones(len(points), bool)
    inside[ends - 1] = False  # no piece goes from the end of a run to the next run
    begins = np.flatnonzero(inside)
    edges = np.sort(np.column_stack([number[begins], number[begins + 1]]), axis=1)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    if len(edges) == 0:
        raise InputError("an area must hold roads, and this extract has none there")
    nodes = Places.from_latlon(different / _PER_DEGREE)
    network = RoadNetwork.largest_part(nodes, edges)
    every = np.hypot(*(nodes.xy[edges[:, 0]] - nodes.xy[edges[:, 1]]).T).sum()
    return network, float(network.lengths.sum() / every)


def road_distances(
    network: RoadNetwork, places: Places, within_km: float = np.inf
) -> tuple[Array, Array]:
    """Return the (n, n) distances along the roads between places, and (n,) km to the nearest road.

    d(x, y) = s(x) + path(x', y') + s(y) for different places, where x' is the nearest point of a
    road to x by the straight line, s(x) is how far that is, and the path is the shortest one. It is
    a metric: every place is at the end of a road of its own, of length s(x), that begins at x'.

    Raises
    ------
    InputError
        If a place is further than ``within_km`` from all roads, or two places are on the same
        point of a road.
    """
    on = network.snap(places, within_km)
    away = cast(Array, on.snapped_km)
    found = network.distances(on, on) + (away[:, None] + away)
    np.fill_diagonal(found, 0.0)
    return np.minimum(found, found.T), away


def road_metric(
    network: RoadNetwork, places: Places, within_km: float = np.inf, **facts: Any
) -> MapMetric:
    """Return the metric of distances along the roads between places; see `road_distances`."""
    distances, away = road_distances(network, places, within_km)
    told = {
        "nodes": len(network.nodes),
        "roads_km": round(float(network.lengths.sum()), 3),
        "furthest_from_a_road_km": float(away.max()),
        **facts,
    }
    return MapMetric("roads", places, distances, facts=told, attribution=ATTRIBUTION)


def cells_with_roads(network: RoadNetwork, cells: Places) -> Places:
    """Return the cells that a road passes, or comes as near to as half of their diagonal.

    Raises
    ------
    InputError
        If there are fewer than two.
    """
    plane: LocalPlane | None = network.nodes.plane
    if plane is None or cells.cell_km is None:
        raise InputError("cells must be those of a grid in degrees, as square_grid makes them")
    on = network.snap(cells, np.inf)
    near = np.flatnonzero(cast(Array, on.snapped_km) <= cells.largest_snap_km)
    if len(near) < 2:
        raise InputError("an area must hold two cells with roads or more: take another area")
    return cells.subset(near.tolist())
