"""What the shell offers for the value of an option when somebody presses TAB."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def one_of(choices: Iterable[str]) -> Callable[[str], list[str]]:
    """Return the completion of an option with fixed choices: those that begin as typed.

    A registry may be given: it is read when somebody presses TAB.

    >>> one_of(("highs-ipm", "structured"))("h")
    ['highs-ipm']
    """

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete
