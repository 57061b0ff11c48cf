"""The two loops of `pruning.prune` over outputs and rows, in the compiled core (core/pruning.c)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whereish.compiled import Status, address, library
from whereish.places import Array

Numbers = NDArray[np.int64]


def cancel_cycles(
    low: int, high: int, nodes: int, first: Numbers, left: Numbers, right: Numbers, gain: Array,
    y: Array,
) -> None:  # fmt: skip
    """Cancel all cycles of the rows of each output low <= z < high: what is left is a forest.

    Row j sends y[j] from right[j]; gain[j] y[j] arrives at left[j]. The rows of output z are
    first[z] <= j < first[z + 1]. y is changed; a row with y = 0 is not needed any more.
    """
    status = library().wi_cancel_cycles(low, high, nodes, *_rows(first, left, right, gain, y))
    if status != Status.OK:
        raise MemoryError


def return_spare(
    low: int, high: int, spare: Array, first: Numbers, left: Numbers, right: Numbers, gain: Array,
    y: Array,
) -> None:  # fmt: skip
    """Let each output low <= z < high send no more than its places need: reduce its rows.

    spare[z, x] is what place x does not need. A row to x is reduced by as much as that allows; its
    right place then has more to spare. The rows of an output are a forest with the smallest ones
    last, which are the first to become 0. y and spare are changed.
    """
    n, rows = spare.shape[1], _rows(first, left, right, gain, y)
    library().wi_return_spare(low, high, n, address(spare, "f8"), *rows)


def _rows(
    first: Numbers, left: Numbers, right: Numbers, gain: Array, y: Array
) -> tuple[int, int, int, int, int]:
    return (
        address(first, "i8"), address(left, "i8"), address(right, "i8"), address(gain, "f8"),
        address(y, "f8"),
    )  # fmt: skip
