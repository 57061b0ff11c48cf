"""Cloaking: the report is the region that the place lies in.

References
----------
.. [1] Gruteser, Grunwald: Anonymous usage of location-based services through spatial and temporal
   cloaking. MobiSys 2003.
.. [2] Duckham, Kulik: A formal model of obfuscation and negotiation for location privacy.
   Pervasive 2005.
"""

from __future__ import annotations

import numpy as np

from whereish.measures import quality_loss
from whereish.mechanisms import Build, Mechanism
from whereish.places import Array, Places, as_number

_STEPS = 60  # sizes that are tried, from one place in a region to all places in one


def cloaking(places: Places, region_km: float) -> Mechanism:
    """Report the square region that a place lies in, by its centre.

    Regions are squares of a grid that begins at the south-western corner of the places. The
    mechanism has no epsilon: a region is never reported by a place outside it.

    >>> m = cloaking(Places.from_xy([[0, 0], [1, 0], [4, 0]]), region_km=2.0)
    >>> m.matrix.tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    side = as_number("region_km", region_km, unit="km")
    corner = places.xy.min(axis=0)
    cells = np.floor((places.xy - corner) / side)
    regions, region = np.unique(cells, axis=0, return_inverse=True)
    centres = corner + (regions + 0.5) * side
    plane = places.plane
    outputs = Places(centres, None if plane is None else plane.to_latlon(centres), plane)
    matrix = np.zeros((len(places), len(regions)))
    matrix[np.arange(len(places)), region.ravel()] = 1.0
    notes = ("a place outside a region never reports it: this mechanism has no epsilon",)
    return Mechanism(matrix, places, outputs, build=Build("cloaking", notes=notes))


def cloaking_for_loss(places: Places, prior: Array, loss_km: float) -> Mechanism:
    """Report regions whose size gives the loss nearest to the one asked for, of sixty sizes."""
    spread = float(np.ptp(places.xy, axis=0).max())
    sizes = spread * 1.01 * np.arange(1, _STEPS + 1) / _STEPS
    tried = [cloaking(places, size) for size in sizes.tolist()]
    return min(tried, key=lambda made: abs(quality_loss(made, prior) - loss_km))
