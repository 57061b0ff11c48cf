"""The constants of a person's profile. The page has the same: `tools/page_constants.py`."""

PLACES = 50
RADIUS_KM = 25.0
# The smallest of these cells with which the places cover the time well; the largest, if none.
CELL_SIZES_M = (100, 200, 400, 800, 1600)
COVERAGE = 0.9
# A prior of fewer points says little about a person.
FEW_POINTS = 30
# The middle of the area is sought among so many tiles of a hundredth of a degree.
HEAVIEST_TILES = 2000
EARTH_RADIUS_KM = 6371.0  # of the sphere that tells near from far
