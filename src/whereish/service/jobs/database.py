"""The database: an embedded SQLite file, or PostgreSQL, with the same statements for both."""

from __future__ import annotations

import contextlib
import logging
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from whereish.errors import InputError, WhereishError
from whereish.service.jobs.reserve import LEAST, Reserve
from whereish.service.jobs.tables import create_tables
from whereish.service.limits import FIXED

_T = TypeVar("_T")

_START_BYTES = 2**20  # space that a server needs to start: logs of SQLite and their indexes
_log = logging.getLogger("whereish.database")


class DatabaseError(WhereishError):
    """The database does not answer, or cannot run a statement now."""


class DiskFullError(DatabaseError):
    """The disk of the database is full."""


class Database:
    """A pool of connections to either database."""

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
        self._permits = threading.Semaphore(FIXED.database_connections)
        if self.embedded and shutil.disk_usage(folder).free < _START_BYTES:
            _log.warning("the disk is full: jobs can be deleted, but nothing else; free some space")
            self._give_up_reserve()
        try:
            self.erase(self._create_tables)
        except DiskFullError:
            raise InputError(
                f"the disk of {folder if url is None else 'the database'} must have some space to "
                "start a server, and it is full"
            ) from None
        except DatabaseError:
            raise InputError(
                "database must be a PostgreSQL that can be reached and written: check the URL, the "
                "password, and that the server runs"
                if url
                else f"folder must hold a database that can be written, and {folder} does not"
            ) from None
        if self.embedded:
            Path(self._url).chmod(0o600)
            if not self._given_up:  # otherwise deletions may need the space first
                self.keep_reserve()

    def _create_tables(self, run: Any) -> None:
        if not self.embedded:
            run("SELECT pg_advisory_xact_lock(7734)")  # several servers may start at once
        create_tables(run, self.embedded)

    def _connect(self) -> Any:
        if self.embedded:
            made = sqlite3.connect(
                self._url, FIXED.database_lock_s, isolation_level=None, check_same_thread=False
            )
            # Deleted data is overwritten; committed data survives a power failure.
            settings = "auto_vacuum=FULL journal_mode=WAL synchronous=FULL secure_delete=ON"
            for setting in settings.split():
                made.execute(f"PRAGMA {setting}")
            return made
        import psycopg

        return psycopg.connect(
            self._url, autocommit=True, connect_timeout=5, tcp_user_timeout=10_000,
            keepalives_idle=10, keepalives_interval=3, keepalives_count=3,
            options=f"-c statement_timeout={1000 * FIXED.database_s:.0f}",
        )  # fmt: skip

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if not self._permits.acquire(timeout=FIXED.database_lock_s):
            raise DatabaseError("the database is too busy")
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self._connect()
            try:
                yield connection
            except WhereishError:
                self._idle.put(connection)  # it was rolled back
                raise
            except BaseException as wrong:
                if self.embedded and _is_full(wrong) and not connection.in_transaction:
                    # Without any connection SQLite deletes the files of its write-ahead log, and
                    # to make them again, even for reading, it needs space.
                    self._idle.put(connection)
                else:  # its state is unknown, and a new connection is cheap
                    connection.close()
                raise
            self._idle.put(connection)
        except self._errors as wrong:
            if _is_full(wrong):
                raise DiskFullError("the disk is full") from None
            # Other idle connections may be broken as well.
            self._close_idle()
            raise DatabaseError("the database does not answer") from None
        finally:
            self._permits.release()

    def _close_idle(self) -> None:
        while not self._idle.empty():
            with contextlib.suppress(queue.Empty):
                self._idle.get_nowait().close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a function that runs statements in one transaction."""
        with self._connection() as connection:
            cursor = connection.cursor()

            def run(statement: str, values: Sequence[Any] = ()) -> Any:
                return cursor.execute(self._dialect(statement), values)

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
        with self._connection() as connection:
            found = connection.execute(self._dialect(statement), values)
            return [tuple(row) for row in found.fetchall()]

    def write(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and return the number of rows it changed."""
        with self._connection() as connection:
            return int(connection.execute(self._dialect(statement), values).rowcount)

    def erase(self, work: Callable[[Any], _T]) -> _T:
        """Run deletions in a transaction, and free the reserve for them if the disk is full."""
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
        """Reserve enough space to delete the largest file."""
        if self._reserve is not None:
            self._given_up = False
            ((largest,),) = self.read("SELECT COALESCE(MAX(LENGTH(file)), 0) FROM jobs")
            self._reserve.fill(LEAST + 2 * int(largest))

    def wipe(self) -> bool:
        """Remove deleted data from the write-ahead log.

        Return False if another connection was reading: then it has to be called again.
        """
        if not self.embedded:
            return True
        with self._connection() as connection:
            ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if self._given_up and not busy:
            self.keep_reserve()  # before another program takes the space
        return not busy

    @property
    def now(self) -> str:
        """The SQL expression for the time: the clock of the database, the same for all servers."""
        if self.embedded:
            return "(julianday('now') - 2440587.5) * 86400.0"
        return "EXTRACT(EPOCH FROM clock_timestamp())"

    def _dialect(self, statement: str) -> str:
        return statement if self.embedded else statement.replace("?", "%s")


def _is_full(wrong: BaseException) -> bool:
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
    return (
        getattr(wrong, "sqlite_errorcode", None) in full
        or getattr(wrong, "sqlstate", None) == "53100"
    )
