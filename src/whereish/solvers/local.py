"""Programs whose columns have small supports: an interior-point solve for thousands of places.

The method is in the compiled core (``core/local.c``). Its result is a heuristic for the program of
all places: `mechanisms.local` makes a mechanism and a lower bound from it, which are checked.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whereish import interrupts
from whereish.compiled import Options, ProgressCallback, Result, Status, Stopped, address, library
from whereish.errors import SolveError
from whereish.parallel import cores
from whereish.places import Array
from whereish.solvers.structured import Multipliers, multipliers_of
from whereish.solvers.structured_program import REFUSED, check

_Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Supports:
    """The places that the column of each output covers.

    Attributes
    ----------
    first, place
        The support of output z is ``place[first[z] : first[z + 1]]``: its centre comes first, and
        then the places near it.
    near
        (m,) how many of them are near the centre; the others are far.
    output
        The output of each entry of ``place``.
    """

    first: _Integers
    place: NDArray[np.int32]
    near: _Integers
    output: _Integers

    def of(self, output: int) -> NDArray[np.int32]:
        """Return the places of an output."""
        return self.place[self.first[output] : self.first[output + 1]]


@dataclass(frozen=True, eq=False)
class LocalSolution:
    """What a solve with small supports found.

    Attributes
    ----------
    columns
        By support: the probabilities.
    prices
        (n,) the price of each place.
    multipliers
        Those of the rows between the places of a support.
    gap, iterations, seconds
        The relative gap of this program, the steps and the time.
    """

    columns: Array
    prices: Array
    multipliers: Multipliers
    gap: float
    iterations: int
    seconds: float


def solve_local(
    supports: Supports,
    pairs: NDArray[np.int32],
    exponents: Array,
    costs: Array,
    reach: Array,
    amounts: Array,
    columns: Array,
    tolerance: float,
    time_limit_s: float | None = None,
    progress: Callable[[], object] | None = None,
    threads: int | None = None,
) -> LocalSolution:
    """Find columns with small supports that cost least.

    Parameters
    ----------
    pairs, exponents
        (e, 2) places and (e,) values of eps d. Pairs of places that are far apart may be left out.
    costs, reach, columns
        By support: prior(x) d_Q(x, z) and what is outside, eps d to the centre, first columns.
    amounts
        (n,) what the columns add up to at each place: 1, or less where probability is outside the
        supports.
    tolerance
        The relative gap at which to stop.
    progress
        Called at every iteration.

    Raises
    ------
    SolveError
        If the program cannot be used: a size, an index or a number is wrong.
    KeyboardInterrupt
        At Ctrl-C.
    """
    n, m = len(amounts), len(supports.first) - 1
    sizes = {len(costs), len(reach), len(columns), len(supports.place), int(supports.first[-1])}
    if len(sizes) > 1 or len(exponents) != len(pairs):
        raise SolveError(f"the structured solver cannot begin: {REFUSED[Status.BAD_SIZE]}")
    options = Options(
        tolerance=tolerance,
        time_limit_s=math.inf if time_limit_s is None else max(time_limit_s, 0.0),
        threads=threads or cores(),
        catch_interrupt=interrupts.is_ours(),
        members=1,
    )
    wrong: list[BaseException] = []
    if progress is not None:
        tell = progress

        def on_progress(_context: object, _at: object) -> int:
            try:
                tell()
            except BaseException as error:
                wrong.append(error)
                return 1
            return 0

        options.progress = ProgressCallback(on_progress)
    numbers = [np.array(each, np.float64) for each in (exponents, costs, reach, amounts, columns)]
    edges = np.ascontiguousarray(pairs, np.int32)
    first = np.ascontiguousarray(supports.first, np.int64)
    place = np.ascontiguousarray(supports.place, np.int32)
    prices = np.empty(n)
    result = ctypes.POINTER(Result)()
    status = library().wi_solve_local(
        n, m, len(edges), address(edges, "i4"), address(numbers[0], "f8"), address(first, "i8"),
        address(place, "i4"), *(address(each, "f8") for each in numbers[1:4]),
        ctypes.byref(options), address(numbers[4], "f8"), address(prices, "f8"),
        ctypes.byref(result),
    )  # fmt: skip
    try:
        if wrong:
            raise wrong[0]
        check(status)
        found = result.contents
        if found.stopped == Stopped.STOPPED:  # without a callback that raised: Ctrl-C
            raise KeyboardInterrupt
        return LocalSolution(
            numbers[4], prices, multipliers_of(found), found.gap, found.iterations, found.seconds
        )
    finally:
        library().wi_result_free(result)
