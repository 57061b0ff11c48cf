"""The embedded default: a made-up person of the synthetic city, in the middle of Paris."""

from __future__ import annotations

from functools import cache

from whereish.profiles.cohorts import region_priors
from whereish.profiles.profile import Backdrop, Profile
from whereish.profiles.regions import SquareCells
from whereish.profiles.synthetic_city import SyntheticCity
from whereish.profiles.visited import clustered_points, count_points
from whereish.profiles.visits import ALL_DAY, PERIODS, CountOptions, count_visits

_SEINE = (
    (48.8350, 2.3850), (48.8400, 2.3730), (48.8447, 2.3652), (48.8500, 2.3600), (48.8523, 2.3535),
    (48.8546, 2.3490), (48.8575, 2.3420), (48.8585, 2.3370), (48.8600, 2.3305), (48.8618, 2.3240),
    (48.8636, 2.3185), (48.8641, 2.3110), (48.8645, 2.3020), (48.8620, 2.2960), (48.8592, 2.2915),
    (48.8556, 2.2875), (48.8510, 2.2820),
)  # fmt: skip

_NAMES = (
    ("Montmartre", 48.8867, 2.3415), ("Opéra", 48.8719, 2.3316), ("Louvre", 48.8611, 2.3364),
    ("Notre-Dame", 48.8530, 2.3499), ("Bastille", 48.8532, 2.3692), ("Étoile", 48.8738, 2.2965),
    ("Tour Eiffel", 48.8580, 2.2975), ("Luxembourg", 48.8462, 2.3372),
    ("République", 48.8674, 2.3637),
)  # fmt: skip


@cache
def embedded_city() -> Profile:
    """Return 48 cells of central Paris and the prior of a made-up person who lives there.

    The prior is counted from 90 days of the traces of one of the `SyntheticCity`'s people, and
    skewed, as people's are: the five likeliest cells hold more than half of it. The visited points
    are those of the same traces.

    >>> embedded_city()
    Profile(48 places)
    """
    cells = SquareCells.over(
        south=48.843, west=2.29, north=48.891, east=2.3845, cell_km=(0.87, 0.89)
    )
    town = SyntheticCity(users=1, seed=57, lat=cells.plane.lat, lon=cells.plane.lon)
    traces = town.person(0)
    visits = count_visits(traces, cells, town.zone)
    (priors,) = region_priors(visits, cells.all_ids, {ALL_DAY: PERIODS[ALL_DAY]}).values()
    how: CountOptions = {"zone": town.zone, "count": None, "progress": None, "cache": None}
    visited = clustered_points(*count_points(traces, cells.plane, visits, how), within=cells)
    return Profile(
        cells.places(cells.all_ids), priors[ALL_DAY], backdrop=Backdrop((_SEINE,), _NAMES),
        visited=visited,
    )  # fmt: skip
