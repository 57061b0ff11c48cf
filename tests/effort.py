"""How much the tests try: a little in `make quick`, more in `make test`, all in `make thorough`.

A test that is run by hand tries all.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")
EFFORT = os.environ.get("WHEREISH_EFFORT", "thorough")
ONE_OF = {"quick": 12, "test": 3, "thorough": 1}[EFFORT]  # of so many examples one is tried
CASES = {"quick": 3, "test": 6, "thorough": 1}[EFFORT]  # of so many cases of a test one is tried


def examples(count: int) -> settings:
    """Return the settings of a test that tries this many examples with all effort."""
    return settings(max_examples=min(count, max(3, count // ONE_OF)), deadline=None)


def sample(items: Iterable[T], always: Collection[T] = ()) -> list[T]:
    """Return one of `ONE_OF` items, from the beginning to the end, and those of `always`."""
    return [item for k, item in enumerate(items) if k % ONE_OF == 0 or item in always]
