"""The mechanisms for all points in the one registry of mechanisms: rows of a comparison.

They are no ``--method``: a description asks for them with ``guarantee: "everywhere"``.
"""

from __future__ import annotations

from whereish.everywhere.mechanism import EverywhereMechanism
from whereish.everywhere.optimal import optimal_everywhere
from whereish.everywhere.planar_laplace import PlanarLaplaceEverywhere, planar_laplace_everywhere
from whereish.limits import VERTICES
from whereish.mechanisms import Request, register_mechanism


def _optimal(request: Request) -> EverywhereMechanism | PlanarLaplaceEverywhere:
    return optimal_everywhere(
        request.places, request.prior, request.level, vertices=request.vertices or VERTICES,
        method="lattice", time_limit_s=request.time_limit_s, progress=request.progress,
        memory_limit_gb=request.memory_limit_gb, normalise=True,
    )  # fmt: skip


def _planar_laplace(request: Request) -> PlanarLaplaceEverywhere:
    return planar_laplace_everywhere(request.places, request.prior, request.level, normalise=True)


REGISTERED = (
    register_mechanism(
        "optimal-everywhere", "the least loss on a lattice, private between any two points",
        for_points=_optimal, title="optimal everywhere", needs_prior=True,
    ),
    register_mechanism(
        "planar-laplace-everywhere", "planar Laplace noise at the point itself, then a remap",
        for_points=_planar_laplace, title="planar Laplace everywhere + remap", needs_prior=True,
    ),
)  # fmt: skip
