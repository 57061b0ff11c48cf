"""The errors of Whereish.

::

    WhereishError                       anything this library raises on purpose
    ├── InputError (a ValueError)       what was given cannot be used
    │   └── FormatError                 a file is not what it should be
    ├── SolveError                      no solver produced an answer
    ├── BudgetError                     a report would cost more than is left
    └── GuaranteeError                  a promise of privacy did not hold; nothing is returned

A message says what must hold, what came and, where it helps, what to do next. Exit codes
and HTTP statuses belong to the doors, not here.
"""


class WhereishError(Exception):
    """Anything this library raises on purpose."""


class InputError(WhereishError, ValueError):
    """What was given cannot be used: the message names the field and the value.

    Attributes
    ----------
    field
        Which part of a recipe it is, like ``prior[3]``, where it was one.
    """

    def __init__(self, message: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class FormatError(InputError):
    """A file is not what it should be."""


class SolveError(WhereishError):
    """No solver produced an answer: the message carries the solver's own words."""


class BudgetError(WhereishError):
    """A report would cost more than is left of a budget: nothing was reported."""


class GuaranteeError(WhereishError):
    """A promise of privacy did not hold for the numbers at hand, so they are withheld."""
