"""``whereish audit``: check a mechanism again, from its file alone and in exact arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whereish.cli.by_time import say_audited
from whereish.cli.console import Facts, command, say
from whereish.cli.options import AS_JSON, MECHANISM, NORMALISE, OTHER_PRIOR, option
from whereish.cli.prior import load_with_prior
from whereish.cli.sign import public_key_from
from whereish.format import audit_file
from whereish.units import km


@command
def audit(
    source: Path = MECHANISM,
    prior: Path | None = OTHER_PRIOR,
    normalise: bool = NORMALISE,
    key: str | None = option(
        None,
        "The public key that must have signed the file, or a file with this key.",
        "The signature",
        "KEY",
    ),
    as_json: bool = AS_JSON,
) -> Facts:
    """Check a mechanism again, exactly, from its file alone.

    Every ratio is compared in exact arithmetic; for a mechanism with a guarantee for every point,
    every corner of its lattice; for mechanisms by time, every ratio of each, and that all have the
    same places and epsilon. Privacy does not depend on a prior. With --prior,
    the quality loss is computed as well. Exit code 4 means that a claim of the file does not hold,
    or that the key did not sign it.
    """
    weights = None if prior is None else load_with_prior(source, prior, normalise)[1]
    signer = None if key is None else public_key_from(key)
    found = audit_file(source, weights, key=signer)
    say_certificate(found)
    say_needed(found, prior is not None)
    if found["signed_by"] is not None:
        say(f"Signed by the key that you gave: {found['signed_by']}.")
    say(f"Digest to pin: sha256 {found['sha256']}.")
    return found


def say_certificate(found: dict[str, Any]) -> None:
    """Say what a certificate says."""
    if "periods" in found:
        say_audited(found)
    elif "kind" in found:
        _say_everywhere(found)
    elif not found["certified"]:
        say(f"{found['method']}: {found['places']} places, {found['outputs']} outputs, NO epsilon")
    else:
        at = found["worst_slack_at"]
        say(
            f"Holds: epsilon {found['epsilon']:.6g} {found['epsilon_unit']} for all "
            f"{found['ratios_checked']:,} ratios of {found['places']} places and "
            f"{found['outputs']} outputs. Each was compared exactly; every row sums to 2^63."
        )
        say(
            f"Smallest margin: {found['worst_slack']:.3g} in the exponent, between places "
            f"{at['places'][0]} and {at['places'][1]} for output {at['output']}."
        )
    for sentence in found["guarantee"]:
        say(sentence)
    sure = found["recomputed"]
    where = "for these points" if "kind" in found else "under this prior"
    if "quality_loss_km" in sure:
        say(f"A report is {km(found['quality_loss_km'])} off on average {where}.")
    if "lower_bound_km" in sure:
        bound = km(found["lower_bound_km"])
        outputs = " and these outputs" if "kind" in found else ""
        say(
            f"Proved: every mechanism with this privacy{outputs} is at least {bound} off on "
            "average."
        )


def _say_everywhere(found: dict[str, Any]) -> None:
    """Say what holds between any two points of the plane."""
    level = f"epsilon {found['epsilon']:.6g} {found['epsilon_unit']}"
    if found["kind"] != "lattice":
        say(
            f"Holds: {level} for any two points of the plane, because of the noise that is added. "
            f"The table of {found['cells']:,} cells and {found['outputs']} outputs was checked."
        )
        return
    at = found["tightest_at"]
    say(
        f"Holds: {level} for any two points of the plane. All {found['corners_checked']:,} corners "
        f"of {found['cells']:,} cells, for {found['outputs']} outputs, were compared in whole "
        f"numbers; every row of the {found['vertices']:,} vertices sums to 2^63."
    )
    say(
        f"Smallest epsilon that the counts have: {found['tightest_epsilon']:.9g} per km, at vertex "
        f"{at['vertex']} for output {at['output']}."
    )


def say_needed(found: dict[str, Any], given: bool) -> None:
    """Say what an audit could not compute, and what it would need."""
    if "quality_loss_km" in found["needs_prior"]:
        # Files of earlier versions, and forged ones: nothing in them proves these claims.
        claims = [name for name in found["needs_prior"] if found.get(name) is not None]
        what = "points" if "kind" in found else "prior"
        holds = f"The file holds no {what}."
        if claims:
            holds = (
                f"The file holds no {what}, so nothing proves its claims on {', '.join(claims)}."
            )
        say(
            f"Not computed: the quality loss, and how near it is to the optimum. {holds} "
            "With --prior PROFILE the loss under that prior is computed. Privacy does not depend "
            "on a prior."
        )
    elif "lower_bound_km" in found["needs_prior"] and given:
        say("Not computed: how near this is to the optimum. The file holds no proof of it.")
