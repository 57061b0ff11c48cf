"""What a notebook shows of an object: a small table of words, without coordinates or shares.

Notebooks are saved and shared with their output, so the table has nothing personal.
"""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterable
from typing import Any

_STYLE = "text-align:left;padding:2px 12px 2px 0"


class Shown:
    """Base of classes that a notebook shows as a table: their facts, in words."""

    def _facts(self) -> Iterable[tuple[str, str]]:
        """Return the rows of the table: what, and its value with a unit."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Return the table, for Jupyter and other notebooks."""
        return table(type(self).__name__, self._facts())


def table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Return a table with two columns as HTML; every text is escaped.

    >>> table("Build", [("gap", "< 1 %")])[-77:]
    '<td style="text-align:left;padding:2px 12px 2px 0">&lt; 1 %</td></tr></table>'
    """
    lines = "".join(
        f'<tr><th style="{_STYLE}">{html.escape(name)}</th>'
        f'<td style="{_STYLE}">{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    caption = f'<caption style="text-align:left"><b>{html.escape(title)}</b></caption>'
    return f"<table>{caption}{lines}</table>"


def plotting() -> Any:
    """Return the module that draws into axes of matplotlib.

    It is found by its name, as pandas finds its own: pictures stand above what they show in the
    order of imports, and methods called `plot` stand below.
    """
    return importlib.import_module("whereish.plotting.axes")
