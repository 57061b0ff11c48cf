"""The movement model of ``whereish profile --model``: it is written beside the profile."""

from __future__ import annotations

from pathlib import Path

import whereish as wh
from whereish.cli.console import say
from whereish.profiles import count_movement, save_movement


def write_model(
    output: Path, made: wh.PersonalProfile, others: Path, zone: str, *, named: bool
) -> Path:
    """Count how other people move at the places of a profile, and write the model beside it.

    The model is reweighted by the prior of the profile, so it is personal. It is counted after the
    profile is written: an error leaves the profile as it is.

    Parameters
    ----------
    others
        Traces of other people. The person of the profile is left out, if named.
    """
    target = output.with_suffix(".movement.json")
    population = count_movement(
        wh.open_traces(others), made.profile, leave_out=made.user if named else None, zone=zone
    )
    save_movement(target, population.reweighted(made.profile.prior))
    say(f"Wrote {target} (readable by you only): how other people move, and your prior.")
    return target
