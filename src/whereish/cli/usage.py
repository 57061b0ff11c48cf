"""Usage errors: they name what is wrong without repeating a number.

Someone may give the point where they are as an argument by mistake. The error goes to the terminal
and to logs, so it must not repeat the point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer import BadParameter
from typer.core import TyperGroup

_UsageError: type[Any] = BadParameter.__mro__[1]  # the parent of all errors of an argument
_WITH_DIGIT = re.compile(r"[^\s'\"()\[\]]*\d[^\s'\"()\[\]]*")
NOT_SHOWN = "not shown, as it may be a place"


@contextmanager
def _redacted() -> Iterator[None]:
    try:
        yield
    except _UsageError as wrong:
        wrong.message = _WITH_DIGIT.sub(NOT_SHOWN, wrong.message)
        raise


class RedactingGroup(TyperGroup):
    """A group of commands whose usage errors repeat no word that holds a digit."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments before the name of a command."""
        with _redacted():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of a command, and run it."""
        with _redacted():
            return super().invoke(ctx)
