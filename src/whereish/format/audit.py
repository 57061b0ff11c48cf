"""The audit of a file: compute its certificate again, and refuse it if a claim does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from whereish.format.certificate import as_plain, certify, digest, losses
from whereish.format.claims import check_claim, check_early
from whereish.format.container import digest_of
from whereish.format.mechanism_file import Contents, named, read_contents, read_file
from whereish.format.signature import as_public_key
from whereish.mechanisms.mechanism import Mechanism
from whereish.places import as_prior


def audit_file(
    path: str | Path, prior: ArrayLike | None = None, *, key: str | bytes | None = None
) -> dict[str, Any]:
    """Compute the certificate of a file again, from the file alone, and return it.

    Every row and ratio is checked exactly. If the file holds the prior, the quality loss and the
    lower bound are computed as well. ``recomputed`` names the fields that were computed,
    ``needs_prior`` those that could not be, because the file holds no prior or no proof. ``sha256``
    is the digest to pin, ``signed_by`` the key that was given and has signed the file.

    Parameters
    ----------
    prior
        A prior to compute the loss under, in place of the one in the file.
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
    weights = as_prior(prior, len(mechanism.inputs))
    now: dict[str, Any] = {**losses(mechanism, weights), "prior_sha256": digest(weights)}
    known = [name for name in now if now[name] is not None]
    found["recomputed"] += [name for name in known if name not in found["recomputed"]]
    found["needs_prior"] = [name for name in found["needs_prior"] if name not in known]
    return found | now


def audit_bytes(content: bytes) -> dict[str, Any]:
    """Audit the bytes of a file, as `audit_file` does."""
    with named(Path("file")):
        return _audit(read_contents(content))[0]


def _audit(contents: Contents) -> tuple[dict[str, Any], Mechanism]:
    check_early(contents)  # before the ratios: there may be billions of them
    mechanism, prior, claimed = contents.mechanism(), contents.prior, contents.claimed
    fresh = as_plain(certify(mechanism, prior))
    recomputed = ["certified", "epsilon", "epsilon_unit", "metric", "places", "outputs"]
    recomputed += ["ratios_checked", "worst_slack", "largest_snap_km"]
    if prior is not None:
        recomputed += ["quality_loss_km", "prior_sha256"]
        if mechanism.proof is not None:
            recomputed += ["lower_bound_km", "gap"]
    for name in recomputed:
        check_claim(name, claimed[name], fresh[name])
    # The words, and the place of the least slack, where the last digit decides, are never the
    # file's.
    recomputed += ["worst_slack_at", "guarantee"]
    found = claimed | {name: fresh[name] for name in recomputed}
    needed = [] if mechanism.proof is not None else ["lower_bound_km", "gap"]
    if prior is None:
        needed = ["quality_loss_km", "rounding_cost_km", "lower_bound_km", "gap", "prior_sha256"]
    return {**found, "recomputed": recomputed, "needs_prior": needed}, mechanism
