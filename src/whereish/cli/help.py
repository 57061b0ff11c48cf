"""The help of a command: plain text, options in named groups, about a screen long.

And its usage errors, which name what is wrong without repeating a number. Someone may give the
point where they are as an argument by mistake; the error goes to the terminal and to logs.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand, TyperGroup

_WORDS = {"int": "N", "integer": "N", "float": "NUMBER", "str": "TEXT", "path": "PATH"}
_WIDEST = 24  # columns of the left side
_UsageError: type[Any] = BadParameter.__mro__[1]  # the parent of all errors of an argument
_WITH_DIGIT = re.compile(r"[^\s'\"()\[\]]*\d[^\s'\"()\[\]]*")
_NOT_SHOWN = "not shown, as it may be a place"

Rows = list[tuple[str, str]]


class Command(TyperCommand):
    """A command whose options are listed by their `rich_help_panel`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments, then the options that are required."""
        arguments, options = [], []
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                name = _name(param, ctx)
                arguments.append(name if param.required else f"[{name}]")
            elif param.required:
                options.append(f"{min(param.opts, key=len)} {_value(param, ctx)}")
        return [*arguments, *options, "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options in groups."""
        _write(formatter, _options(self, ctx))


@contextmanager
def _redacted() -> Iterator[None]:
    """Leave every word with a digit out of a usage error."""
    try:
        yield
    except _UsageError as wrong:
        wrong.message = _WITH_DIGIT.sub(_NOT_SHOWN, wrong.message)
        raise


class Group(TyperGroup):
    """A command with commands below it, listed by their `rich_help_panel`."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments before the name of a command."""
        with _redacted():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the arguments of a command, and run it."""
        with _redacted():
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the name: a command."""
        return ["COMMAND", "..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups, then the options."""
        commands: dict[str, Rows] = {}
        for name in self.list_commands(ctx):
            found: Any = self.get_command(ctx, name)
            panel = getattr(found, "rich_help_panel", None)
            panel = panel if isinstance(panel, str) else "Commands"
            commands.setdefault(panel, []).append((name, _first_sentence(found.help or "")))
        _write(formatter, commands)
        _write(formatter, _options(self, ctx))


def _options(command: Any, ctx: Any) -> dict[str, Rows]:
    """Return the rows of each group of parameters; arguments first, ungrouped options last."""
    groups: dict[str, Rows] = {"Arguments": []}
    last: Rows = []
    for param in command.get_params(ctx):
        # --show-completion works and is not listed: --install-completion is what people need.
        if param.hidden or param.name == "show_completion":
            continue
        row = (_name(param, ctx), " ".join(filter(None, (param.help, _after(param)))))
        panel = getattr(param, "rich_help_panel", None)
        if param.param_type_name == "argument":
            groups["Arguments"].append(row)
        elif isinstance(panel, str):
            groups.setdefault(panel, []).append(row)
        else:
            last.append(row)
    return {**groups, "Options" if len(groups) == 1 else "Other": last}


def _name(param: Any, ctx: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper()).strip("[]")
    # Short names, with one dash, come first.
    names = sorted([*param.opts, *param.secondary_opts], key=lambda name: name.startswith("--"))
    return ", ".join(names) if param.is_flag else f"{', '.join(names)} {_value(param, ctx)}"


def _value(param: Any, ctx: Any) -> str:
    """Return the word that stands for the value of an option."""
    if param.metavar:
        return str(param.metavar)
    named = getattr(param, "display_type", None)
    kind = str(named(ctx) if named is not None else param.type.name).strip("<>").lower()
    return _WORDS.get(kind, kind.upper())


def _after(param: Any) -> str:
    """Return what follows the help of an option: its variable, its default, if it is required."""
    if param.param_type_name == "argument":
        return ""
    default, notes = param.default, []
    if param.show_envvar and param.envvar:
        notes.append(f"variable: {param.envvar}")
    if param.required:
        notes.append("required")
    elif param.show_default and isinstance(default, int | float | str) and not param.is_flag:
        shown = f"{default:g}" if isinstance(default, float) else default
        notes.append(f"default: {shown}")
    return f"[{'; '.join(notes)}]" if notes else ""


def _first_sentence(text: str) -> str:
    sentence, stop, _ = text.replace("\n", " ").partition(". ")
    return sentence + ("." if stop else "")


def _write(formatter: Any, groups: dict[str, Rows]) -> None:
    """Write groups of rows in two columns, as wide in every group."""
    filled = {heading: rows for heading, rows in groups.items() if rows}
    lengths = [len(name) for rows in filled.values() for name, _ in rows]
    left = max(length for length in lengths if length <= _WIDEST)
    if not formatter.getvalue().endswith(":\n"):
        formatter.write("\n")
    for heading, rows in filled.items():
        formatter.write(f"{heading}:\n")
        for name, text in rows:
            lines = textwrap.wrap(
                text, formatter.width - left - 4, break_long_words=False, break_on_hyphens=False
            )
            if len(name) > left:
                formatter.write(f"  {name}\n")
                name = ""
            for line in lines or [""]:
                formatter.write(f"  {name:<{left}}  {line}".rstrip() + "\n")
                name = ""
