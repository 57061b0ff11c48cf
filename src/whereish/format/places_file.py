"""Version 1 of the file: a mechanism between places. See docs/format.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.errors import FormatError
from whereish.format.certificate import certify
from whereish.format.container import pack
from whereish.format.parts import (
    frame_of,
    proof_arrays,
    read_build,
    read_places,
    read_proof,
    texts_of,
)
from whereish.limits import MOST_PLACES
from whereish.measures import Counts, Proof
from whereish.mechanisms.build import Build
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import Array, Places, as_prior, readonly

VERSION = "1"
_ARRAYS = {
    "counts": "u8", "inputs": "f8", "outputs": "f8", "inputs_latlon": "f8", "outputs_latlon": "f8",
    "metric": "f8", "prior": "f8",
    "proof_output": "i4", "proof_left": "i4", "proof_right": "i4", "proof_value": "f8",
}  # fmt: skip


def places_bytes(mechanism: Mechanism, prior: Any = None) -> bytes:
    """Return the bytes of a file."""
    weights = None if prior is None else as_prior(prior, len(mechanism.inputs))
    build = mechanism.build if weights is not None else mechanism.build.without_prior()
    facts = {**facts_of(mechanism), "build": asdict(build)}
    certificate = certify(mechanism, weights)
    return pack(arrays_of(mechanism, weights), texts_of(facts, certificate, VERSION))


def facts_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return what a header says about a mechanism, without its build record."""
    return {
        "epsilon": mechanism.epsilon,
        "epsilon_unit": None if mechanism.epsilon is None else mechanism.epsilon_unit,
        "outputs_are_inputs": mechanism.outputs is mechanism.inputs,
        "inputs": frame_of(mechanism.inputs),
        "outputs": frame_of(mechanism.outputs),
    }


def arrays_of(mechanism: Mechanism, prior: Array | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file."""
    arrays: dict[str, NDArray[Any]] = {
        "counts": mechanism.counts,
        "inputs": mechanism.inputs.xy,
        "outputs": mechanism.outputs.xy,
    }
    for name, places in (("inputs", mechanism.inputs), ("outputs", mechanism.outputs)):
        if places.latlon is not None:
            arrays[f"{name}_latlon"] = places.latlon
    if mechanism.epsilon is not None and mechanism.limits.metric is not None:
        arrays["metric"] = mechanism.limits.metric
    if prior is not None:
        arrays["prior"] = prior
        if (proof := mechanism.proof) is not None:
            arrays |= proof_arrays(proof)
    return arrays


@dataclass(frozen=True)
class Contents:
    """What a file holds. Its form is checked; its ratios are not, until `mechanism` is called."""

    counts: Counts
    inputs: Places
    outputs: Places
    epsilon: float | None
    metric: Array | None
    build: Build
    prior: Array | None
    proof: Proof | None
    claimed: dict[str, Any]

    def mechanism(self) -> Mechanism:
        """Audit every ratio exactly and return the mechanism."""
        mix = self.claimed.get("rounding_mix")
        return Mechanism.of_counts(
            self.counts, self.inputs, self.outputs, self.epsilon, self.metric, self.build,
            self.proof, mix if isinstance(mix, float) else 0.0,
        )  # fmt: skip


def read_between_places(
    arrays: Mapping[str, NDArray[Any]], facts: dict[str, Any], claimed: dict[str, Any]
) -> Contents:
    """Check the form of all that a file of version 1 holds."""
    for name, array in arrays.items():
        if name not in _ARRAYS or array.dtype != np.dtype(f"<{_ARRAYS[name]}"):
            raise FormatError(f"the array {name[:40]!r} is not one that a mechanism has")
    if max(arrays["counts"].shape) > MOST_PLACES:
        raise FormatError(f"a mechanism must have at most {MOST_PLACES:,} places")
    inputs, outputs = _inputs_and_outputs(arrays, facts)
    epsilon, prior = facts["epsilon"], None
    if "prior" in arrays:
        as_prior(arrays["prior"], len(inputs))
        prior = readonly(arrays["prior"])  # not normalised: its digest is that of its bytes
    if "metric" in arrays and epsilon is None:
        raise FormatError("a metric comes with an epsilon only")
    return Contents(
        arrays["counts"], inputs, outputs, epsilon, arrays.get("metric"),
        read_build(facts["build"], Build), prior,
        read_proof(arrays, epsilon, len(inputs), len(outputs)), claimed,
    )  # fmt: skip


def _inputs_and_outputs(
    arrays: Mapping[str, NDArray[Any]], facts: dict[str, Any]
) -> tuple[Places, Places]:
    inputs, outputs = (read_places(name, arrays, facts) for name in ("inputs", "outputs"))
    if not isinstance(facts["outputs_are_inputs"], bool):
        raise FormatError("a file must say whether outputs are the inputs")
    if facts["outputs_are_inputs"]:
        if not _same_places(inputs, outputs):
            raise FormatError("outputs must be the inputs, as it says they are")
        outputs = inputs
    if (inputs.plane is None) != (outputs.plane is None):
        raise FormatError("inputs and outputs must both lie on the earth, or neither")
    return inputs, outputs


def _same_places(one: Places, other: Places) -> bool:
    """Tell whether two sets of places have the same plane, cells, km and degrees."""
    if one.plane != other.plane or one.cell_km != other.cell_km:
        return False
    if one.latlon is None or other.latlon is None:
        return one.latlon is other.latlon and np.array_equal(one.xy, other.xy)
    return np.array_equal(one.xy, other.xy) and np.array_equal(one.latlon, other.latlon)
