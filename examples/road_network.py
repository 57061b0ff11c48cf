"""Privacy along roads: a metric that a graph induces needs its edges only, and is exact."""

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
