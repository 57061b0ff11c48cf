"""A guarantee for every point of the streets: a small grid, drawn with what may be reported."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import whereish as wh

# Five streets by four, 250 m apart; x and y in km. Two streets are missing, one is a winding road.
xy = [[0.25 * i, 0.25 * j] for j in range(4) for i in range(5)]
edges = [[5 * j + i, 5 * j + i + 1] for j in range(4) for i in range(4)]
edges += [[5 * j + i, 5 * j + i + 5] for j in range(3) for i in range(5)]
edges.remove([6, 7])
edges.remove([12, 17])
lengths = [0.6 if edge == [3, 4] else 0.25 for edge in edges]
network = wh.RoadNetwork(xy, edges, lengths)

# At home, at work and in a café, as GPS sees it: beside the streets.
visits = np.array([[0.11, 0.01], [0.98, 0.62], [0.51, 0.49]])
weights = [0.6, 0.3, 0.1]

m = wh.optimal_on_roads(network, visits, weights, epsilon=4.0, vertices=200)
print(m)
print(f"{1000 * wh.expected_loss(m, visits, weights):.0f} m along the streets on average")
print(f"no mechanism loses less than {1000 * (m.build.lower_bound_km or 0):.0f} m")
print(f"{m.verdict.comparisons:,} ratios audited; the tightest epsilon is {m.verdict.tightest:.4f}")

figure, axes = plt.subplots(figsize=(6, 4.5))
for a, b in network.edges:
    axes.plot(*network.nodes.xy[[a, b]].T, color="lightgrey", linewidth=4, zorder=1)
x, y = m.vertices.vertices.xy.T
axes.scatter(x, y, s=4, color="grey", label="vertices", zorder=2)
x, y = m.outputs.xy.T
often = 20 + 600 * m.probabilities(visits[0])
axes.scatter(x, y, s=often, alpha=0.6, label="reports from home", zorder=3)
axes.scatter(*visits.T, marker="x", color="black", label="visited points", zorder=4)
axes.set(xlabel="km", ylabel="km", aspect="equal")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.15), ncols=3, frameon=False)
figure.savefig("streets.png", dpi=120)
