"""Logs: one JSON document on each line, with the id of the request, without personal data."""

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

    Of an exception it logs the type and the place in the code, but not the text, which may hold
    personal data.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request := request_id.get()) is not None:
            line["request_id"] = request
        line |= {name: record.__dict__[name] for name in _EXTRAS if name in record.__dict__}
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = type(record.exc_info[1]).__name__
            line["at"] = where(record.exc_info[1])
        return json.dumps(line)


def where(wrong: BaseException) -> list[str]:
    """Return the places in the code from which an error came."""
    frames = traceback.extract_tb(wrong.__traceback__)[-6:]
    return [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames]


class RedactingFilter(logging.Filter):
    """Shortens ids in messages of libraries, and logs a repeated message every five seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = record.created
        if now - self._logged.get(str(record.msg)[:60], 0.0) < _AGAIN_S:
            return False
        self._logged[str(record.msg)[:60]] = now
        # Only the first line: a traceback with values may follow.
        plain = _LONG_ID.sub(r"\1", record.getMessage().splitlines()[0] if record.msg else "")
        record.msg, record.args = plain[:300], ()
        return True


def start_logging(level: str) -> None:
    """Send all logs, also those of libraries, to standard error as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    other = logging.getLogger("matplotlib")
    other.handlers[:] = []
    other.addFilter(RedactingFilter())
    # Never more detailed than this: libraries do not know which data is personal.
    other.setLevel(max(root.level, logging.WARNING))
