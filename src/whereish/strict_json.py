"""JSON as the standard has it: no NaN, no name twice, nothing that takes long to read."""

from __future__ import annotations

import json
import re
from typing import Any

from whereish.errors import InputError
from whereish.limits import MOST_EMPTY, MOST_LISTS

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"), (int | float, "a number"), (str, "a text"), (list, "a list"),
    (dict, "an object"), (type(None), "null"),
)  # fmt: skip


def read_json(text: bytes | str) -> Any:
    """Read JSON strictly. What is wrong with it is said without repeating any of it.

    An InputError has the field "body", or the name that was given twice.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        _check_shape(raw.translate(None, b" \t\r\n"))
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except InputError:
        raise
    except RecursionError:
        raise InputError("a recipe must not be nested as deeply as this one", "body") from None
    except UnicodeDecodeError:
        raise InputError("a recipe must be JSON in UTF-8", "body") from None
    except json.JSONDecodeError as wrong:
        where = f"line {wrong.lineno}, column {wrong.colno}"
        raise InputError(f"a recipe must be JSON: it stops being so at {where}", "body") from None
    except ValueError:
        raise InputError("a recipe's whole numbers must have fewer digits", "body") from None


def _check_shape(text: bytes) -> None:
    """Refuse, before it is parsed, what is no description but would take long to parse."""
    if b"[[[" in text or text.count(b"[]") > MOST_EMPTY or text.count(b"{}") > MOST_EMPTY:
        raise InputError("a recipe must not be lists in lists in lists, or empty ones", "body")
    if text.count(b"[") > MOST_LISTS or text.count(b"{") > MOST_LISTS:
        raise InputError(f"a recipe must have at most {MOST_LISTS:,} lists", "body")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{shown(name)} must be given once, and it is twice", shown(name))
        found[name] = value
    return found


def _no_constant(word: str) -> Any:
    raise InputError(f"a recipe must be JSON, which knows no {word}", "body")


def shown(name: object) -> str:
    """Return a name if it is one, and not a number or a text that somebody sent.

    >>> shown("prior"), shown("48.85")
    ('prior', 'a name')
    """
    return name if isinstance(name, str) and _NAME.fullmatch(name) else "a name"


def kind_of(value: Any) -> str:
    """Say what kind of thing came, and nothing of what it holds.

    >>> kind_of([48.85, 2.35]), kind_of(None), kind_of(object())
    ('a list', 'null', 'of type object')
    """
    known = (word for kind, word in _KINDS if isinstance(value, kind))
    return next(known, f"of type {type(value).__name__}")


def as_object(
    what: str, value: Any, field: str, known: tuple[str, ...], *, exactly_one: bool = False
) -> dict[str, Any]:
    """Check that a value is a JSON object with known names only."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must be an object, got {kind_of(value)}", field)
    for name in value:
        if name not in known:
            some = f"{field}.{shown(name)}"
            raise InputError(f"{some} is not known: {what} may have {', '.join(known)}", some)
    if exactly_one and len(value) != 1:
        raise InputError(f"{what} must have {' or '.join(known)}, and not both", field)
    return value
