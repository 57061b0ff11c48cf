"""Privacy along roads: a metric that a graph induces needs its edges only, and is exact."""

import matplotlib.pyplot as plt

import whereish as wh

# A main road with two side streets; x and y in km.
crossings = wh.Places.from_xy(
    [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [1.0, 1.0], [2.0, -1.5]]
)
roads = [[0, 1], [1, 2], [2, 3], [1, 4], [2, 5]]
by_road = wh.graph_metric(6, roads, lengths=[1.0, 1.0, 1.0, 1.2, 1.8])
prior = [0.35, 0.05, 0.10, 0.05, 0.40, 0.05]

best = wh.optimal(crossings, prior, epsilon=1.0, privacy_metric=by_road, quality_metric=by_road)
print(best)
print(f"{best.build.edges} of 15 pairs of crossings were constrained: the roads")
print(f"{1000 * wh.quality_loss(best, prior, by_road):.0f} m of driving off on average")

figure, axis = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for a, b in roads:
    axis.plot(*crossings.xy[[a, b]].T, color="#9fb4c0", linewidth=4, zorder=1)
x, y = crossings.xy.T
sizes = [1500 * share for share in prior]
axis.scatter(x, y, s=sizes, color="#e08e0b", alpha=0.45, label="prior", zorder=2)
reports = "reports from the western end"
axis.scatter(x, y, s=1500 * best.matrix[0], facecolor="none", edgecolor="#c8102e", linewidth=2,
             label=reports, zorder=3)  # fmt: skip
axis.set(xlabel="km", ylabel="km", aspect="equal", xlim=(-0.4, 3.4), ylim=(-2.0, 1.6))
axis.legend(frameon=False, markerscale=0.4, loc="lower left")
figure.savefig("road-network.png", dpi=130)
