"""The limits and defaults of a build: one table, with units and reasons.

The description of a build (`whereish.spec`), the command line, the service and the mechanisms read
their numbers here, so that they cannot differ. What a client of the service may do is in
``service/limits.py``.
"""

from __future__ import annotations

# ---- Numbers -----------------------------------------------------------------------------------
# Beyond these, double precision runs out before the mathematics does.
LARGEST = 1e12  # of any coordinate, distance or loss, in km
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-9, 1e9  # per km
# A prior may be off 1 by what rounding to six digits leaves.
PRIOR_TOLERANCE = 1e-6

# ---- Places ------------------------------------------------------------------------------------
LEAST_PLACES = 2  # one place hides nothing
MOST_PLACES = 10_000  # a mechanism file of more takes gigabytes to read

# ---- Dilation of the spanner -------------------------------------------------------------------
DILATION = 1.0  # exact: all pairs
SMALLEST_DILATION, LARGEST_DILATION = 1.0, 1e6  # above, a spanner is a tree at any rate

# ---- Lattice of a mechanism for all points -----------------------------------------------------
VERTICES = 600  # some seconds, and a few per cent from the loss of the finest lattice
LEAST_VERTICES, MOST_VERTICES = 4, 10_000  # more take hours

# ---- Accuracy: relative gap between the loss and the lower bound -------------------------------
TOLERANCE = 1e-6
SMALLEST_TOLERANCE, LARGEST_TOLERANCE = 1e-12, 1.0  # below, rounding decides
BOUND_TOLERANCE = 1e-4  # of a lower bound: the lower end of a bracket need not be as exact
COARSE_TOLERANCE = 3e-3  # of a coarser program: clustering costs more than that

# ---- Time, in seconds --------------------------------------------------------------------------
SHORTEST_S, LONGEST_S = 1e-6, 30 * 86_400.0  # what a time limit may be
PATIENCE_S = 120.0  # what method "auto" may take where no limit is given
BOUND_S = 60.0  # what a lower bound may take where no limit is given
LARGE_PLACES = 500  # from here on, a closed form gets a lower bound from prices
BOUND_PLACES = 2_500  # for more of them, the time grows with this power of their number:
BOUND_POWER = 5 / 3

# ---- Memory, in gigabytes ----------------------------------------------------------------------
MEMORY_GB = 8.0  # of a search, on each machine

# ---- JSON --------------------------------------------------------------------------------------
# More lists than any description has: to read them would hold up all other requests.
MOST_LISTS = 200_000
MOST_EMPTY = 20
