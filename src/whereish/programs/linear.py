"""Linear programs as plain data, in one form that the dual of a program has too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.places import Array, Immutable, readonly


@dataclass(frozen=True, eq=False)
class LinearProgram(Immutable):
    """Minimise ``cost @ v`` subject to ``matrix @ v >= right`` and ``v >= 0``.

    Rows marked in ``equal`` hold with equality, variables marked in ``free`` may be negative.

    Attributes
    ----------
    matrix
        scipy.sparse CSR array, constraints x variables.
    """

    cost: Array
    matrix: Any
    right: Array
    equal: NDArray[np.bool_]
    free: NDArray[np.bool_]

    def __post_init__(self) -> None:
        for name in ("cost", "right", "equal", "free"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    @property
    def variables(self) -> int:
        """Number of variables."""
        return len(self.cost)

    @property
    def constraints(self) -> int:
        """Number of rows; bounds on single variables do not count."""
        return len(self.right)


def dual(program: LinearProgram) -> LinearProgram:
    """Return the dual program, again as a minimisation (Appendix B).

    The dual of ``min c'v, Av >= r, v >= 0`` is ``max r'y, A'y <= c, y >= 0``; written as a
    minimisation it is ``min -r'y, -A'y >= -c``. Equality rows give free variables and free
    variables give equality rows, so the dual of the dual is the program itself. Its optimum
    is minus the optimum of the program.
    """
    return LinearProgram(
        cost=-program.right,
        matrix=(-program.matrix.T).tocsr(),
        right=-program.cost,
        equal=program.free,
        free=program.equal,
    )
