"""Write docs/errors.md from the code: error types and exit codes.

``python tools/errors_reference.py`` writes the page; a test checks that it is up to date.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from whereish import errors
from whereish.cli import console
from whereish.errors import WhereishError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "errors.md"
# What a number means for a person; the numbers and who sets them are in whereish.cli.console.
MEANINGS = {
    "EXIT_INPUT": "the input cannot be used",
    "EXIT_NOT_SOLVED": "no solver had an answer, or one element of a batch was not built",
    "EXIT_GUARANTEE": "a promise of privacy does not hold: nothing is returned or written",
    "EXIT_BUDGET": "a report costs more than is left: nothing was reported",
    "EXIT_INTERRUPTED": "interrupted; no file is left half written",
}
_TEXT = """# Errors and exit codes

Made by `tools/errors_reference.py`. A message says what must hold, what came, and what to do next.
It never holds a coordinate.

## Errors of Python

`whereish.WhereishError` is the base of all errors that the library raises on purpose. The command
line prints the message in one line and ends with the exit code.

{types}

## Exit codes

[The commands](cli.md#exit-codes) say more.

{exits}

## Errors of the service

The codes of the service and of its jobs are with [the HTTP API](http.md#errors).

## Errors of the JavaScript client

{javascript}
"""


def error_types() -> list[type[WhereishError]]:
    """Return all error types of the library, the base first."""
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
    kinds = [one for one in found if issubclass(one, WhereishError)]
    return sorted(kinds, key=lambda kind: (len(kind.__mro__), kind.__name__))


def exit_codes() -> dict[str, int]:
    """Return the exit codes of the command line by their names."""
    return {name: value for name, value in vars(console).items() if name.startswith("EXIT_")}


def javascript_errors() -> dict[str, str]:
    """Return the error types that the JavaScript client exports, with their bases."""
    found: dict[str, str] = {}
    for file in sorted((PAGE.parent.parent / "clients" / "js").glob("*.d.ts")):
        found |= dict(re.findall(r"^export class (\w+) extends (\w*Error)", file.read_text(), re.M))
    return found


def _first_line(kind: type[Exception]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def page() -> str:
    """Return the page of now."""
    types = ["| error | is a | exit code | meaning |", "| --- | --- | --- | --- |"]
    for kind in error_types():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        code = next(code for base, code in console.ERROR_CODES if issubclass(kind, base))
        types.append(f"| `{kind.__name__}` | {bases} | {code} | {_first_line(kind)} |")
    exits = ["| code | meaning |", "| --- | --- |", "| 0 | done |"]
    exits += [f"| {code} | {MEANINGS[name]} |" for name, code in exit_codes().items()]
    script = ["| error | is a |", "| --- | --- |"]
    script += [f"| `{name}` | `{base}` |" for name, base in javascript_errors().items()]
    return _TEXT.format(
        types="\n".join(types), exits="\n".join(exits), javascript="\n".join(script),
    )  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page())
