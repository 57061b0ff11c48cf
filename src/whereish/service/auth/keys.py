"""API keys: shown once, stored as a digest (key hashing), compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from whereish.errors import InputError
from whereish.service.jobs.database import Database

# The client of all requests as long as there are no keys: users of this machine.
ANYONE = "local"
_KEY = re.compile(r"wh_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[\w .@-]{1,60}")
_FRESH_S = 1.0


@dataclass(frozen=True)
class Key:
    """What is stored about a key, without the key itself."""

    id: str
    name: str
    created: str


class Keys:
    """The keys of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, str] = {}
        self._auth_required = False
        self._read_at = -math.inf

    def add(self, name: str) -> str:
        """Make a key and return it. It cannot be shown again, because only a digest is stored."""
        if not _NAME.fullmatch(name):
            raise InputError("name must be 1 to 60 letters, digits, spaces or . @ _ -")
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._database.transaction() as run:
            if run("SELECT 1 FROM keys WHERE name = ?", (name,)).fetchall():
                raise InputError(f"name must be new, and there is a key named {name!r} already")
            now = time.time()
            run("INSERT INTO keys VALUES (?, ?, ?, ?)", (id_, name, _digest(secret), now))
            if not run("SELECT 1 FROM auth_required").fetchall():
                run("INSERT INTO auth_required VALUES (?)", (now,))
        return f"wh_{id_}_{secret}"

    def list(self) -> list[Key]:
        """Return the keys, oldest first."""
        rows = self._database.read("SELECT id, name, created FROM keys ORDER BY created, id")
        return [
            Key(id_, name, datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"))
            for id_, name, at in rows
        ]

    def revoke(self, name: str) -> None:
        """Delete a key, by its name or id, with all its jobs. Servers refuse it within a second."""

        def work(run: Any) -> None:
            found = run("SELECT id FROM keys WHERE name = ? OR id = ?", (name, name)).fetchall()
            if not found:
                raise InputError("name must be that of a key: whereish keys list shows them")
            for (id_,) in found:
                run("DELETE FROM keys WHERE id = ?", (id_,))
                run(
                    "INSERT INTO deleted_jobs SELECT id FROM jobs WHERE client = ? "
                    "ON CONFLICT DO NOTHING",
                    (id_,),
                )
                run("DELETE FROM idempotency_keys WHERE client = ?", (id_,))
                run("DELETE FROM jobs WHERE client = ?", (id_,))

        self._database.erase(work)
        self._database.wipe()

    @property
    def exist(self) -> bool:
        return bool(self._known)

    @property
    def needed(self) -> bool:
        """Whether requests need a key: always after the first key was made."""
        return self._auth_required

    def stale(self) -> bool:
        """Return whether it is time to read the keys again."""
        return time.monotonic() - self._read_at > _FRESH_S

    def refresh(self) -> None:
        self._auth_required = bool(self._database.read("SELECT 1 FROM auth_required"))
        self._known = dict(self._database.read("SELECT id, digest FROM keys"))
        self._read_at = time.monotonic()

    def client(self, key: str) -> str | None:
        """Return the client of a key, or None. The time does not depend on whether it is known."""
        match = _KEY.fullmatch(key)
        id_, secret = match.groups() if match else ("", "")
        expected = self._known.get(id_, "0" * 64)
        right = hmac.compare_digest(expected, _digest(secret))
        return id_ if right and id_ in self._known else None


def _digest(secret: str) -> str:
    # 256 random bits cannot be guessed, so a slow digest is not needed.
    return hashlib.sha256(secret.encode()).hexdigest()
