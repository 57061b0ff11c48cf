"""Logs: a line of JSON each, with the request it belongs to, and nothing of anybody's."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from contextvars import ContextVar
from datetime import UTC, datetime

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
LEVELS = ("debug", "info", "warning", "error")
_LONG_ID = re.compile(r"\b([A-Za-z0-9_-]{8})[A-Za-z0-9_-]{16}\b")
_AGAIN_S = 5.0
_EXTRAS = ("method", "route", "status", "seconds", "job")


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON.

    Of an exception it tells the kind and where it was, and not its text, which may hold anything.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := request_id.get()) is not None:
            told["request_id"] = request
        told |= {name: record.__dict__[name] for name in _EXTRAS if name in record.__dict__}
        if record.exc_info and record.exc_info[1] is not None:
            told["error"] = type(record.exc_info[1]).__name__
            told["at"] = where(record.exc_info[1])
        return json.dumps(told)


def where(wrong: BaseException) -> list[str]:
    """Return the places in the code that an error came through."""
    frames = traceback.extract_tb(wrong.__traceback__)[-6:]
    return [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames]


class Discreet(logging.Filter):
    """Makes ids in others' messages short, and says the same thing once in five seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is logged."""
        now = record.created
        if now - self._said.get(str(record.msg)[:60], 0.0) < _AGAIN_S:
            return False
        self._said[str(record.msg)[:60]] = now
        # Only the first line: what follows may be a whole traceback, with its values.
        plain = _LONG_ID.sub(r"\1", record.getMessage().splitlines()[0] if record.msg else "")
        record.msg, record.args = plain[:300], ()
        return True


def start_logging(level: str) -> None:
    """Send all logs, ours and others', to standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in (
        ("dbos", logging.WARNING),
        ("sqlalchemy", logging.WARNING),
        ("numba", logging.WARNING),
        ("matplotlib", logging.WARNING),
    ):
        other = logging.getLogger(name)
        other.handlers[:] = [handler] if name == "dbos" else []
        other.propagate = name != "dbos"
        if name == "dbos":
            other.addFilter(Discreet())
        # Whatever level is asked for: others do not know what is personal.
        other.setLevel(max(root.level, least))
