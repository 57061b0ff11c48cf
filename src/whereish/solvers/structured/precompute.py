"""Precomputed data of a structured solve that does not depend on the prior.

It is computed once, and shared by the solves for several priors on the same places.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array
from whereish.solvers.structured.kernels import NEAR, Pairs
from whereish.solvers.structured.warm_start import first_rows, near_order, shortest_ways, tight

_FAR = 400.0  # a start of exp(-100) is small enough, and min(d, 400) is as private as d
_MOST = 300.0  # no exponent needs to be larger: exp(-300) is nothing, and not 0


class Ground:
    """Places in an order that keeps near ones together (see `envelope`).

    ``order`` says which place comes where; everything else is in that order.
    """

    def __init__(
        self, loss: Array, edges: NDArray[np.int64], exponents: Array, reach: Array
    ) -> None:
        self.n, self.m = loss.shape
        self.exponents = np.minimum(exponents, _MOST)
        self.first = first_rows(self.n, edges, self.exponents)
        self.order = near_order(self.n, edges[self.first[: len(self.first) // 2]])
        rank = np.empty(self.n, np.int64)
        rank[self.order] = np.arange(self.n)
        self.edges, self.loss = rank[edges], loss[self.order]
        left, right = np.concatenate([self.edges, self.edges[:, ::-1]]).T.astype(np.uint32)
        shrink = np.exp(-np.r_[self.exponents, self.exponents])
        shrink_of = np.zeros((self.n, self.n))
        shrink_of[left, right] = shrink
        near = 1.0 - NEAR * (1.0 - shrink * shrink)
        self.pairs = Pairs(left.copy(), right.copy(), shrink, near, shrink_of)
        # An output that is not an input stands where it is most useful.
        far = np.minimum(reach[np.ix_(self.order, loss.argmin(axis=0))], _FAR).T
        self.start = np.exp(-0.25 * far)
        self.farthest = np.argsort(-far, axis=1, kind="stable")

    def prepare(self) -> None:
        """Work out everything now, not when it is asked for: threads may ask at a time."""
        _ = self.ways, self.tight

    @cached_property
    def ways(self) -> tuple[Array, NDArray[np.int32]]:
        """The length of the shortest way along the pairs, and the last place but one on it."""
        lengths, before = shortest_ways(self.n, self.edges, self.exponents)
        return lengths, before

    @cached_property
    def tight(self) -> list[tuple[Array, Array]]:
        """Where every solve begins, whatever the prior: see `warm_start.tight`."""
        return tight(self.ways[0])
