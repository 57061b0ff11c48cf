"""What an adversary who knows the time of day learns (the question of Section 4.2)."""

import matplotlib.pyplot as plt

import whereish as wh

city = wh.embedded_city()
best = wh.optimal(city.places, city.prior, epsilon=1.07, dilation=1.05)
loss = wh.quality_loss(best, city.prior)
rival = wh.optimal_privacy(city.places, city.prior, quality_loss=loss)
laplace = wh.planar_laplace_for_loss(city.places, city.prior, quality_loss=loss)

home = city.prior.argmax()
at_night = city.prior * 0.3
at_night[home] += 0.7

print(f"all three lose {1000 * loss:.0f} m of quality; how far off is the best guess of a")
print("neighbour who knows that it is night?")
rivals = {"optimal": best, "Shokri et al.": rival, "planar Laplace": laplace}
errors = {
    name: 1000 * wh.adversary_error(mechanism, at_night) for name, mechanism in rivals.items()
}
for name, error in errors.items():
    print(f"  {name:15} {error:5.0f} m")

figure, axis = plt.subplots(figsize=(6.4, 2.6), layout="constrained")
axis.barh(list(errors), list(errors.values()), color=["#c8102e", "#8fa3b0", "#8fa3b0"])
axis.invert_yaxis()
axis.set_xlabel("expected error of the best guess at night, metres")
axis.spines[["top", "right"]].set_visible(False)
figure.savefig("other-priors.png", dpi=130)
