"""Build the optimal mechanism for a made-up week in a small town, and look at what it does."""

import matplotlib.pyplot as plt

import whereish as wh

places = wh.square_grid(south=52.00, west=4.34, north=52.03, east=4.39, cell_km=(0.9, 0.9))
prior = [1.0] * len(places)
prior[5], prior[10] = 40.0, 25.0  # home and work
total = sum(prior)
prior = [share / total for share in prior]

best = wh.optimal(places, prior, epsilon=1.07)
laplace = wh.planar_laplace(places, epsilon=1.07)

print(f"{len(places)} places; the plane is off by {places.projection_error:.1e} of a distance")
print(f"optimal:        {1000 * wh.quality_loss(best, prior):.0f} m off on average")
print(f"planar Laplace: {1000 * wh.quality_loss(laplace, prior):.0f} m off on average")
print(f"epsilon asked 1.07 per km, held {float(wh.tightest_epsilon(best)):.6f} per km")
print(f"to see all within 500 m, ask for {wh.radius_to_ask(best, 0.5, 0.95, prior):.2f} km")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
best.plot(place=5, prior=prior, ax=left)
laplace.plot(place=5, prior=prior, ax=right)
left.set_title("optimal: reports from home", loc="left")
right.set_title("planar Laplace: reports from home", loc="left")
figure.savefig("first-steps.png", dpi=110)
