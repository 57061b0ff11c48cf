"""EVERYWHERE: mechanisms with a guarantee for every two points of the plane, or of streets."""

from whereish.everywhere.bound import proved_bound
from whereish.everywhere.build import EverywhereBuild
from whereish.everywhere.loss import expected_loss, loss_of, visits_in
from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.on_roads import optimal_on_roads
from whereish.everywhere.optimal import METHODS, optimal_everywhere
from whereish.everywhere.plan import plan_everywhere
from whereish.everywhere.planar_laplace import PlanarLaplaceEverywhere, planar_laplace_everywhere
from whereish.everywhere.points import Visits, check_points, clustered
from whereish.everywhere.proof import VisitedProof
from whereish.everywhere.registry import REGISTERED
from whereish.everywhere.road_mechanism import RoadMechanism
from whereish.everywhere.tightest import TightestEverywhere, tightest_epsilon_everywhere
from whereish.everywhere.visited import at_visited_points, guess_error
from whereish.mechanisms.mechanism import Mechanism

# A mechanism with a guarantee for every point: on a lattice, or noise.
Everywhere = EverywhereMechanism | PlanarLaplaceEverywhere
AnyMechanism = Mechanism | Everywhere

__all__ = [
    "METHODS",
    "REGISTERED",
    "AnyMechanism",
    "Everywhere",
    "EverywhereBuild",
    "EverywhereMechanism",
    "PlanarLaplaceEverywhere",
    "RoadMechanism",
    "TightestEverywhere",
    "VisitedProof",
    "Visits",
    "at_visited_points",
    "check_points",
    "clustered",
    "expected_loss",
    "guess_error",
    "loss_of",
    "optimal_everywhere",
    "optimal_on_roads",
    "plan_everywhere",
    "planar_laplace_everywhere",
    "proved_bound",
    "tightest_epsilon_everywhere",
    "visits_in",
]
