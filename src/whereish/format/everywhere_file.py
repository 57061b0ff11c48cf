"""Version 2 of the file: a mechanism with a guarantee for every point. See docs/format.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError
from whereish.everywhere import (
    Everywhere,
    EverywhereBuild,
    EverywhereMechanism,
    PlanarLaplaceEverywhere,
    VisitedProof,
    Visits,
)
from whereish.everywhere.points import MOST_POINTS
from whereish.format.container import pack
from whereish.format.everywhere_certificate import certify_everywhere, visits_given
from whereish.format.parts import (
    PROOF,
    frame_of,
    proof_arrays,
    read_build,
    read_places,
    read_proof,
    texts_of,
)
from whereish.limits import MOST_PLACES
from whereish.places import Places, as_numbers, as_prior, readonly
from whereish.places.lattice import FURTHEST_LATTICE_KM, UNITS_PER_KM, Lattice

VERSION_2 = "2"
_FACTS = {"kind", "epsilon", "epsilon_unit", "units_per_km", "outputs", "build"}
_ARRAYS = {
    "xs": "i8", "ys": "i8", "outputs": "f8", "outputs_latlon": "f8", "points": "f8",
    "weights": "f8", "proof_centres": "f8", "proof_cluster": "i4", "proof_output": "i4",
    "proof_left": "i4", "proof_right": "i4", "proof_value": "f8",
}  # fmt: skip
_TABLES = {"lattice": ("counts", "u8"), "planar-laplace": ("table", "i4")}
PERSONAL = ("points", "weights", "proof_centres", "proof_cluster", *PROOF)
_MOST_NUMBERS = MOST_PLACES**2
_FURTHEST_UNITS = int(FURTHEST_LATTICE_KM * UNITS_PER_KM)


def everywhere_bytes(mechanism: Everywhere, prior: Any = None) -> bytes:
    """Return the bytes of a file; `prior` is (points, weights), or None."""
    visits = visits_given(mechanism, prior)
    build = mechanism.build if visits is not None else mechanism.build.without_prior()
    facts = {
        "kind": "lattice" if isinstance(mechanism, EverywhereMechanism) else "planar-laplace",
        "epsilon": mechanism.epsilon,
        "epsilon_unit": mechanism.epsilon_unit,
        "units_per_km": int(UNITS_PER_KM),
        "outputs": frame_of(mechanism.outputs),
        "build": asdict(build),
    }
    certificate = certify_everywhere(mechanism, visits)
    return pack(_arrays(mechanism, visits), texts_of(facts, certificate, VERSION_2))


def _arrays(mechanism: Everywhere, visits: Visits | None) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]]
    if isinstance(mechanism, EverywhereMechanism):
        lattice, proof = mechanism.lattice, mechanism.proof
        arrays = {"counts": mechanism.counts}
    else:
        lattice, proof = mechanism.borders, None
        arrays = {"table": mechanism.table.astype(np.int32)}
    arrays["xs"], arrays["ys"] = lattice.units
    arrays["outputs"] = mechanism.outputs.xy
    if mechanism.outputs.latlon is not None:
        arrays["outputs_latlon"] = mechanism.outputs.latlon
    if visits is not None:
        arrays |= {"points": visits.xy, "weights": visits.weights}
        if proof is not None and len(proof.cluster) == len(visits):
            arrays |= {"proof_centres": proof.centres, "proof_cluster": proof.cluster}
            arrays |= proof_arrays(proof.rows)
    return arrays


@dataclass(frozen=True, repr=False)
class EverywhereContents:
    """What a file holds. Its form is checked; its corners are not, until `mechanism` is called."""

    table: NDArray[Any]
    lattice: Lattice
    outputs: Places
    epsilon: float
    build: EverywhereBuild
    prior: Visits | None
    proof: VisitedProof | None
    kind: str
    claimed: dict[str, Any]

    def mechanism(self) -> Everywhere:
        """Audit every corner exactly and return the mechanism."""
        if self.kind == "planar-laplace":
            return PlanarLaplaceEverywhere(
                self.epsilon, self.lattice, self.table, self.outputs, self.build
            )
        return EverywhereMechanism(
            self.table, self.lattice, self.outputs, self.epsilon, self.build, self.proof
        )


def read_everywhere(
    arrays: Mapping[str, NDArray[Any]], facts: dict[str, Any], claimed: dict[str, Any]
) -> EverywhereContents:
    """Check the form of all that a file of version 2 holds."""
    if set(facts) != _FACTS:
        raise FormatError("its header does not say of the mechanism what it must say")
    if not isinstance(facts["kind"], str) or facts["kind"] not in _TABLES:
        raise FormatError(f"kind must be one of {', '.join(_TABLES)}")
    if facts["epsilon_unit"] != "per km" or facts["units_per_km"] != int(UNITS_PER_KM):
        raise FormatError(f"epsilon must be per km, and a km {int(UNITS_PER_KM)} units")
    main, kind = _TABLES[facts["kind"]]
    known = {**_ARRAYS, main: kind}
    for name, array in arrays.items():
        if name not in known or array.dtype != np.dtype(f"<{known[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that this mechanism has")
    table = arrays[main]
    if table.ndim != 2 or table.size > _MOST_NUMBERS:
        raise FormatError(f"{main} must be a table of at most {_MOST_NUMBERS:,} numbers")
    lattice = Lattice(*(_axis(name, arrays[name]) for name in ("xs", "ys")))
    outputs = read_places("outputs", arrays, facts)
    if len(outputs) > MOST_PLACES:
        raise FormatError(f"a mechanism must have at most {MOST_PLACES:,} outputs")
    visits = _visits(arrays, outputs)
    return EverywhereContents(
        table, lattice, outputs, facts["epsilon"], read_build(facts["build"], EverywhereBuild),
        visits, _proof(arrays, visits, facts, len(outputs)), facts["kind"], claimed,
    )  # fmt: skip


def _axis(name: str, units: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the coordinates of a lattice in km: exact, because they are at most 2^52 units."""
    if units.ndim != 1 or len(units) == 0:
        raise FormatError(f"{name} must be a list of at least one coordinate")
    if units.min() < -_FURTHEST_UNITS or units.max() > _FURTHEST_UNITS:
        raise FormatError(f"{name} must be within {_FURTHEST_UNITS} units of the origin")
    return units.astype(np.float64) / UNITS_PER_KM


def _visits(arrays: Mapping[str, NDArray[Any]], outputs: Places) -> Visits | None:
    if "points" not in arrays and "weights" not in arrays:
        return None
    points = as_numbers("points", arrays["points"], (None, 2))
    if len(points) > MOST_POINTS:
        raise FormatError(f"points must be from 1 to {MOST_POINTS:,}")
    as_prior(arrays["weights"], len(points), "weights")
    if len(points) == 0 or not (arrays["weights"] > 0).all():
        raise FormatError("points must have a weight above 0 each")
    # Not normalised: their digest is that of their bytes.
    return Visits(readonly(points), readonly(arrays["weights"]), outputs.plane)


def _proof(
    arrays: Mapping[str, NDArray[Any]], visits: Visits | None, facts: dict[str, Any], outputs: int
) -> VisitedProof | None:
    if not any(name.startswith("proof_") for name in arrays):
        return None
    if visits is None or facts["kind"] != "lattice":
        raise FormatError("a proof comes with the points of a lattice mechanism only")
    centres = as_numbers("proof_centres", arrays["proof_centres"], (None, 2))
    cluster = arrays["proof_cluster"]
    fits = cluster.shape == (len(visits),) and len(centres) <= MOST_PLACES
    if not fits or not np.array_equal(np.unique(cluster), np.arange(len(centres))):
        raise FormatError("its proof must have a centre for each point, and a point at each centre")
    Places(centres)  # they must differ
    rows = read_proof(arrays, facts["epsilon"], len(centres), outputs)
    if rows is None:
        raise FormatError("its proof is not of the form it must be")
    return VisitedProof(readonly(centres), readonly(cluster), rows)
