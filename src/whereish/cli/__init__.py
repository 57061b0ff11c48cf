"""The command line: one file for each command, in groups by what a person wants to do.

Exit codes: 0 ok, 2 input, 3 not solved, 4 guarantee failed, 5 over budget, 130 interrupted.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer

from whereish import __version__
from whereish.cli import help as help_
from whereish.cli.attack import attack
from whereish.cli.audit import audit
from whereish.cli.batch import batch
from whereish.cli.build import build
from whereish.cli.clear_cache import clear_cache
from whereish.cli.compare import compare
from whereish.cli.console import EXIT_INTERRUPTED
from whereish.cli.demo import demo
from whereish.cli.ledger import ledger_app
from whereish.cli.map import map_
from whereish.cli.measure import measure
from whereish.cli.metric import metric
from whereish.cli.obfuscate import obfuscate
from whereish.cli.options import option
from whereish.cli.plot import plot
from whereish.cli.profile import profile
from whereish.cli.report import report
from whereish.cli.reproduce import reproduce
from whereish.cli.serve import keys_app, serve
from whereish.cli.sign import sign
from whereish.cli.spanner import spanner
from whereish.cli.study import study_app
from whereish.cli.synthetic_city import synthetic_city

Entry = Callable[..., Any] | typer.Typer  # a command, or a group of commands
# A new command is one file and one entry here.
COMMANDS: dict[str, dict[str, Entry]] = {
    "Start here": {"demo": demo},
    "Make a profile": {
        "profile": profile,
        "synthetic-city": synthetic_city,
        "map": map_,
        "metric": metric,
        "clear-cache": clear_cache,
    },
    "Build mechanisms": {"build": build, "batch": batch, "sign": sign},
    "Judge a mechanism": {
        "measure": measure,
        "compare": compare,
        "attack": attack,
        "audit": audit,
        "plot": plot,
        "spanner": spanner,
    },
    "Hide a location": {"report": report, "obfuscate": obfuscate, "ledger": ledger_app},
    "Run a service": {"serve": serve, "keys": keys_app},
    "Reproduce and study": {"reproduce": reproduce, "study": study_app},
}
# Names of earlier versions, of commands and options: they still work, and help does not show them.
OLD_NAMES = {
    "city": "synthetic-city",
    "forget": "clear-cache",
    "paper": "reproduce",
    "form": "formulation",
    "interest": "radius-of-interest",
    "one-person": "merge-users",
}

app = typer.Typer(
    name="whereish",
    cls=help_.Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    # A traceback must not show the values of variables: a prior is personal.
    pretty_exceptions_show_locals=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: OLD_NAMES.get(name, name),
    },
)


def _help(function: Callable[..., Any]) -> str:
    """Return what a command does, its lines joined: the terminal breaks them where it must."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for panel, entries in COMMANDS.items():
    for name, entry in entries.items():
        if isinstance(entry, typer.Typer):
            for below in entry.registered_commands:
                below.cls, below.help = help_.Command, below.callback and _help(below.callback)
            app.add_typer(entry, name=name, cls=help_.Group, rich_help_panel=panel)
        else:
            app.command(name, help=_help(entry), cls=help_.Command, rich_help_panel=panel)(entry)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"whereish {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = option(
        False, "Print the version.", None, None, "--version", is_eager=True, callback=_version
    ),
) -> None:
    """Tell services where-ish you are, with a proof. See COMMAND --help."""


def main() -> None:
    """Run the command line."""
    # Being ended politely is being interrupted: nothing is left half written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(prog_name="whereish")
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
