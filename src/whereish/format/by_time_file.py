"""Version 3 of the file: a mechanism for each period of the day. See docs/format.md.

Places, metric and epsilon are in the file once, so all its mechanisms have the same. What differs
is numbered: `counts_0` is the array `counts` of the first mechanism, as version 1 has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whereish.day_periods import DayPeriods
from whereish.errors import FormatError, GuaranteeError
from whereish.format.certificate import FROM_PRIOR, certify_by_time
from whereish.format.container import pack
from whereish.format.parts import PROOF, read_build, texts_of
from whereish.format.places_file import Contents, arrays_of, facts_of, read_between_places
from whereish.mechanisms.build import Build
from whereish.mechanisms.by_time import MechanismByTime, check_same_periods
from whereish.places import Array, as_prior, readonly
from whereish.profiles.time_prior import TimeDependentPrior

VERSION_3 = "3"
WEIGHTS = "period_weights"
_SHARED_FACTS = ("epsilon", "epsilon_unit", "outputs_are_inputs", "inputs", "outputs")
_FACTS = {"hours", "zone", "builds", *_SHARED_FACTS}
_SHARED = ("inputs", "outputs", "inputs_latlon", "outputs_latlon", "metric")
_NUMBERED = ("counts", "prior", *PROOF)


def by_time_bytes(mechanism: MechanismByTime, prior: Any = None) -> bytes:
    """Return the bytes of a file; `prior` is a `TimeDependentPrior`, or None."""
    if prior is not None:
        check_same_periods(mechanism, prior)
    members = mechanism.mechanisms
    builds = [one.build if prior is not None else one.build.without_prior() for one in members]
    facts = {
        **facts_of(members[0]),
        "hours": mechanism.periods.hours,
        "zone": mechanism.periods.zone,
        "builds": [asdict(build) for build in builds],
    }
    arrays: dict[str, NDArray[Any]] = {}
    for number, member in enumerate(members):
        own = arrays_of(member, None if prior is None else prior.priors[number])
        arrays |= {name: own[name] for name in _SHARED if name in own}
        arrays |= {f"{name}_{number}": own[name] for name in _NUMBERED if name in own}
    if prior is not None:
        arrays[WEIGHTS] = prior.weights
    return pack(arrays, texts_of(facts, certify_by_time(mechanism, prior), VERSION_3))


@dataclass(frozen=True)
class ByTimeContents:
    """What a file holds. Its form is checked; its ratios are not, until `mechanism` is called."""

    members: tuple[Contents, ...]
    periods: DayPeriods
    weights: Array | None
    claimed: dict[str, Any]

    def mechanism(self) -> MechanismByTime:
        """Audit every ratio of every mechanism exactly and return them all."""
        made = []
        for name, member in zip(self.periods.names, self.members, strict=True):
            try:
                made.append(member.mechanism())
            except GuaranteeError as wrong:
                raise GuaranteeError(f"period {name}: {wrong}") from None
        return MechanismByTime(tuple(made), self.periods)

    @property
    def prior(self) -> TimeDependentPrior | None:
        """The prior, if the file holds it."""
        if self.weights is None:
            return None
        rows = np.array([member.prior for member in self.members])
        return TimeDependentPrior(self.weights[:, None] * rows, self.periods)


def read_by_time(
    arrays: Mapping[str, NDArray[Any]], facts: dict[str, Any], claimed: dict[str, Any]
) -> ByTimeContents:
    """Check the form of all that a file of version 3 holds."""
    if set(facts) != _FACTS:
        raise FormatError("its header does not say of the mechanism what it must say")
    if not isinstance(facts["hours"], list) or not isinstance(facts["zone"], str):
        raise FormatError("hours must be a list of hours, and zone the name of a time zone")
    periods = DayPeriods(tuple(facts["hours"]), facts["zone"])
    builds = _one_each("builds", facts["builds"], len(periods))
    certificates = _one_each("certificate.periods", claimed.get("periods"), len(periods))
    if facts["epsilon"] is None:
        raise FormatError("mechanisms by time must have an epsilon")
    numbered = {f"{name}_{number}" for name in _NUMBERED for number in range(len(periods))}
    for name in arrays:
        if name not in numbered and name not in (*_SHARED, WEIGHTS):
            raise FormatError(f"the array {name[:40]!r} is not one that this mechanism has")
    shared = {name: arrays[name] for name in _SHARED if name in arrays}
    about = {name: facts[name] for name in _SHARED_FACTS}
    members = []
    for number, (build, certificate) in enumerate(zip(builds, certificates, strict=True)):
        own = {name: arrays[f"{name}_{number}"] for name in _NUMBERED
               if f"{name}_{number}" in arrays}  # fmt: skip
        members.append(read_between_places(shared | own, {**about, "build": build}, certificate))
    return ByTimeContents(tuple(members), periods, _weights(arrays, members), claimed)


def _one_each(name: str, parts: Any, count: int) -> list[dict[str, Any]]:
    """Check that a list in a header has an object for each period."""
    fine = isinstance(parts, list) and len(parts) == count
    if not fine or not all(isinstance(part, dict) for part in parts):
        raise FormatError(f"{name} must have one entry for each of {count} periods")
    return list(parts)


def _weights(arrays: Mapping[str, NDArray[Any]], members: list[Contents]) -> Array | None:
    known = [member.prior is not None for member in members]
    if any(known) != all(known) or any(known) != (WEIGHTS in arrays):
        raise FormatError(f"priors and {WEIGHTS} come together, one for each period")
    if not any(known):
        return None
    if arrays[WEIGHTS].dtype != np.dtype("<f8"):
        raise FormatError(f"the array {WEIGHTS!r} is not one that this mechanism has")
    as_prior(arrays[WEIGHTS], len(members), WEIGHTS)
    return readonly(arrays[WEIGHTS])


def by_time_without_prior(
    arrays: Mapping[str, NDArray[Any]], facts: dict[str, Any], claimed: dict[str, Any]
) -> bytes:
    """Return a file without its priors and without everything that was computed from them."""
    facts["builds"] = [
        asdict(read_build(build, Build).without_prior()) for build in facts["builds"]
    ]
    nothing = dict.fromkeys(FROM_PRIOR)
    claimed |= {
        "quality_loss_km": None, "periods": [part | nothing for part in claimed["periods"]],
    }  # fmt: skip
    kept = {
        name: array
        for name, array in arrays.items()
        if name in _SHARED or name.startswith("counts_")
    }
    return pack(kept, texts_of(facts, claimed, VERSION_3))
