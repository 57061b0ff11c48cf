"""Six things that researchers do in a notebook. Editors that know `# %%` show the cells.

Run: python examples/notebook.py [FOLDER]    (the figures are written into the folder)
It needs: pip install 'whereish[notebook]'
"""

# %% 1. Places of your own, from a GeoDataFrame
import sys
from pathlib import Path

import geopandas
import matplotlib.pyplot as plt
import networkx
import numpy as np
import pandas
from shapely import box

import whereish as wh

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
names = [f"{letter}{number}" for letter in "ABCD" for number in range(1, 6)]
cells = [
    box(448_000 + 900 * x, 5_410_000 + 900 * y, 448_900 + 900 * x, 5_410_900 + 900 * y)
    for y in range(4)
    for x in range(5)
]
rng = np.random.default_rng(7)
frame = geopandas.GeoDataFrame(
    {"visits": rng.gamma(0.4, size=20)}, index=names, geometry=cells, crs=32631
)
profile = wh.Profile.from_geodataframe(frame, "visits")
best = wh.optimal(profile.places, profile.prior, epsilon=1.07)
print(best)
print(best.to_frame().round(3).loc["B2", ["B1", "B2", "B3"]].to_dict())

# %% 2. A mechanism of your own, checked
distances = wh.euclidean(profile.places)
mine = np.exp(-1.07 / 2 * distances)
mine /= mine.sum(axis=1, keepdims=True)
checked = wh.Mechanism(mine, profile.places, profile.places, epsilon=1.07)
print(f"mine: {wh.quality_loss(checked, profile.prior):.3f} km, "
      f"really {wh.tightest_epsilon(checked):.3f} per km")  # fmt: skip
try:
    wh.Mechanism(mine, profile.places, profile.places, epsilon=0.5)
except wh.GuaranteeError as wrong:
    print("at 0.5 per km:", str(wrong).partition(":")[0])

# %% 3. The trade-off between privacy and quality
curve = wh.trade_off(profile.places, profile.prior, np.geomspace(0.3, 5, 8))
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
profile.plot(ax=left)
best.plot(place=names.index("B2"), prior=profile.prior, ax=right)
figure.savefig(folder / "notebook-maps.png", dpi=110)
plt.close(figure)
wh.plot_trade_off(curve, folder / "notebook-trade-off.png")
found = wh.epsilon_for(profile.places, profile.prior, loss=0.5)
print(found)

# %% 4. Two priors: what a wrong one costs
weekend = pandas.Series(rng.gamma(0.4, size=20), index=rng.permutation(names))
other = profile.places.align(weekend / weekend.sum())  # by label, not by position
for_weekdays, for_weekend = wh.optimal_each(profile.places, [profile.prior, other], epsilon=1.07)
print(f"weekend: {wh.quality_loss(for_weekend, other):.3f} km with its own mechanism, "
      f"{wh.quality_loss(for_weekdays, other):.3f} km with that of the weekdays")  # fmt: skip

# %% 5. Distances along roads
graph = networkx.grid_2d_graph(5, 4)
graph = networkx.relabel_nodes(graph, {(x, y): names[5 * y + x] for x, y in graph})
networkx.set_edge_attributes(graph, 900.0, "length")  # metres
graph.remove_edge("B2", "B3")  # a river
roads = wh.network_metric(graph, profile.places)
by_road = wh.optimal(profile.places, profile.prior, epsilon=1.07, privacy_metric=roads)
print(by_road)

# %% 6. A map from the reports of many people
people = rng.choice(20, size=5000, p=profile.prior)
collected = wh.tight_constraints(profile.places, epsilon=1.07)
reports = collected.sample(people.tolist(), rng=rng)
estimated = wh.estimate(collected, reports)
truth = np.bincount(people, minlength=20) / len(people)
print(f"map error {abs(estimated.shares - truth).sum() / 2:.3f} of the visits "
      f"(likelihood within {estimated.gap:.1e} of the best)")  # fmt: skip
