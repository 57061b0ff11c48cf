"""The table of docs/guides/which-epsilon.md: what a level hides, in metres, guesses and days.

    python benchmarks/which_epsilon.py

For the embedded city. A day is one new report of the place where the person is; after some days the
adversary, who knows the prior and the mechanism, multiplies what the reports say.
"""

from __future__ import annotations

import numpy as np

import whereish as wh

LEVELS = (0.35, 0.69, 1.07, 1.39, 2.0, 2.77, 4.0)
WALKS, MOST_DAYS, SEED = 4000, 400, 1


def guesses(mechanism: wh.Mechanism, prior: np.ndarray, half: float = 0.5) -> int:
    """Return how many guesses find the place with this probability, after one report."""
    joint = -np.sort(-prior[:, None] * mechanism.matrix, axis=0)
    return 1 + int(np.argmax(np.cumsum(joint.sum(axis=1)) >= half))


def days(mechanism: wh.Mechanism, prior: np.ndarray, sure: float = 0.9) -> int | None:
    """Return after how many new reports of one place the best guess is right this often."""
    rng = np.random.default_rng(SEED)
    true = rng.choice(len(prior), WALKS, p=prior)
    sums = np.cumsum(mechanism.matrix, axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(mechanism.matrix)
        belief = np.tile(np.log(prior), (WALKS, 1))
    for day in range(1, MOST_DAYS + 1):
        reports = (sums[true] < rng.random((WALKS, 1))).sum(axis=1).clip(max=len(sums[0]) - 1)
        belief += logs[:, reports].T
        if (belief.argmax(axis=1) == true).mean() >= sure:
            return day
    return None


if __name__ == "__main__":
    city = wh.embedded_city()
    prior = np.asarray(city.prior)
    print("| epsilon | 2 times within | report off | guess right | half by | 90 % after |")
    table = wh.trade_off(city, epsilons=LEVELS)
    for row, mechanism in zip(table, table.mechanisms, strict=True):
        after = days(mechanism, prior)
        print(
            f"| {row.epsilon:g} | {1000 * np.log(2) / row.epsilon:,.0f} m | "
            f"{1000 * row.loss_km:,.0f} m | {row.guess_success:.0%} | {guesses(mechanism, prior)} "
            f"guesses | {'more than ' + str(MOST_DAYS) if after is None else after} days |",
            flush=True,
        )
    blind = np.cumsum(-np.sort(-prior))
    print(f"without a report: {1000 * table.blind_error_km:,.0f} m, {table.blind_success:.0%}, "
          f"{1 + int(np.argmax(blind >= 0.5))} guesses")  # fmt: skip
