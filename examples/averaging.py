"""What averaging does to repeated reports, and what a Reporter does to averaging."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

import whereish as wh

city = wh.embedded_city()
mechanism = wh.planar_laplace(city.places, epsilon=1.07)
rng = np.random.default_rng(1)  # a study: reports of a real person are never seeded
home = int(city.prior.argmax())
asked = np.unique(np.geomspace(1, 1000, 16).astype(int))


def guess(reports: np.ndarray) -> int:
    """The likeliest place for somebody who has seen these reports and knows the mechanism."""
    return int(np.log(mechanism.matrix)[:, reports].sum(axis=1).argmax())


def error(count: int, sticky: bool) -> float:
    away = []
    for _ in range(200):
        reports = mechanism.sample(home, size=1 if sticky else count, rng=rng).outputs
        mean = mechanism.outputs.xy[reports].mean(axis=0)
        away.append(np.hypot(*(mean - expected[home])))
    return float(np.mean(away))


expected = mechanism.matrix @ mechanism.outputs.xy  # the mean report of every place
alone = [error(k, sticky=False) for k in asked]
sticky = [error(k, sticky=True) for k in asked]

figure, axis = plt.subplots(figsize=(6.4, 3.6))
axis.loglog(asked, alone, "o-", label="independent reports")
axis.loglog(asked, alone[0] / np.sqrt(asked), ":", color="grey", label="1 / sqrt(k)")
axis.loglog(asked, sticky, "s-", label="with a Reporter: sticky within a period")
axis.set(xlabel="reports k that somebody averages", ylabel="their mean is off by, km")
axis.legend(frameon=False)
figure.tight_layout()
figure.savefig(Path("averaging.png"), dpi=130)
print(f"1 report: {alone[0]:.2f} km off; {asked[-1]} reports: {alone[-1]:.3f} km off")
print(f"with a Reporter, however often it is asked: {sticky[-1]:.2f} km off")
reports = mechanism.sample(home, size=1000, rng=rng).outputs
print("after 1000 reports the likeliest place is home:", guess(reports) == home)
