"""What the shell offers for the value of an option when somebody presses TAB."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def one_of(choices: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return the completion of an option with choices: those that begin as typed.

    The names of a registry are given as a function, which is called when somebody presses TAB.

    >>> one_of(("highs-ipm", "structured"))("h")
    ['highs-ipm']
    """

    def complete(incomplete: str) -> list[str]:
        names = choices() if callable(choices) else choices
        return [name for name in names if name.startswith(incomplete)]

    return complete
