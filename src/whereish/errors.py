"""The errors of Whereish.

::

    WhereishError                       anything this library raises on purpose
    ├── InputError (a ValueError)       an argument cannot be used
    │   └── FormatError                 a file has the wrong format or is damaged
    ├── SolveError                      no solver produced an answer
    ├── BudgetError                     a report would cost more than is left
    └── GuaranteeError                  a privacy guarantee did not hold; nothing is returned

A message says what must hold, what came and, where it helps, what to do next. It never repeats
a coordinate. The command line chooses the exit codes, the service the HTTP statuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Number
from typing import Any

_MOST_DIGITS = 3


class WhereishError(Exception):
    """Anything this library raises on purpose."""


class InputError(WhereishError, ValueError):
    """An argument cannot be used: the message names it and says what must hold.

    Attributes
    ----------
    field
        The part of a build specification that is wrong, like ``prior[3]``; None otherwise.
    """

    def __init__(self, message: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class FormatError(InputError):
    """A file has the wrong format or is damaged."""


class SolveError(WhereishError):
    """No solver produced an answer: the message quotes the solver."""


class BudgetError(WhereishError):
    """A report would cost more than is left of a budget: nothing was reported."""


class GuaranteeError(WhereishError):
    """A privacy guarantee did not hold for these numbers, so they are not returned."""


def described(value: Any) -> str:
    """Describe an argument for a message: a number or a short text as it is, else type and size.

    Places, priors and points are personal data, and a caller may pass them by mistake.

    >>> described([48.85, 2.35]), described("exactly"), described(3.5)
    ('a list of 2', "'exactly'", '3.5')
    """
    if value is None or isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        digits = sum(character.isdigit() for character in value)
        short = len(value) <= 60 and digits <= _MOST_DIGITS
        return repr(value) if short else f"a text of {len(value)} characters"
    kind = type(value).__name__
    named = f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(side, int) for side in shape):
        return f"{named} of {' x '.join(map(str, shape)) or 'one number'}"
    try:
        return f"{named} of {len(value)}"
    except TypeError:
        return named


def seems_data(name: str) -> bool:
    """Whether the name of a column seems to be a value, because the header row is missing.

    >>> seems_data("lat_e7"), seems_data("48.8566"), seems_data("N 48.8566"), seems_data("")
    (False, True, True, True)
    """
    bare = str(name).strip("\ufeff \t\r\"'")
    return not re.match(r"[^\W\d]", bare) or bool(re.search(r"\d[.,]\s?\d|\d{5}", bare))


def column_names(names: Sequence[str]) -> str:
    """List the names of columns, unless they seem to be a row of data: that may be a location."""
    if any(map(seems_data, names)):
        return "a first line that seems to be data, not names"
    return ", ".join(name[:40] for name in names[:12])
