"""Optimal mechanisms of one prior at many privacy levels: what does not depend on epsilon is kept.

Distances, losses and the spanner are computed once. A solve takes one core, and each core takes
another level.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whereish.errors import InputError
from whereish.limits import DILATION, MEMORY_GB, TOLERANCE
from whereish.mechanisms import Mechanism
from whereish.mechanisms.plan import plan
from whereish.mechanisms.search import Setting, Task, best_of, setting_of
from whereish.parallel import cores
from whereish.places import Array, Places, as_number, as_prior
from whereish.profiles import Profile

# Up to this many places, a solve runs on one core, and each core takes another level.
_ONE_CORE_UP_TO = 100


@dataclass(frozen=True, eq=False, repr=False)
class Person:
    """Places, a prior and metrics: all that a mechanism needs except the privacy level."""

    setting: Setting  # at any level
    prior: Array
    tolerance: float

    def at(
        self,
        level: float,
        threads: int | None = None,
        stop: NDArray[np.uint8] | None = None,
    ) -> Mechanism:
        """Return the optimal mechanism at a level, certified as that of `whereish.optimal`."""
        setting = replace(self.setting, level=level)
        setting.__dict__["spanner"] = self.setting.spanner
        task = Task(setting, self.prior, self.tolerance, threads=threads, stop=stop)
        return best_of(task, "auto", None, time.perf_counter())

    def at_each(
        self, levels: Sequence[float], done: Callable[[int, int], object] | None = None
    ) -> list[Mechanism]:
        """Return the optimal mechanism at each level. The core releases the GIL: threads work."""
        available = cores()
        at_once = available if len(self.setting.inputs) <= _ONE_CORE_UP_TO else 1
        stop = np.zeros(1, np.uint8)
        found: list[Mechanism] = []
        with ThreadPoolExecutor(at_once) as pool:
            jobs = [
                pool.submit(self.at, level, max(1, available // at_once), stop) for level in levels
            ]
            try:
                for job in jobs:
                    found.append(job.result())
                    if done is not None:
                        done(len(found), len(jobs))
            except BaseException:
                stop[0] = 1
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return found

    @property
    def constant_loss(self) -> float:
        """The loss of the best constant report: the limit at epsilon 0."""
        return float((self.prior @ self.setting.loss).min())

    @property
    def least_loss(self) -> float:
        """The loss without privacy: the limit at infinite epsilon."""
        return float(self.prior @ self.setting.loss.min(axis=1))


def person_of(
    places: Places | Profile,
    prior: ArrayLike | None,
    dilation: float = DILATION,
    privacy_metric: ArrayLike | None = None,
    quality_metric: ArrayLike | None = None,
    outputs: Places | Sequence[int] | NDArray[np.int64] | None = None,
    tolerance: float = TOLERANCE,
) -> Person:
    """Validate everything except the level; compute the spanner.

    Raises
    ------
    SolveError
        If exact programs for so many places do not fit into the memory.
    """
    if isinstance(places, Profile):
        if prior is not None:
            raise InputError("prior must be left out with a profile, which has one")
        prior, places = places.prior, places.places
    if prior is None:
        raise InputError("prior must be given, got None")
    setting = setting_of(places, 1.0, dilation, privacy_metric, quality_metric, outputs)
    weights = as_prior(prior, len(setting.inputs))
    as_number("tolerance", tolerance)
    n, m = setting.loss.shape
    plan("exact", n, m, len(setting.spanner.edges), None, MEMORY_GB)
    return Person(setting, weights, tolerance)
