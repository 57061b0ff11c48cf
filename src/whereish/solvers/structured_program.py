"""A program of the structured solver, prepared by the compiled core for many priors."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import Status, address, library
from whereish.errors import SolveError
from whereish.places import Array

REFUSED = {
    Status.BAD_SIZE: "a size of the program is zero or too large",
    Status.BAD_INDEX: "a pair names a place that does not exist or one place twice, or comes twice",
    Status.BAD_NUMBER: "a number of the program is negative, infinite or not a number, or the "
    "reach does not obey the pairs",
    Status.NO_MEMORY: "the program does not fit into the memory",
    Status.BAD_STATE: "the checkpoint does not belong to this program",
    Status.COMMUNICATION: "the other members of the group cannot be reached",
}


class Program:
    """Everything about a program but the prior, prepared for many solves.

    Parameters
    ----------
    loss
        (n, m).
    edges, exponents
        (e, 2) pairs and (e,) values of eps d: k(x, z) <= exp(eps d) k(x', z), both ways.
    reach
        (n, n) values of eps d for all pairs, whose differences obey the exponents.

    Raises
    ------
    SolveError
        If the program cannot be used: a size, an index or a number is wrong.
    """

    def __init__(
        self, loss: Array, edges: NDArray[np.int64], exponents: Array, reach: Array
    ) -> None:
        self.arguments = (loss, edges, exponents, reach)
        self.n, self.m = loss.shape
        numbers = [np.ascontiguousarray(each, np.float64) for each in (loss, exponents, reach)]
        if numbers[1].shape != (len(edges),) or numbers[2].shape != (self.n, self.n):
            raise SolveError(f"the structured solver cannot begin: {REFUSED[Status.BAD_SIZE]}")
        pairs = np.ascontiguousarray(edges, np.int32).reshape(-1, 2)
        self._handle = ctypes.c_void_p()
        check(
            library().wi_program_new(
                self.n,
                self.m,
                len(pairs),
                address(numbers[0], np.float64),
                address(pairs, np.int32),
                address(numbers[1], np.float64),
                address(numbers[2], np.float64),
                ctypes.byref(self._handle),
            )
        )
        weakref.finalize(self, library().wi_program_free, self._handle)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and its arguments: another process prepares it again."""
        return Program, self.arguments

    @property
    def handle(self) -> ctypes.c_void_p:
        """The program in the core."""
        return self._handle

    def parts(self, prior: Array) -> int:
        """Return in how many parts a solve for this prior can be shared; 1 if it is too small."""
        weights = np.ascontiguousarray(prior, np.float64)
        return int(library().wi_parts(self._handle, address(weights, np.float64)))

    def order(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the order of the inputs, and which pairs are constrained at first."""
        order, first = np.empty(self.n, np.int32), np.empty(len(self.arguments[1]), np.uint8)
        library().wi_program_order(self._handle, address(order, np.int32), address(first, np.uint8))
        return order, first.astype(bool)

    def paths(self) -> tuple[Array, NDArray[np.int32]]:
        """Return shortest paths along the pairs, in the order of the program.

        Lengths, and before[j, i], the last place but one from j to i.
        """
        lengths, before = np.empty((self.n, self.n)), np.empty((self.n, self.n), np.int32)
        library().wi_program_paths(
            self._handle, address(lengths, np.float64), address(before, np.int32)
        )
        return lengths, before


def check(status: int) -> None:
    """Raise SolveError, with the reason, unless the core did what it was asked."""
    if status != Status.OK:
        raise SolveError(f"the structured solver cannot go on: {REFUSED[Status(status)]}")
