"""The commands of a released mechanism: audit it, and report with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whereish.cli.commands import AsJson
from whereish.cli.console import command, emit, say
from whereish.mechanisms import audit_file
from whereish.studies import km


@command
def audit(
    source: Annotated[Path, typer.Argument(metavar="K", help="A mechanism's file.")],
    as_json: AsJson = False,
) -> None:
    """Check a mechanism again, from its file alone and in exact arithmetic.

    Exit code 4 if anything it claims does not hold.
    """
    found = audit_file(source)
    say_certificate(found)
    if as_json:
        emit(found)


def say_certificate(found: dict[str, Any]) -> None:
    """Say what a certificate says."""
    if not found["certified"]:
        say(f"{found['method']}: {found['places']} places, {found['outputs']} outputs, NO epsilon")
    else:
        at = found["worst_slack_at"]
        say(
            f"Holds: epsilon {found['epsilon']:.6g} {found['epsilon_unit']} for all "
            f"{found['ratios_checked']:,} ratios of {found['places']} places and "
            f"{found['outputs']} outputs, each compared exactly; every row sums to 2^63."
        )
        say(
            f"Least room: {found['worst_slack']:.3g} in the exponent, between places "
            f"{at['places'][0]} and {at['places'][1]} for output {at['output']}."
        )
    for sentence in found["guarantee"]:
        say(sentence)
    loss, bound = found.get("quality_loss_km"), found.get("lower_bound_km")
    if loss is not None:
        sure = "" if "quality_loss_km" in found["recomputed"] else " (as claimed: no prior is kept)"
        say(f"A report is {km(loss)} off on average under the prior it was built for{sure}.")
    if bound is not None:
        sure = "proved" if "lower_bound_km" in found["recomputed"] else "claimed"
        say(f"Nothing with this privacy can do better than {km(bound)}: {sure}.")
