"""The retry policy: how many deaths of workers are accepted, and how long each wait is.

Work is tried again only if its worker died (killed, out of memory, machine lost). Work that ended
with an error is never tried again, because the same work gives the same error.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """Every number that decides about a second attempt. Times are in seconds."""

    # Workers that may die over the same work before it is given up: a job of the service, a piece
    # of a batch, a step of a solve on a cluster. One death can be an accident (a machine was
    # switched off) and two can be bad luck; the third says that the work itself kills its worker,
    # usually because it needs too much memory.
    deaths: int = 3
    # Workers that may die in a row before they were ready for work, before the service reports that
    # it is not ready. Lower than `deaths`: no job is at fault, so the operator has to act.
    cold_deaths: int = 2
    # Wait before the next worker is started after one that died before it was ready.
    cold_pause_s: float = 2.0
    # How long a solve waits until all machines of a cluster have free cores. A busy cluster is
    # often free within a minute; after that the user should decide.
    placing_s: float = 60.0
    # How long a lost member of a solve waits for a machine with as many free cores. Shorter than
    # `placing_s`: all other members wait too, and it can share a machine instead.
    replacing_s: float = 15.0
    # Attempts to reach the head of a cluster before it counts as lost, and the wait between two of
    # them. Five seconds cover a restart of its network; Ray ends the process after a minute.
    head_probes: int = 5
    head_pause_s: float = 1.0
    # Silence of a cluster after which the service reports that it is not ready: ten times the
    # interval at which the gateway reports.
    cluster_silent_s: float = 10.0
    # Silence after which the gateway process is replaced: a slow cluster gets more time than the
    # report to the operator.
    gateway_lost_s: float = 30.0
    # Least time between the starts of two gateway processes.
    gateway_pause_s: float = 5.0
    # How often a server reports that it runs, and removes what is old.
    housekeeping_s: float = 5.0
    # Silence of a server after which another one takes over its jobs: three rounds of housekeeping.
    server_silent_s: float = 15.0
    # How long the result of a solve is kept in memory while the database does not answer. Longer
    # than a restart of a database takes, because a solve can be the work of minutes.
    database_away_s: float = 600.0


RETRY = RetryPolicy()
