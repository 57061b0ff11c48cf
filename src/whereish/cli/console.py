"""What every command shares: where messages go, how errors end, the progress bar."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from whereish.errors import BudgetError, GuaranteeError, InputError, SolveError, WhereishError
from whereish.extras import missing_extra
from whereish.format.certificate import as_plain

EXIT_INPUT, EXIT_NOT_SOLVED, EXIT_GUARANTEE, EXIT_BUDGET, EXIT_INTERRUPTED = 2, 3, 4, 5, 130
ERROR_CODES: tuple[tuple[type[WhereishError], int], ...] = (
    (InputError, EXIT_INPUT),
    (SolveError, EXIT_NOT_SOLVED),
    (GuaranteeError, EXIT_GUARANTEE),
    (BudgetError, EXIT_BUDGET),
    (WhereishError, EXIT_NOT_SOLVED),
)
Facts = dict[str, Any] | list[Any]  # what a command returns: --json prints it
Command = TypeVar("Command", bound=Callable[..., Any])

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a message for people on standard error, so that --json stays clean."""
    console.print(text, markup=False)


def emit(document: Facts) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(json.dumps(as_plain(document), indent=2, allow_nan=False) + "\n")


def command(function: Command) -> Command:
    """Print what a command returns, if --json is given; end an error with a line and a code."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            document = function(*args, **kwargs)
            if kwargs.get("as_json") and document is not None:
                emit(document)
        except ImportError as missing:
            # A compiled module that is interrupted while it is imported raises this.
            if isinstance(missing.__cause__, KeyboardInterrupt):
                _say_stopped()
                raise typer.Exit(EXIT_INTERRUPTED) from None
            if not isinstance(missing, ModuleNotFoundError):
                raise
            if (advice := missing_extra(missing)) is None:
                raise
            say(f"whereish: {advice}")
            raise typer.Exit(EXIT_INPUT) from None
        except WhereishError as wrong:
            say(f"whereish: {wrong}")
            code = next(code for kind, code in ERROR_CODES if isinstance(wrong, kind))
            raise typer.Exit(code) from None
        except KeyboardInterrupt:
            _say_stopped()
            raise typer.Exit(EXIT_INTERRUPTED) from None

    return guarded  # type: ignore[return-value]


def _say_stopped() -> None:
    """Say that Ctrl-C ended the command; end the process if other threads could hold it up."""
    say("whereish: stopped; no file was left half written")
    if threading.active_count() > 1:
        # A solver that does not stop at once must not hold up, or abort, the exit.
        sys.stdout.flush()
        os._exit(EXIT_INTERRUPTED)


@contextmanager
def waiting(what: str) -> Iterator[Callable[..., None]]:
    """Show what a command is doing and for how long; one line of text where there is no terminal.

    Yields a function that takes the progress: in words, and as a share of the way. The words come
    first in the line; what does not fit into it is cut off.
    """
    if not console.is_terminal:
        say(f"{what} ...")
        yield lambda news, share=None: None
        return
    line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    words = TextColumn("{task.description}", table_column=line)
    columns = (SpinnerColumn(), words, BarColumn(bar_width=16), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        task = progress.add_task(what, total=None)

        def tell(news: str, share: float | None = None) -> None:
            total = None if share is None else 1.0
            progress.update(task, description=f"{news} | {what}", total=total, completed=share)

        yield tell
