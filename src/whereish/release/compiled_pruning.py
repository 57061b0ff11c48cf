"""The two loops of `pruning.prune` over outputs and rows, compiled."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

import numpy as np
from numba import njit

# A row is kept as it is where a factor along its cycle is outside this range: no overflow.
_SMALLEST, _LARGEST = 1e-200, 1e200


@njit(nogil=True, cache=True, error_model="numpy")
def cancel_cycles(low, high, nodes, first, left, right, gain, y):
    """Cancel all cycles of the rows of each output low <= z < high: what is left is a forest.

    Row j sends y[j] from right[j]; gain[j] y[j] arrives at left[j]. The rows of output z are
    first[z] <= j < first[z + 1]. y is changed; a row with y = 0 is not needed any more.
    """
    parent, arc = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    seen = np.empty(nodes, np.int64)
    path, child = np.empty(2 * nodes, np.int64), np.empty(2 * nodes, np.int64)
    change = np.empty(2 * nodes)  # of the row path[i], for each unit that row j sends more
    for z in range(low, high):
        parent[:], arc[:], seen[:] = -1, -1, -1
        for j in range(first[z], first[z + 1]):
            source, sink = right[j], left[j]
            # The apex is the first common ancestor of both ends, or -1 in two trees.
            x = source
            while x >= 0:
                seen[x] = j
                x = parent[x]
            apex = sink
            while apex >= 0 and seen[apex] != j:
                apex = parent[apex]
            below, start, up = -1, sink, source
            if apex >= 0:
                # Along the cycle: one unit more in row j arrives at the apex as `arriving`, by way
                # of the sink. The source has to take `needed` from the apex for it.
                length, arriving, needed = 0, gain[j], 1.0
                x = sink
                while x != apex:
                    a = arc[x]
                    if right[a] == x:
                        change[length] = arriving
                        arriving *= gain[a]
                    else:
                        arriving /= gain[a]
                        change[length] = -arriving
                    path[length], child[length] = a, x
                    length, x = length + 1, parent[x]
                from_sink = length
                x = source
                while x != apex:
                    a = arc[x]
                    if left[a] == x:
                        needed /= gain[a]
                        change[length] = needed
                    else:
                        change[length] = -needed
                        needed *= gain[a]
                    path[length], child[length] = a, x
                    length, x = length + 1, parent[x]
                if not (
                    _SMALLEST < arriving < _LARGEST and _SMALLEST < needed < _LARGEST
                ):  # also NaN
                    continue
                # In this direction more arrives at the apex than is needed there.
                sign = 1.0 if arriving > needed else -1.0
                step, blocking = np.inf if sign > 0 else y[j], -1
                for i in range(length):
                    if sign * change[i] < 0:
                        most = y[path[i]] / abs(change[i])
                        if most < step:
                            step, blocking = most, i
                if not step < np.inf:  # no row gets smaller: only by rounding
                    continue
                y[j] = max(y[j] + sign * step, 0.0)
                for i in range(length):
                    y[path[i]] = max(y[path[i]] + sign * step * change[i], 0.0)
                if blocking < 0:
                    y[j] = 0.0
                    continue
                # Row j takes the place of the blocking row in the tree.
                y[path[blocking]] = 0.0
                below = child[blocking]
                if blocking >= from_sink:
                    start, up = source, sink
            # Make `start` the root of its tree (of the part below the blocking row) and hang it
            # below the other end of row j.
            x, a = start, j
            while x >= 0:
                next_node, next_arc = parent[x], arc[x]
                parent[x], arc[x] = up, a
                if x == below:
                    break
                up, a, x = x, next_arc, next_node


@njit(nogil=True, cache=True, error_model="numpy")
def return_spare(low, high, spare, first, left, right, gain, y):
    """Let each output low <= z < high send no more than its places need: reduce its rows.

    spare[z, x] is what place x does not need. A row to x is reduced by as much as that allows; its
    right place then has more to spare. The rows of an output are a forest, or nearly so, with the
    smallest ones last, which are the first to become 0. y and spare are changed.
    """
    for z in range(low, high):
        for _ in range(spare.shape[1]):  # a path of a forest is shorter than that
            changed = False
            for j in range(first[z + 1] - 1, first[z] - 1, -1):
                more = spare[z, left[j]]
                if y[j] > 0 and more > 0:
                    changed = True
                    less = more / gain[j]
                    if less >= y[j]:
                        less = y[j]
                        spare[z, left[j]] = max(more - gain[j] * less, 0.0)
                    else:
                        spare[z, left[j]] = 0.0
                    y[j] -= less
                    spare[z, right[j]] += less
            if not changed:
                break
