"""The embedded default: a made-up person in the middle of Paris."""

from __future__ import annotations

import numpy as np

from whereish.places import euclidean, square_grid
from whereish.places.points import Places
from whereish.profiles.profile import Backdrop, Profile

# Where she is, for what share of the time, and how far around (km). Nobody's real life.
_LIFE = (
    (48.8790, 2.3430, 0.32, 0.30),  # home, below Montmartre
    (48.8710, 2.3310, 0.22, 0.30),  # work, near the Opera
    (48.8545, 2.3680, 0.12, 0.45),  # evenings, around Bastille
    (48.8475, 2.3440, 0.10, 0.45),  # a lecture and the library, Latin Quarter
    (48.8738, 2.2965, 0.06, 0.35),  # errands, Etoile
    (48.8584, 2.2970, 0.05, 0.40),  # a friend, near the Eiffel Tower
    (48.8640, 2.3400, 0.13, 1.80),  # and all over town
)

_SEINE = (
    (48.8350, 2.3850), (48.8400, 2.3730), (48.8447, 2.3652), (48.8500, 2.3600), (48.8523, 2.3535),
    (48.8546, 2.3490), (48.8575, 2.3420), (48.8585, 2.3370), (48.8600, 2.3305), (48.8618, 2.3240),
    (48.8636, 2.3185), (48.8641, 2.3110), (48.8645, 2.3020), (48.8620, 2.2960), (48.8592, 2.2915),
    (48.8556, 2.2875), (48.8510, 2.2820),
)  # fmt: skip

_NAMES = (
    ("Montmartre", 48.8867, 2.3415),
    ("Opéra", 48.8719, 2.3316),
    ("Louvre", 48.8611, 2.3364),
    ("Notre-Dame", 48.8530, 2.3499),
    ("Bastille", 48.8532, 2.3692),
    ("Étoile", 48.8738, 2.2965),
    ("Tour Eiffel", 48.8580, 2.2975),
    ("Luxembourg", 48.8462, 2.3372),
    ("République", 48.8674, 2.3637),
)


def embedded_city() -> Profile:
    """Return 48 cells of central Paris and the prior of a made-up person who lives there.

    The prior is skewed, as people's are: two cells hold half of it.

    >>> embedded_city()
    Profile(places=Places(48 within 6.09 x 4.45 km, around 48.867, 2.337))
    """
    places = square_grid(south=48.843, west=2.29, north=48.891, east=2.3845, cell_km=(0.87, 0.89))
    anchors = Places.from_latlon([spot[:2] for spot in _LIFE])
    share = np.array([spot[2] for spot in _LIFE])
    around = np.array([spot[3] for spot in _LIFE])
    nearness = np.exp(-((euclidean(places, anchors) / around) ** 2) / 2)
    prior = (nearness / nearness.sum(axis=0)) @ share
    return Profile(places, prior / prior.sum(), backdrop=Backdrop((_SEINE,), _NAMES))
