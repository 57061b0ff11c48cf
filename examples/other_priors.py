"""What an adversary who knows the time of day learns (the question of Section 4.2)."""

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
for name, mechanism in (("optimal", best), ("Shokri et al.", rival), ("planar Laplace", laplace)):
    print(f"  {name:15} {1000 * wh.adversary_error(mechanism, at_night):5.0f} m")
