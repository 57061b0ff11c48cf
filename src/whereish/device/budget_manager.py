"""Budget managers of the predictive mechanism: the cost of a test and of a draw, and a threshold.

The constants are those of the authors' code (PETS 2014). c_N and c_t are 0.9 quantiles: planar
Laplace noise of epsilon e is within c_N / e, Laplace noise of rate e below c_t / e, each with
probability 0.9. eta and rho divide the budget between tests and draws.

`BudgetManager.cheap_tests` has other constants, found on synthetic walks; the rate matters more
than they do (docs/architecture/measurements.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from whereish.errors import InputError
from whereish.places import as_epsilon, as_number

QUANTILE_DRAW, QUANTILE_TEST = 3.88972, 1.60944  # c_N, c_t
RHO = 0.8
ETA_UTILITY, ETA_RATE = 0.5, 0.6
_CHEAP_TEST, _CHEAP_THRESHOLD = 0.2, 1.25  # e_t / e_N and l e_t


@dataclass(frozen=True)
class BudgetManager:
    """The epsilon of a draw and of a test, and the threshold of the test.

    Attributes
    ----------
    epsilon_draw, epsilon_test
        e_N and e_t, per unit of the mechanism's metric.
    threshold
        l: a guess within about this distance is repeated.

    >>> manager = BudgetManager.fixed_utility(radius=2.0)
    >>> [round(value, 3) for value in vars(manager).values()]
    [1.945, 0.905, 2.222]
    """

    epsilon_draw: float
    epsilon_test: float
    threshold: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_draw", as_epsilon(self.epsilon_draw))
        object.__setattr__(self, "epsilon_test", as_epsilon(self.epsilon_test))
        object.__setattr__(self, "threshold", float(as_number("threshold", self.threshold)))

    @classmethod
    def for_draw(
        cls, epsilon_draw: float, eta: float = ETA_UTILITY, rho: float = RHO
    ) -> BudgetManager:
        """Return the manager of a mechanism with this epsilon.

        e_t = eta (c_t / c_N) (1 + 1 / rho) e_N and l = c_t / (rho e_t).
        """
        draw, part, share = as_epsilon(epsilon_draw), as_number("eta", eta), as_number("rho", rho)
        test = draw * _test_share(part, share)
        return cls(draw, test, QUANTILE_TEST / (share * test))

    @classmethod
    def cheap_tests(cls, epsilon_draw: float) -> BudgetManager:
        """Return a manager with cheaper tests than the authors': e_t = e_N / 5, l = 1.25 / e_t.

        More of the budget is left for draws, and a guess that is further away is repeated.
        """
        draw = as_epsilon(epsilon_draw)
        return cls(draw, _CHEAP_TEST * draw, _CHEAP_THRESHOLD / (_CHEAP_TEST * draw))

    @classmethod
    def fixed_utility(
        cls, radius: float, eta: float = ETA_UTILITY, rho: float = RHO
    ) -> BudgetManager:
        """Return the manager whose draws are within a radius in 9 of 10 cases: e_N = c_N / radius.

        The number of reports that a budget allows follows from how often the tests say "near".
        """
        return cls.for_draw(QUANTILE_DRAW / as_number("radius", radius), eta, rho)

    @classmethod
    def fixed_rate(
        cls, budget: float, reports: float, easy: float, eta: float = ETA_RATE, rho: float = RHO
    ) -> BudgetManager:
        """Return the manager that makes a budget last for so many reports.

        Parameters
        ----------
        budget, reports
            Epsilon, and the number of reports that it is for.
        easy
            PR: the expected share of steps whose test says "near", from 0 to 1.
        """
        share = float(easy)
        if not 0 <= share <= 1:
            raise InputError(f"easy must be a share from 0 to 1, got {share:g}")
        each = as_number("budget", budget) / as_number("reports", reports)
        return cls.for_draw(each / (1 - share + _test_share(eta, rho)), eta, rho)


def _test_share(eta: float, rho: float) -> float:
    """Return e_t / e_N."""
    return QUANTILE_TEST / QUANTILE_DRAW * eta * (1 + 1 / rho)


@dataclass(frozen=True)
class Prices:
    """What a step may cost, as the ledger counts it: doubles that mean their decimal digits.

    Attributes
    ----------
    draw, test, both
        e_N, e_t, and their sum, rounded up.
    """

    draw: float
    test: float
    both: float

    @classmethod
    def of(cls, draw: float, test: float) -> Prices:
        """Return the prices of a draw and of a test."""
        both = draw + test
        while Fraction(repr(both)) < Fraction(repr(draw)) + Fraction(repr(test)):
            both = math.nextafter(both, math.inf)
        return cls(draw, test, both)
