"""Places: points in a local plane in km, with latitude and longitude where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.places.validation import Array, Immutable, as_numbers, readonly
from whereish.showing import Shown

SAME_PLACE_KM = 1e-6  # a millimetre: places this close count as one
# How far from the centre of their plane places may be for an epsilon per km: up to there a distance
# in the plane is at most 1.0494 times the one on the ground. The JavaScript client has the same.
FURTHEST_KM = 3400.0
_POLAR_RADIUS_KM = 6356.752314245  # WGS84: 1 / radius^2 is the largest curvature of the ellipsoid
_FEW = 400  # places whose distances are computed pair by pair


@dataclass(frozen=True)
class LocalPlane:
    """An azimuthal equidistant plane, in km, touching the WGS84 ellipsoid at a centre.

    Distances from the centre are exact; between two points of a city they are within one part in
    a million of the geodesic. Far from the centre they are longer than on the ground: see
    `Places.plane_stretch`. The centre is public, so it must not depend on the true location.
    """

    lat: float
    lon: float

    def __post_init__(self) -> None:
        as_latlon([[self.lat, self.lon]])

    @cached_property
    def _projection(self) -> Any:
        from pyproj import Proj

        return Proj(proj="aeqd", lat_0=self.lat, lon_0=self.lon, ellps="WGS84", units="km")

    def to_xy(self, latlon: ArrayLike) -> Array:
        """Project (n, 2) degrees of latitude and longitude to (n, 2) km east and north."""
        degrees = as_latlon(latlon)
        x, y = self._projection(degrees[:, 1], degrees[:, 0], errcheck=True)
        return np.column_stack([x, y])

    def to_latlon(self, xy_km: ArrayLike) -> Array:
        """Project (n, 2) km in the plane back to (n, 2) degrees of latitude and longitude."""
        xy = as_numbers("xy_km", xy_km, (None, 2))
        lon, lat = self._projection(xy[:, 0], xy[:, 1], inverse=True, errcheck=True)
        return np.column_stack([lat, lon])


@dataclass(frozen=True, eq=False)
class Places(Immutable, Shown):
    """A finite set of different places.

    Parameters
    ----------
    xy
        (n, 2) kilometres in a plane.
    latlon, plane
        Degrees and the plane they were projected to, where the places lie on the earth.
    cell_km
        Width and height of the cells whose centres these places are, for pictures.
    labels
        A name for each place, such as the index of a table; they must differ. Files do not keep
        them.
    """

    xy: Array
    latlon: Array | None = None
    plane: LocalPlane | None = None
    cell_km: tuple[float, float] | None = None
    labels: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        xy = as_numbers("places", self.xy, (None, 2))
        if len(xy) == 0:
            raise InputError("places must hold at least one place, got none")
        object.__setattr__(self, "xy", readonly(xy))
        if self.cell_km is not None:
            cell = as_numbers("cell_km", self.cell_km, (2,))
            object.__setattr__(self, "cell_km", (float(cell[0]), float(cell[1])))
        if self.latlon is not None:
            latlon = as_numbers("latlon", as_latlon(self.latlon), (len(xy), 2))
            object.__setattr__(self, "latlon", readonly(latlon))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels))
            if len(set(self.labels)) != len(xy):
                raise InputError(f"labels must be {len(xy)} different names, one for each place")
        self._check_different()

    @classmethod
    def from_xy(cls, xy_km: ArrayLike) -> Places:
        """Make places from coordinates in a plane, in km.

        >>> len(Places.from_xy([[0, 0], [1, 0], [0, 2]]))
        3
        >>> Places.from_xy([[0, 0], [0, 0]])
        Traceback (most recent call last):
        whereish.errors.InputError: places must differ by a millimetre, but 0 and 1 are both at \
the same point
        """
        return cls(as_numbers("xy_km", xy_km, (None, 2)))

    @classmethod
    def from_latlon(cls, latlon: ArrayLike) -> Places:
        """Make places from latitude and longitude, in the local plane at their centre.

        The date line and the poles need no special treatment.

        >>> Places.from_latlon([[0, 179.99], [0, -179.99]]).xy.round(2).tolist()
        [[-1.11, 0.0], [1.11, 0.0]]
        """
        degrees = as_latlon(latlon)
        if len(degrees) == 0:
            raise InputError("places must hold at least one place, got none")
        plane = LocalPlane(*_middle(degrees))
        return cls(plane.to_xy(degrees), degrees, plane)

    @classmethod
    def from_geodataframe(cls, frame: Any) -> Places:
        """Make a place of each row of a GeoDataFrame; its index becomes the labels.

        The place of a polygon or line is its centroid. The frame must have a coordinate reference
        system.
        """
        from whereish.places.frames import places_of_geometries

        return places_of_geometries(frame)

    @classmethod
    def from_networkx(cls, graph: Any, lat: str = "y", lon: str = "x") -> Places:
        """Make a place of each node of a networkx graph; its name becomes the label.

        Parameters
        ----------
        lat, lon
            The attributes of a node in degrees. The defaults are those of OSMnx.
        """
        from whereish.places.frames import places_of_nodes

        return places_of_nodes(graph, lat, lon)

    def to_geodataframe(self, **columns: ArrayLike) -> Any:
        """Return the places and columns of numbers as a GeoDataFrame. It needs geopandas."""
        from whereish.places.frames import geodataframe_of

        return geodataframe_of(self, columns)

    def align(self, values: Any) -> Array:
        """Return one number for each place from a pandas Series or a dict, matched by label.

        InputError is raised unless the labels are exactly those of the places.

        >>> places = Places([[0, 0], [1, 0]], labels=("home", "work"))
        >>> places.align({"work": 0.25, "home": 0.75}).tolist()
        [0.75, 0.25]
        """
        from whereish.places.frames import aligned

        return aligned(self, values)

    def __len__(self) -> int:
        return len(self.xy)

    def _facts(self) -> list[tuple[str, str]]:
        width, height = np.ptp(self.xy, axis=0)
        rows = [("places", f"{len(self):,}"), ("area", f"{width:.3g} x {height:.3g} km")]
        on_earth = "degrees of latitude and longitude" if self.plane else "km in a plane"
        return [*rows, ("coordinates", f"{on_earth}, not shown here")]

    def __repr__(self) -> str:
        width, height = np.ptp(self.xy, axis=0)
        where = f", around {self.plane.lat:.3f}, {self.plane.lon:.3f}" if self.plane else ""
        return f"Places({len(self)} within {width:.3g} x {height:.3g} km{where})"

    def same_as(self, other: Places) -> bool:
        """Whether two sets are the same places in the same order."""
        if self is other:
            return True
        if len(self) != len(other) or (self.latlon is None) != (other.latlon is None):
            return False
        if self.latlon is None or other.latlon is None:
            return np.array_equal(self.xy, other.xy)
        return np.allclose(self.latlon, other.latlon, rtol=0, atol=1e-12)

    def in_plane_of(self, other: Places) -> Places:
        """Return these places in the plane of others, so that distances between them are defined.

        InputError is raised if only one of the two sets has latitude and longitude.
        """
        if self.plane == other.plane:
            return self
        if self.latlon is None or other.plane is None:
            raise InputError(
                "places must be comparable: both with latitude and longitude, or both in km"
            )
        xy = other.plane.to_xy(self.latlon)
        return Places(xy, self.latlon, other.plane, self.cell_km, self.labels)

    def subset(self, indices: Sequence[int] | Array) -> Places:
        """Return the places at these indices, in this order."""
        try:
            chosen = np.asarray(indices)
        except ValueError:
            chosen = np.empty(0)
        if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
            raise InputError("indices must be a list of place numbers")
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise InputError(f"indices must be from 0 to {len(self) - 1}, and one is not")
        latlon = None if self.latlon is None else self.latlon[chosen]
        labels = None if self.labels is None else tuple(self.labels[k] for k in chosen)
        return Places(self.xy[chosen], latlon, self.plane, self.cell_km, labels)

    @cached_property
    def projection_error(self) -> float:
        """Largest relative error of a distance in the plane against the geodesic; 0 if unknown."""
        if self.latlon is None or len(self) < 2:
            return 0.0
        from whereish.places.metrics import euclidean, geodesic

        upper = np.triu_indices(len(self), 1)
        ground = geodesic(self)[upper]
        return float(np.abs(euclidean(self)[upper] / ground - 1).max())

    @cached_property
    def plane_stretch(self) -> float:
        """A bound on how many times longer a distance is in the plane than on the ground.

        For points at most r km from the centre it is (r / b) / sin(r / b), b the polar radius:
        never below 1, and 1 for places that do not lie on the earth. An epsilon per km of the
        plane is at most stretch times epsilon per km of the ground. The proof is in
        docs/proofs/audit.md. `projection_error` measures all pairs instead.

        >>> from whereish.places import square_grid
        >>> round(square_grid(48, 2, 49, 3, cell_km=(10, 10)).plane_stretch, 6)
        1.000018
        """
        if self.plane is None:
            return 1.0
        return stretch_within(float(np.hypot(*self.xy.T).max()))

    def check_km(self) -> None:
        """Raise InputError unless a km of the plane is a km of the ground, up to 5 %.

        An epsilon per km needs that. With places that are too far from the centre of their plane
        it would be much larger per km of the ground.
        """
        if self.plane is not None and not (np.square(self.xy).sum(axis=1) <= FURTHEST_KM**2).all():
            raise InputError(
                f"an epsilon per km needs places within {FURTHEST_KM:g} km of the centre of their "
                "plane, and one is further away: give privacy_metric=whereish.geodesic(places)"
            )

    @cached_property
    def tree(self) -> Any:
        """A k-d tree of the places in the plane."""
        from scipy.spatial import cKDTree

        return cKDTree(self.xy)

    @cached_property
    def largest_snap_km(self) -> float:
        """The largest distance from a point inside the area to the place that it snaps to.

        Half the diagonal of a cell; without cells, the largest distance between a place and its
        nearest neighbour.
        """
        if self.cell_km is not None:
            return float(np.hypot(*self.cell_km) / 2)
        if len(self) < 2:
            return 0.0
        return float(self._nearest()[0].max())

    @property
    def reach_km(self) -> float:
        """The former name of `largest_snap_km`."""
        return self.largest_snap_km

    def _nearest(self) -> tuple[Array, NDArray[np.int64]]:
        """Return how far the nearest other place of each place is, and which it is."""
        every = np.arange(len(self))
        if len(self) <= _FEW:  # without SciPy, whose import takes longer
            away = np.hypot(*(self.xy[:, None] - self.xy).T)
            np.fill_diagonal(away, np.inf)
            other = away.argmin(axis=0)
            return away[other, every], other
        both, others = self.tree.query(self.xy, k=2)
        return both[:, 1], np.where(others[:, 1] == every, others[:, 0], others[:, 1])

    def _check_different(self) -> None:
        if len(self.xy) < 2:
            return
        away, other = self._nearest()
        close = np.flatnonzero(away <= SAME_PLACE_KM)
        if len(close):
            a, b = sorted((int(close[0]), int(other[close[0]])))
            raise InputError(
                f"places must differ by a millimetre, but {a} and {b} are both at the same point"
            )


def stretch_within(km: float) -> float:
    """Return `Places.plane_stretch` for points at most so many km from the centre of a plane."""
    angle = km / _POLAR_RADIUS_KM
    if angle >= np.pi / 2:
        return np.inf
    return float(angle / np.sin(angle)) if angle > 0 else 1.0


def as_latlon(value: ArrayLike) -> Array:
    """Check (n, 2) degrees of latitude and longitude."""
    degrees = as_numbers("latlon", value, (None, 2))
    for column, name, limit in ((0, "latitude", 90), (1, "longitude", 180)):
        wrong = np.abs(degrees[:, column]) > limit
        if wrong.any():
            row = int(np.argmax(wrong))
            # Not the number: if latitude and longitude are swapped, it is a true coordinate.
            raise InputError(
                f"{name} must be from -{limit} to {limit} degrees, and that of place {row} is not"
            )
    return degrees


def _middle(degrees: Array) -> tuple[float, float]:
    lat, lon = np.radians(degrees).T
    spokes = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    x, y, z = spokes.mean(axis=0)
    if np.sqrt(x * x + y * y + z * z) < 0.5:
        raise InputError("places must lie in one region of the earth, got places all around it")
    return float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))
