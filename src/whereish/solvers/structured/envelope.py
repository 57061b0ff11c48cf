"""Compiled factors and inverses of symmetric matrices whose entries lie near the diagonal.

A pair of places is constrained mostly if they are near, so with the places in a good order
(`warm_start.near_order`) column j of a block's matrix is empty above some row
first[j], and so is its factor. What is empty is skipped: at 50 to 400 places that leaves a tenth to
a third of the work, and this is faster than LAPACK, which cannot know. Where nothing is empty it is
as fast up to 200 places.

Matrices are upper triangles, in rows padded to a multiple of ``WIDTH``: U'U = G. A factor has the
reciprocals of U's diagonal on its own, and U' below it, from first[i] on in row i: what is before
that is of no use.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,call-arg"

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

WIDTH = 32
_LANES = 4


@njit(nogil=True, cache=True, error_model="numpy")
def padded(n):
    """Return the length of the rows of a matrix with n columns."""
    return -(-n // WIDTH) * WIDTH


@intrinsic
def _subtract_rows(typing, out, factors, step, rows, stride, count):
    """Do out -= factors[0] rows[0] + ... + factors[count - 1] rows[count - 1], WIDTH numbers wide.

    All but the count are addresses, or steps between numbers. Everything that is expensive here is
    this loop. It is written in the compiler's own terms because it keeps ``out`` in registers, and
    nothing else made it do that.
    """
    of = types.void(*[types.intp] * 6)

    def write(context, builder, signature, arguments):
        out, factors, step, rows, stride, count = arguments
        number, whole = ir.DoubleType(), ir.IntType(64)
        vector = ir.VectorType(number, _LANES)
        mixed = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
        nothing = ir.Constant(vector, ir.Undefined)
        parts = range(WIDTH // _LANES)

        def constant(value):
            return ir.Constant(whole, value)

        def place(address, part):
            moved = builder.add(address, constant(8 * _LANES * part))
            return builder.inttoptr(moved, vector.as_pointer())

        places = [place(out, part) for part in parts]
        start = [builder.load(where, align=8) for where in places]
        before = builder.block
        loop, done = builder.append_basic_block(), builder.append_basic_block()
        builder.cbranch(builder.icmp_signed(">", count, constant(0)), loop, done)

        builder.position_at_end(loop)
        at, factor_at, row_at = (builder.phi(whole) for _ in range(3))
        sums = [builder.phi(vector) for _ in parts]
        factor = builder.load(builder.inttoptr(factor_at, number.as_pointer()), align=8)
        factor = builder.insert_element(nothing, factor, ir.Constant(ir.IntType(32), 0))
        factor = builder.shuffle_vector(factor, nothing, mixed)
        after = []
        for part in parts:
            row = builder.load(place(row_at, part), align=8)
            product = builder.fmul(factor, row, flags=("contract",))
            after.append(builder.fsub(sums[part], product, flags=("contract",)))
        carried = [
            (at, constant(0), builder.add(at, constant(1))),
            (factor_at, factors, builder.add(factor_at, builder.mul(step, constant(8)))),
            (row_at, rows, builder.add(row_at, builder.mul(stride, constant(8)))),
            *zip(sums, start, after, strict=True),
        ]
        for value, first, following in carried:
            value.add_incoming(first, before)
            value.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", carried[0][2], count), loop, done)

        builder.position_at_end(done)
        results = [builder.phi(vector) for _ in parts]
        for result, first, following, where in zip(results, start, after, places, strict=True):
            result.add_incoming(first, before)
            result.add_incoming(following, loop)
            builder.store(result, where, align=8)
        return context.get_dummy_value()

    return of, write


@njit(nogil=True, cache=True, error_model="numpy")
def find_last(first, last):
    """Put into ``last`` how far each row of the factor reaches."""
    for j in range(len(first)):
        last[j] = j
        for i in range(first[j], j):
            last[i] = j


@njit(nogil=True, cache=True, error_model="numpy")
def cholesky(upper, first):
    """Factor a matrix in place; return 0 if it could be."""
    n, width = upper.shape
    base = upper.ctypes.data
    for left in range(0, n, WIDTH):
        right = min(left + WIDTH, n)
        top = left
        for j in range(left, right):
            top = min(top, first[j])
        for i in range(top, right):
            low = max(top, first[i])
            _subtract_rows(
                base + 8 * (width * i + left),
                base + 8 * (width * low + i),
                width,
                base + 8 * (width * low + left),
                width,
                i - low,
            )
            if i >= left:
                pivot = upper[i, i]
                if not pivot > 0.0:
                    return 1
                upper[i, i] = 1.0 / np.sqrt(pivot)
            scale = upper[i, i]
            for j in range(max(left, i + 1), left + WIDTH):
                upper[i, j] *= scale
    for i in range(n):
        for j in range(first[i], i):
            upper[i, j] = upper[j, i]
    return 0


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def solve_factored(factor, first, right):
    """Solve with a factor, in place: forwards, then backwards."""
    n = len(right)
    for i in range(n):
        row = factor[i]
        known = 0.0
        for j in range(first[i], i):
            known += row[j] * right[j]
        right[i] = (right[i] - known) * row[i]
    for i in range(n - 1, -1, -1):
        row = factor[i]
        value = right[i] * row[i]
        right[i] = value
        for j in range(first[i], i):
            right[j] -= row[j] * value


@njit(nogil=True, cache=True, error_model="numpy")
def add_inverse(upper, first, last, skipped, k, part, strip):
    """Add K G^-1 K to ``part``, K = diag(k) without place ``skipped``: its lower triangle.

    By strips of columns, which do not depend on each other: each is solved forwards and backwards
    in ``strip``, (n, WIDTH), and never leaves the processor's cache.
    """
    n, width = upper.shape
    base, room = upper.ctypes.data, strip.ctypes.data
    for left in range(0, n, WIDTH):
        for i in range(left, n):
            row = strip[i]
            for x in range(WIDTH):
                row[x] = 0.0
            if i < left + WIDTH and i != skipped:
                row[i - left] = k[i]
            low = max(left, first[i])
            _subtract_rows(
                room + 8 * WIDTH * i,
                base + 8 * (width * low + i),
                width,
                room + 8 * WIDTH * low,
                WIDTH,
                i - low,
            )
            scale = upper[i, i]
            for x in range(WIDTH):
                row[x] *= scale
        for i in range(n - 1, left - 1, -1):
            _subtract_rows(
                room + 8 * WIDTH * i,
                base + 8 * (width * i + i + 1),
                1,
                room + 8 * WIDTH * (i + 1),
                WIDTH,
                last[i] - i,
            )
            row, scale = strip[i], upper[i, i]
            for x in range(WIDTH):
                row[x] *= scale
            for x in range(min(WIDTH, n - left)):
                part[i, left + x] += k[i] * row[x]
