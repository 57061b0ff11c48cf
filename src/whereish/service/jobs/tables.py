"""The tables of the service, and the changes that a database of an earlier version needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# {bytes} is the type of bytes in each database.
_TABLES = (
    """CREATE TABLE IF NOT EXISTS jobs (
        client TEXT NOT NULL, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL,
        about TEXT NOT NULL, recipe {bytes}, progress TEXT, error TEXT,
        deaths INTEGER NOT NULL DEFAULT 0, owner TEXT, etag TEXT, file {bytes},
        priority INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (client, id))""",
    "CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, changed)",
    """CREATE TABLE IF NOT EXISTS idempotency_keys (
        client TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, job TEXT NOT NULL,
        PRIMARY KEY (client, name))""",
    "CREATE INDEX IF NOT EXISTS idempotency_keys_by_job ON idempotency_keys (job)",
    """CREATE TABLE IF NOT EXISTS keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS servers (name TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL)",
    # Ids of jobs that `whereish keys revoke` has deleted: a server may have them in memory.
    "CREATE TABLE IF NOT EXISTS deleted_jobs (id TEXT PRIMARY KEY)",
    # A digest of the secret with which recipes and files are sealed.
    "CREATE TABLE IF NOT EXISTS sealed_with (digest TEXT PRIMARY KEY)",
    # One row once the first key was made: deleting the last key does not open the service.
    "CREATE TABLE IF NOT EXISTS auth_required (since DOUBLE PRECISION PRIMARY KEY)",
)
# Names of earlier versions.
_RENAMED = {"once": "idempotency_keys", "gone": "deleted_jobs", "closed": "auth_required"}


def create_tables(run: Callable[..., Any], embedded: bool) -> None:
    """Create the tables that are missing, in a transaction, after renaming old ones."""
    if embedded:
        listed = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        listed = (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
    existing = {name for (name,) in run(listed).fetchall()}
    for old, new in _RENAMED.items():
        if old in existing and new not in existing:
            run(f"ALTER TABLE {old} RENAME TO {new}")
    run("DROP INDEX IF EXISTS once_by_job")  # SQLite cannot rename an index
    if "jobs" in existing:
        columns = {column[0] for column in run("SELECT * FROM jobs LIMIT 0").description}
        if "priority" not in columns:
            run("ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0")
    if not embedded:
        _clear_former_queue(run)
    for statement in _TABLES:
        run(statement.replace("{bytes}", "BLOB" if embedded else "BYTEA"))


def _clear_former_queue(run: Callable[..., Any]) -> None:
    """Remove ids of jobs from the queue of the earlier version (DBOS), if it is there."""
    ((table,),) = run("SELECT to_regclass('dbos.workflow_status')::text").fetchall()
    if table is not None:
        run("DELETE FROM dbos.workflow_status WHERE name = 'build' AND queue_name = 'builds'")
