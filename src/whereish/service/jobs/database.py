"""The database: an embedded SQLite file, or PostgreSQL, with the same few statements for both."""

from __future__ import annotations

import contextlib
import logging
import queue
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from whereish.errors import InputError, WhereishError
from whereish.service.jobs.reserve import LEAST, Reserve

_T = TypeVar("_T")

# {bytes} is what a database calls bytes.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS jobs (
        client TEXT NOT NULL, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL,
        about TEXT NOT NULL, recipe {bytes}, progress TEXT, error TEXT,
        deaths INTEGER NOT NULL DEFAULT 0, owner TEXT, etag TEXT, file {bytes},
        PRIMARY KEY (client, id))""",
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, changed)",
    """CREATE TABLE IF NOT EXISTS once (
        client TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, job TEXT NOT NULL,
        PRIMARY KEY (client, name))""",
    "CREATE INDEX IF NOT EXISTS once_by_job ON once (job)",
    """CREATE TABLE IF NOT EXISTS keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS servers (name TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL)",
    # Jobs that were deleted where no queue was, for a server to forget what it knows of them.
    "CREATE TABLE IF NOT EXISTS gone (id TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS sealed_with (digest TEXT PRIMARY KEY)",
    # That there have been keys, for good: revoking the last one opens nothing.
    "CREATE TABLE IF NOT EXISTS closed (since DOUBLE PRECISION PRIMARY KEY)",
)
_CONNECTIONS = 8
_PATIENCE_S = 20.0
_START_BYTES = 2**20  # room that a server needs to start: SQLite's logs and indexes of them
_log = logging.getLogger("whereish.database")


class DatabaseError(WhereishError):
    """The database does not answer, or cannot do what it is asked for now."""


class DiskFullError(DatabaseError):
    """There is no room on the database's disk."""


class Database:
    """A pool of connections that speak either dialect."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.embedded = url is None
        if url is None:
            self._errors: tuple[type[Exception], ...] = (sqlite3.OperationalError,)
        else:
            from psycopg import Error

            self._errors = (Error,)
        self._url = str(folder / "whereish.sqlite") if url is None else url
        self._reserve = Reserve(folder / "reserve") if url is None else None
        self._given_up = False
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()
        self._room = queue.LifoQueue[None]()
        for _ in range(_CONNECTIONS):
            self._room.put(None)
        if self.embedded and shutil.disk_usage(folder).free < _START_BYTES:
            _log.warning("the disk is full: jobs can be deleted, and nothing else; free some room")
            self._give_up_reserve()
        try:
            self.erase(self._make_tables)
        except DiskFullError:
            raise InputError(
                f"the disk of {folder if url is None else 'the database'} must have some room to "
                "start a server, and it is full"
            ) from None
        except DatabaseError:
            raise InputError(
                "database must be a PostgreSQL that can be reached and written, and it cannot: "
                "check the URL, the password and that the server runs"
                if url
                else f"folder must hold a database that can be written, and {folder} does not"
            ) from None
        if self.embedded:
            Path(self._url).chmod(0o600)
            if not self._given_up:  # otherwise the queue needs the room to start
                self.keep_reserve()

    def _make_tables(self, run: Any) -> None:
        if not self.embedded:
            run("SELECT pg_advisory_xact_lock(7734)")  # servers may start together
        for statement in _TABLES:
            run(statement.replace("{bytes}", "BLOB" if self.embedded else "BYTEA"))

    def _connect(self) -> Any:
        if self.embedded:
            made = sqlite3.connect(
                self._url, timeout=_PATIENCE_S, isolation_level=None, check_same_thread=False
            )
            # What is deleted is overwritten; what is committed survives the power.
            for pragma in (
                "auto_vacuum=FULL",
                "journal_mode=WAL",
                "synchronous=FULL",
                "secure_delete=ON",
            ):
                made.execute(f"PRAGMA {pragma}")
            return made
        import psycopg

        return psycopg.connect(
            self._url, autocommit=True, connect_timeout=5, tcp_user_timeout=10_000,
            keepalives_idle=10, keepalives_interval=3, keepalives_count=3,
            options="-c statement_timeout=15000",
        )  # fmt: skip

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            self._room.get(timeout=_PATIENCE_S)
        except queue.Empty:
            raise DatabaseError("the database is too busy") from None
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self._connect()
            try:
                yield connection
            except WhereishError:
                self._idle.put(connection)  # what was refused was rolled back
                raise
            except BaseException:
                # Who knows in what state it is: a new one costs little.
                connection.close()
                raise
            self._idle.put(connection)
        except self._errors as wrong:
            if _is_full(wrong):
                raise DiskFullError("the disk is full") from None
            # When the server was gone, the others do not know it yet.
            self._forget_idle()
            raise DatabaseError("the database does not answer") from None
        finally:
            self._room.put(None)

    def _forget_idle(self) -> None:
        while not self._idle.empty():
            with contextlib.suppress(queue.Empty):
                self._idle.get_nowait().close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a function that runs statements, all or none of which happen."""
        with self._connection() as connection:
            cursor = connection.cursor()

            def run(statement: str, values: Sequence[Any] = ()) -> Any:
                return cursor.execute(self._spoken(statement), values)

            cursor.execute("BEGIN IMMEDIATE" if self.embedded else "BEGIN")
            try:
                yield run
                cursor.execute("COMMIT")
            except BaseException:
                if self.embedded or not connection.closed:
                    with contextlib.suppress(*self._errors):
                        cursor.execute("ROLLBACK")
                raise

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._connection() as connection:
            found = connection.execute(self._spoken(statement), values)
            return [tuple(row) for row in found.fetchall()]

    def write(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it touched."""
        with self._connection() as connection:
            return int(connection.execute(self._spoken(statement), values).rowcount)

    def erase(self, work: Callable[[Any], _T]) -> _T:
        """Run what deletes in a transaction, and give up the reserve for it if the disk is full."""
        try:
            with self.transaction() as run:
                return work(run)
        except DiskFullError:
            if self._reserve is None:
                raise
            self._give_up_reserve()
            with self.transaction() as run:
                return work(run)

    def _give_up_reserve(self) -> None:
        if self._reserve is not None:
            self._reserve.release()
            self._given_up = True

    def keep_reserve(self) -> None:
        """Keep enough room to delete the largest file."""
        if self._reserve is not None:
            self._given_up = False
            ((largest,),) = self.read("SELECT COALESCE(MAX(LENGTH(file)), 0) FROM jobs")
            self._reserve.fill(LEAST + 2 * int(largest))

    def wipe(self) -> bool:
        """See to it that nothing deleted can be read from the files any more.

        Return False if somebody was reading just then: it has to be done again.
        """
        if not self.embedded:
            return True
        with self._connection() as connection:
            ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if self._given_up and not busy:
            self.keep_reserve()  # before somebody else takes the room
        return not busy

    @property
    def now(self) -> str:
        """What a statement calls the time: one clock for all servers."""
        if self.embedded:
            return "(julianday('now') - 2440587.5) * 86400.0"
        return "EXTRACT(EPOCH FROM clock_timestamp())"

    def _spoken(self, statement: str) -> str:
        return statement if self.embedded else statement.replace("?", "%s")


def _is_full(wrong: Exception) -> bool:
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
    return (
        getattr(wrong, "sqlite_errorcode", None) in full
        or getattr(wrong, "sqlstate", None) == "53100"
    )
