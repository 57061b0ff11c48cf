"""The command line: a thin door to the library.

Exit codes: 0 ok, 2 input, 3 not solved, 4 guarantee failed, 5 over budget, 130 interrupted.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from whereish import __version__
from whereish.cli import commands
from whereish.cli.batch import batch
from whereish.cli.city import city, forget
from whereish.cli.console import EXIT_INTERRUPTED
from whereish.cli.demo import demo
from whereish.cli.device import ledger_app, report
from whereish.cli.paper import paper
from whereish.cli.profile import profile
from whereish.cli.release import audit, obfuscate
from whereish.cli.serve import keys_app, serve
from whereish.cli.sign import sign
from whereish.cli.usage import RedactingGroup

app = typer.Typer(
    name="whereish",
    cls=RedactingGroup,
    no_args_is_help=True,
    # A traceback must not show the values of variables: a prior is personal.
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(function: Callable[..., object]) -> str:
    """Return what a command does, its lines joined: the terminal breaks them where it must."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for function in (
    profile,
    commands.build,
    commands.measure,
    commands.spanner,
    commands.compare,
    commands.plot,
    audit,
    sign,
    report,
    obfuscate,
    city,
    forget,
    paper,
    batch,
    serve,
    demo,
):
    app.command(help=_help(function))(function)
app.add_typer(ledger_app, name="ledger")
app.add_typer(keys_app, name="keys")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"whereish {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_version),
    ] = False,
) -> None:
    """Tell services where-ish you are, with a proof."""


def main() -> None:
    """Run the command line."""
    # Being ended politely is being interrupted: nothing is left half written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
