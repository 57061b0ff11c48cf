"""EVERYWHERE: mechanisms with a guarantee for every two points of the plane."""

from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.loss import expected_loss
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.optimal import METHODS, optimal_everywhere
from whereish.everywhere.planar_laplace import PlanarLaplaceEverywhere, planar_laplace_everywhere
from whereish.everywhere.plan import plan_everywhere
from whereish.everywhere.points import check_points
from whereish.everywhere.tightest import TightestEverywhere, tightest_epsilon_everywhere

Everywhere = EverywhereMechanism | PlanarLaplaceEverywhere

__all__ = [
    "METHODS",
    "Everywhere",
    "EverywhereBuild",
    "EverywhereMechanism",
    "PlanarLaplaceEverywhere",
    "TightestEverywhere",
    "check_points",
    "expected_loss",
    "optimal_everywhere",
    "planar_laplace_everywhere",
    "plan_everywhere",
    "tightest_epsilon_everywhere",
]
