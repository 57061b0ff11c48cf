"""EVERYWHERE: mechanisms with a guarantee for every two points of the plane."""

from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.tightest import TightestEverywhere, tightest_epsilon_everywhere

__all__ = [
    "EverywhereBuild",
    "EverywhereMechanism",
    "TightestEverywhere",
    "tightest_epsilon_everywhere",
]
