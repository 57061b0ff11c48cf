"""WHAT: spanners and linear programs, as plain data. The solvers are in `whereish.solvers`."""

from whereish.programs.linear import LinearProgram, dual
from whereish.programs.private import (
    LARGEST_EXPONENT,
    Size,
    least_loss,
    least_loss_size,
    most_privacy,
)
from whereish.programs.spanner import Spanner, check_dilation, greedy_spanner, spanner_of

__all__ = [
    "LARGEST_EXPONENT",
    "LinearProgram",
    "Size",
    "Spanner",
    "check_dilation",
    "dual",
    "greedy_spanner",
    "least_loss",
    "least_loss_size",
    "most_privacy",
    "spanner_of",
]
