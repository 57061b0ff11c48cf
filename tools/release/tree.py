"""The tree that a release is made from: clean, committed, with the time of its commit."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class TreeError(Exception):
    """A release cannot be made from this tree: why, and what to do, in one line."""


@dataclass(frozen=True)
class Commit:
    """A commit: its name, and its time in seconds since 1970."""

    name: str
    time: int


def committed(root: Path = ROOT) -> Commit:
    """Return the commit of a clean tree.

    Raises
    ------
    TreeError
        If the tree is not git's, or has changes or files that are not committed.
    """
    try:
        changed = _git(root, "status", "--porcelain")
        name, time = _git(root, "log", "-1", "--format=%H %ct").split()
    except (OSError, subprocess.CalledProcessError):
        raise TreeError("a release is made from a commit, and this is no tree of git") from None
    if changed:
        count = len(changed.splitlines())
        raise TreeError(
            f"a release is made from a commit, and {count} files are changed or not committed "
            f"(the first: {changed.split()[1]}): commit them or put them away"
        )
    return Commit(name, int(time))


def _git(root: Path, *words: str) -> str:
    command = ["git", *words]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip()
