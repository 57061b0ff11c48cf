"""The audit of a file: compute its certificate again, and refuse it if a claim does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whereish.errors import GuaranteeError
from whereish.everywhere import AnyMechanism, Everywhere
from whereish.format.by_time_file import ByTimeContents
from whereish.format.certificate import (
    as_plain,
    certify,
    digest,
    guarantee_by_time,
    losses,
    mean_loss,
)
from whereish.format.claims import (
    CLAIMS_2,
    CLAIMS_3,
    check_claim,
    check_early,
    check_form,
    check_gap,
)
from whereish.format.container import digest_of
from whereish.format.everywhere_certificate import certify_everywhere, losses_at, visits_given
from whereish.format.everywhere_file import EverywhereContents
from whereish.format.mechanism_file import named, read_contents, read_file
from whereish.format.places_file import Contents
from whereish.format.signature import as_public_key
from whereish.mechanisms import Mechanism
from whereish.mechanisms.by_time import MechanismByTime, check_same_periods
from whereish.places import as_prior


def audit_file(
    path: str | Path, prior: Any = None, *, key: str | bytes | None = None
) -> dict[str, Any]:
    """Compute the certificate of a file again, from the file alone, and return it.

    Every row and ratio is checked exactly; in a file of version 2, every corner of the lattice; in
    a file of version 3, every ratio of every period, with what each says in ``periods``. If
    the file holds the prior, the quality loss and the lower bound are computed as well.
    ``recomputed`` names the fields that were computed, ``needs_prior`` those that could not be,
    because the file holds no prior or no proof. ``sha256`` is the digest to pin, ``signed_by`` the
    key that was given and has signed the file.

    Parameters
    ----------
    prior
        A prior to compute the loss under, in place of the one in the file; for a mechanism with a
        guarantee for every point, (points, weights); for mechanisms by time, a
        `TimeDependentPrior`.
    key
        The Ed25519 public key that must have signed the file, see `load_mechanism`.

    Raises
    ------
    FormatError
        If the file is not a mechanism, or was changed.
    GuaranteeError
        If something it claims does not hold, or the key has not signed it.
    """
    file, content = read_file(path)
    signer = None if key is None else as_public_key(key)
    with named(file):
        found, mechanism = _audit(read_contents(content, signer))
    found |= {"sha256": digest_of(content), "signed_by": signer}
    if prior is None:
        return found
    now: dict[str, Any]
    if isinstance(mechanism, Everywhere):
        now = losses_at(mechanism, visits_given(mechanism, prior))
    elif isinstance(mechanism, MechanismByTime):
        check_same_periods(mechanism, prior)
        each = [
            losses(member, own)["quality_loss_km"] or 0.0
            for member, own in zip(mechanism.mechanisms, prior.priors, strict=True)
        ]
        now = {"quality_loss_km": mean_loss(prior.weights, each)}
    else:
        weights = as_prior(prior, len(mechanism.inputs))
        now = {**losses(mechanism, weights), "prior_sha256": digest(weights)}
    known = [name for name in now if now[name] is not None]
    found["recomputed"] += [name for name in known if name not in found["recomputed"]]
    found["needs_prior"] = [name for name in found["needs_prior"] if name not in known]
    return found | now


def audit_bytes(content: bytes) -> dict[str, Any]:
    """Audit the bytes of a file, as `audit_file` does."""
    with named(Path("file")):
        return _audit(read_contents(content))[0]


def _audit(
    contents: Contents | EverywhereContents | ByTimeContents,
) -> tuple[dict[str, Any], AnyMechanism | MechanismByTime]:
    if isinstance(contents, ByTimeContents):
        return _audit_by_time(contents)
    if isinstance(contents, EverywhereContents):
        return _audit_everywhere(contents)
    return _audit_places(contents)


def _audit_places(contents: Contents) -> tuple[dict[str, Any], Mechanism]:
    """Audit a file of version 1, or one mechanism of version 3: every row and ratio."""
    check_early(contents)  # before the ratios: there may be billions of them
    mechanism, prior, claimed = contents.mechanism(), contents.prior, contents.claimed
    fresh = as_plain(certify(mechanism, prior))
    recomputed = ["certified", "epsilon", "epsilon_unit", "metric", "places", "outputs"]
    recomputed += ["ratios_checked", "worst_slack", "largest_snap_km"]
    if prior is not None:
        recomputed += ["quality_loss_km", "prior_sha256"]
        if mechanism.proof is not None:
            recomputed += ["lower_bound_km"]
    for name in recomputed:
        check_claim(name, claimed[name], fresh[name])
    recomputed += ["gap"] if "lower_bound_km" in recomputed else []  # check_early has checked it
    # The words, and the place of the least slack, where the last digit decides, are never the
    # file's.
    recomputed += ["worst_slack_at", "guarantee"]
    found = claimed | {name: fresh[name] for name in recomputed}
    needed = [] if mechanism.proof is not None else ["lower_bound_km", "gap"]
    if prior is None:
        needed = ["quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "prior_sha256"]
    return {**found, "recomputed": recomputed, "needs_prior": needed}, mechanism


def _audit_everywhere(contents: EverywhereContents) -> tuple[dict[str, Any], AnyMechanism]:
    """Audit a file of version 2: every row and every corner, and what is claimed about points."""
    check_form(contents.claimed, CLAIMS_2)
    mechanism, visits, claimed = contents.mechanism(), contents.prior, contents.claimed
    fresh = as_plain(certify_everywhere(mechanism, visits))
    recomputed = ["certified", "epsilon", "epsilon_unit", "metric", "kind", "vertices", "cells"]
    recomputed += ["outputs", "corners_checked", "tightest_epsilon"]
    needed = ["quality_loss_km", "lower_bound_km", "gap", "points_sha256"]
    if visits is not None:
        proved = [] if contents.proof is None else ["lower_bound_km"]
        recomputed += ["quality_loss_km", "points_sha256", *proved]
        needed = [] if proved else ["lower_bound_km", "gap"]
    # The loss of noise is an integral. Files written before its masses were right to 2e-8 hold one
    # that is off by up to 1e-3, unless the area is wider than about 100 / epsilon.
    close = 1e-3 if contents.kind == "planar-laplace" else 1e-9
    for name in recomputed:
        check_claim(name, claimed[name], fresh[name], close if name == "quality_loss_km" else 1e-9)
    if "lower_bound_km" in recomputed:
        check_gap(claimed)
        recomputed += ["gap"]
    recomputed += ["tightest_at", "guarantee"]
    found = claimed | {name: fresh[name] for name in recomputed}
    return {**found, "recomputed": recomputed, "needs_prior": needed}, mechanism


def _audit_by_time(contents: ByTimeContents) -> tuple[dict[str, Any], MechanismByTime]:
    """Audit a file of version 3: each mechanism as a file of its own, then what holds for all."""
    claimed = contents.claimed
    check_form(claimed, CLAIMS_3)
    found, members = [], []
    for name, member in zip(contents.periods.names, contents.members, strict=True):
        try:
            facts, mechanism = _audit_places(member)
        except GuaranteeError as wrong:
            raise GuaranteeError(f"period {name}: {wrong}") from None
        found.append(facts)
        members.append(mechanism)
    made = MechanismByTime(tuple(members), contents.periods)  # the same places, metric, epsilon
    shared = ["certified", "epsilon", "epsilon_unit", "metric", "places", "outputs"]
    fresh: dict[str, Any] = {name: found[0][name] for name in (*shared, "largest_snap_km")}
    fresh |= {
        "hours": list(contents.periods.hours), "zone": contents.periods.zone,
        "ratios_checked": sum(one["ratios_checked"] for one in found),
    }  # fmt: skip
    needed = ["quality_loss_km"]
    if contents.weights is not None:
        each = [one["quality_loss_km"] for one in found]
        fresh["quality_loss_km"], needed = mean_loss(contents.weights, each), []
    for name, value in fresh.items():
        check_claim(name, claimed[name], value)
    fresh |= {"guarantee": as_plain(guarantee_by_time(made)), "periods": found}
    return {**claimed, **fresh, "recomputed": list(fresh), "needs_prior": needed}, made
