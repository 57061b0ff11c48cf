"""Reading what a command is given: lists of numbers, and profiles.

Who hands over traces instead of a profile is told what to run first.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path

import whereish as wh
from whereish.cli.profile_words import Reading
from whereish.errors import InputError
from whereish.traces import cache_folder, hold

_HEAD = 1 << 16


def numbers(name: str, listed: str) -> tuple[float, ...]:
    """Read different numbers with commas between, and sort them.

    Raises
    ------
    InputError
        If a part is no finite number, if one comes twice, or if there is none.
    """
    try:
        found = sorted(float(part) for part in listed.split(",") if part.strip())
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found) or not all(map(math.isfinite, found)):
        raise InputError(
            f"{name} must be different numbers with commas between, got {listed!r:.40}"
        )
    return tuple(found)


def read_who(path: Path, *, normalise: bool = False, user: str | None = None) -> wh.Profile:
    """Read a profile.

    Raises
    ------
    InputError
        If it is none; for traces, with the command that makes a profile of them.
    """
    try:
        return wh.read_profile(path, normalise=normalise, user=user)
    except InputError:
        kind = _kind_of_traces(path)
        if kind is None:
            raise
        more = "" if user is None else f" --user {shlex.quote(user)}"
        raise InputError(
            f"{path} holds traces ({kind}), not a profile, which is places with a prior. Make one "
            f"first: whereish profile {shlex.quote(str(path))}{more} -o me.csv; then take me.csv"
        ) from None


def read_points(path: Path, *, normalise: bool = False, user: str | None = None) -> wh.Profile:
    """Read the visited points of a profile, or of traces, as places with a prior.

    Raises
    ------
    InputError
        If it is neither; for a profile without visited points, with what to do.
    """
    try:
        who = wh.read_profile(path, normalise=normalise, user=user)
    except InputError:
        if _kind_of_traces(path) is None:
            raise
        return _points_of_traces(path, user)
    if who.visited is None:
        more = "" if user is None else " --group users --points"  # the file is a group's
        raise InputError(
            f"profile {path} must hold visited points for --everywhere, and it holds places only. "
            f"Make it again: whereish profile TRACES{more} -o {shlex.quote(str(path))}; "
            "or build from the traces themselves"
        )
    return who.as_points


def _points_of_traces(path: Path, user: str | None) -> wh.Profile:
    """Read traces, as `whereish profile` does without flags."""
    found = wh.open_traces(path, users=None if user is None else [user])
    if user is None and not found.tells_people:
        found = replace(found, person="me")
    found = hold(found)
    with Reading(found) as reading:
        made = wh.personal_profile(found, points=True, progress=reading, cache=cache_folder())
        reading.done(made.funnel)
    return made.profile.as_points


def _kind_of_traces(path: Path) -> str | None:
    """Tell what traces a file or folder holds; None if none, or if it means to be a profile."""
    try:
        if path.is_file():
            with path.open("rb") as stream:
                head = stream.read(_HEAD)
                stream.seek(max(0, path.stat().st_size - _HEAD))
                # Of a Parquet table the names of the columns come last.
                if b"prior" in head or b"prior" in stream.read(_HEAD):
                    return None
        found = wh.open_traces(path)
    except (InputError, OSError, ValueError):
        return None
    return found.kind
