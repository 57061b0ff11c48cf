"""The communicator of a solve: it sums over all blocks, in one process or in several.

Every output in use belongs to a part, and a member of the team holds the blocks of some parts that
follow each other. What is added up over all blocks is added up as a binary tree over the parts: a
member adds up what it holds of the tree, the rest is added up where the answers come together. So
a solve gives the same numbers, to the last bit, however many members there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from whereish.places import Array

if TYPE_CHECKING:
    from whereish.solvers.structured.blocks import Program

Node = tuple[int, int]
Sum = TypeVar("Sum", Array, float)


class Team(Protocol):
    """Members that hold blocks. What can be asked is in `partition.Share`."""

    spans: Sequence[Node]

    @property
    def moved_bytes(self) -> int:
        """How much has crossed between machines."""
        ...

    def ask(self, what: str, *arguments: Any) -> list[Any]:
        """Ask all members the same, and return their answers in order."""
        ...

    def ask_each(self, what: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask every member with arguments of its own."""
        ...


OpenTeam = Callable[["Program", int], AbstractContextManager[Team]]


class Alone:
    """A team of one, in this process."""

    moved_bytes = 0

    def __init__(self, share: Any) -> None:
        self.share = share
        self.spans: Sequence[Node] = [(share.low, share.high)]

    def ask(self, what: str, *arguments: Any) -> list[Any]:
        """Ask, and return the answer."""
        return [getattr(self.share, what)(*arguments)]

    def ask_each(self, what: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask with its own arguments, the only ones."""
        return self.ask(what, *arguments[0])


def subtrees(low: int, high: int, node: Node) -> Iterator[Node]:
    """Yield the largest subtrees, under a node, of the leaves from low to high.

    >>> list(subtrees(0, 8, (0, 16))), list(subtrees(5, 10, (0, 16)))
    ([(0, 8)], [(5, 6), (6, 8), (8, 10)])
    """
    start, end = node
    if low <= start and end <= high:
        yield node
    elif start < high and low < end:
        middle = (start + end) // 2
        yield from subtrees(low, high, (start, middle))
        yield from subtrees(low, high, (middle, end))


def added_up(known: dict[Node, Sum], node: Node) -> Sum:
    """Return the sum under a node of the tree.

    >>> added_up({(0, 2): 3.0, (2, 3): 4.0, (3, 4): 5.0}, (0, 4))
    12.0
    """
    if node in known:
        return known[node]
    start, end = node
    middle = (start + end) // 2
    return added_up(known, (start, middle)) + added_up(known, (middle, end))
