"""API keys: shown once, kept as a digest, compared in constant time."""

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

# Who a request comes from where no keys exist: whoever is on this machine.
ANYONE = "local"
_KEY = re.compile(r"wh_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[\w .@-]{1,60}")
_FRESH_S = 1.0


@dataclass(frozen=True)
class Key:
    """What is known of a key: not the key."""

    id: str
    name: str
    created: str


class Keys:
    """The keys of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, str] = {}
        self._closed = False
        self._read_at = -math.inf

    def add(self, name: str) -> str:
        """Make a key and return it. It cannot be shown again: only a digest is kept."""
        if not _NAME.fullmatch(name):
            raise InputError("name must be 1 to 60 letters, digits, spaces or . @ _ -")
        id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._database.transaction() as run:
            if run("SELECT 1 FROM keys WHERE name = ?", (name,)).fetchall():
                raise InputError(f"name must be new, and there is a key named {name!r} already")
            now = time.time()
            run("INSERT INTO keys VALUES (?, ?, ?, ?)", (id_, name, _digest(secret), now))
            if not run("SELECT 1 FROM closed").fetchall():
                run("INSERT INTO closed VALUES (?)", (now,))
        return f"wh_{id_}_{secret}"

    def list(self) -> list[Key]:
        """Return the keys, oldest first."""
        rows = self._database.read("SELECT id, name, created FROM keys ORDER BY created, id")
        return [
            Key(id_, name, datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"))
            for id_, name, at in rows
        ]

    def revoke(self, name: str) -> None:
        """Forget a key, by its name or id, with all its jobs: servers refuse it within a second."""

        def work(run: Any) -> None:
            found = run("SELECT id FROM keys WHERE name = ? OR id = ?", (name, name)).fetchall()
            if not found:
                raise InputError("name must be that of a key: whereish keys list shows them")
            for (id_,) in found:
                run("DELETE FROM keys WHERE id = ?", (id_,))
                run(
                    "INSERT INTO gone SELECT id FROM jobs WHERE client = ? ON CONFLICT DO NOTHING",
                    (id_,),
                )
                run("DELETE FROM once WHERE client = ?", (id_,))
                run("DELETE FROM jobs WHERE client = ?", (id_,))

        self._database.erase(work)
        self._database.wipe()

    @property
    def exist(self) -> bool:
        """Whether there are any."""
        return bool(self._known)

    @property
    def needed(self) -> bool:
        """Whether a key is asked for: from the first one on, for good."""
        return self._closed

    def stale(self) -> bool:
        """Whether it is time to look at the database again."""
        return time.monotonic() - self._read_at > _FRESH_S

    def refresh(self) -> None:
        """Look at the database."""
        self._closed = bool(self._database.read("SELECT 1 FROM closed"))
        self._known = dict(self._database.read("SELECT id, digest FROM keys"))
        self._read_at = time.monotonic()

    def client(self, key: str) -> str | None:
        """Return whose key it is, or None. It takes as long for one that is not known."""
        match = _KEY.fullmatch(key)
        id_, secret = match.groups() if match else ("", "")
        expected = self._known.get(id_, "0" * 64)
        right = hmac.compare_digest(expected, _digest(secret))
        return id_ if right and id_ in self._known else None


def _digest(secret: str) -> str:
    # 256 random bits need no slow digest: there is nothing to guess.
    return hashlib.sha256(secret.encode()).hexdigest()
