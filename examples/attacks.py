"""Why sticky reports alone are not enough: attacks on the reports of synthetic people.

    python examples/attacks.py [PEOPLE [DAYS]]

People of a synthetic city report every ten minutes. The adversary knows how the other people move.
Within a day, a place gets the same sticky report; but every day has a new one, and they add up.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

import whereish as wh
from whereish.plotting import draw_exposure

people, days = (int(text) for text in (sys.argv[1:] + ["3", "4"][len(sys.argv) - 1 :])[:2])
radius_km = 0.3
city = wh.SyntheticCity(users=people, days=days, seed=1)
paths = pl.concat([city.whole_path(number) for number in range(people)])
everybody = paths.with_columns(user=pl.lit("everybody"))
profile = wh.personal_profile(everybody, 50, zone=city.zone, cell_km=(0.5, 0.5)).profile
mechanism = wh.optimal(profile.places, profile.prior, epsilon=1.07, dilation=1.1)

walks = wh.attacks.walks_of(paths)
rng = np.random.default_rng(0)  # for a study only: these reports protect nobody
found = {}
for policy in wh.attacks.policy_names():
    found[policy] = wh.attacks.expose(mechanism, walks, policy, zone=city.zone, rng=rng)
    homes = [one.found["home"] for one in found[policy]]
    best = {name: [one.scores[name] for one in found[policy]] for name in found[policy][0].scores}
    errors = {name: np.mean([score.mean_error_km for score in best[name]]) for name in best}
    rates = {name: np.mean([score.success_rate for score in best[name]]) for name in best}
    name = min(errors, key=lambda attack: errors[attack])
    print(
        f"{policy}: epsilon {np.median([one.epsilon for one in found[policy]]):,.0f} per km; "
        f"homes within 300 m: {sum(home.days is not None for home in homes)} of {people}, "
        f"off by {np.median([home.errors_km[-1] for home in homes]):.2f} km; "
        f"on the way {errors[name]:.2f} km, {rates[name]:.0%} within 300 m ({name}); "
        f"reports {np.mean([one.report_error_km for one in found[policy]]):.2f} km; "
        f"recognised {sum(one.rank == 1 for one in found[policy])}"
    )
draw_exposure(found, "attacks.png", radius_km)
