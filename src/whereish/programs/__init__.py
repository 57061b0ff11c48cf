"""WHAT: spanners and linear programs, as plain data. The solvers are in `whereish.solvers`."""

from whereish.programs.linear import LinearProgram, dual
from whereish.programs.private import (
    Size,
    least_loss,
    least_loss_size,
    most_privacy,
    privacy_multipliers,
)
from whereish.programs.spanner import Spanner, check_dilation, greedy_spanner, spanner_of

__all__ = [
    "LinearProgram",
    "Size",
    "Spanner",
    "check_dilation",
    "dual",
    "greedy_spanner",
    "least_loss",
    "least_loss_size",
    "most_privacy",
    "privacy_multipliers",
    "spanner_of",
]
