"""The table of jobs as a queue: each job has one owner, and no job is lost with its server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serving import recipe
from whereish.retries import RETRY
from whereish.service.jobs.database import Database
from whereish.service.jobs.model import DONE, PARKED, QUEUED, RUNNING
from whereish.service.jobs.sealing import seal_of
from whereish.service.jobs.store import Jobs
from whereish.service.limits import Limits
from whereish.service.workers.pool import WorkerPool
from whereish.service.workers.worker import Worker
from whereish.spec import Recipe

DOCUMENT = recipe(4)
BODY = json.dumps(DOCUMENT).encode()


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(Database(tmp_path), seal_of(tmp_path), Limits())


def add(jobs: Jobs, client: str = "ann") -> str:
    made = Recipe.from_document(DOCUMENT)
    return jobs.accept(client, made, made.plan(8.0), BODY, None)[0].id


def state(jobs: Jobs, id_: str, client: str = "ann") -> str:
    job = jobs.get(client, id_)
    assert job is not None
    return job.state


def test_each_job_is_claimed_once_in_the_order_of_acceptance(jobs: Jobs) -> None:
    ids = [add(jobs) for _ in range(3)]
    claimed = [jobs.claim(f"server {k}") for k in range(4)]
    assert [found[0] for found in claimed if found] == ids
    assert claimed[3] is None
    assert claimed[0] is not None
    assert jobs.unsealed(*claimed[0]) == BODY
    assert {state(jobs, id_) for id_ in ids} == {RUNNING}


def test_a_client_with_fewer_open_jobs_comes_first(jobs: Jobs) -> None:
    anns = [add(jobs) for _ in range(3)]
    bobs = [add(jobs, "bob") for _ in range(2)]
    order = [found[0] for k in range(5) if (found := jobs.claim(f"server {k}"))]
    assert order == [anns[0], bobs[0], anns[1], bobs[1], anns[2]]


def test_only_jobs_of_that_server_are_queued_again(jobs: Jobs) -> None:
    mine, kept, other = (add(jobs) for _ in range(3))
    for owner in ("host:1 a", "host:1 b", "host:10 c"):
        assert jobs.claim(owner)
    jobs.requeue("host:1", {kept})
    assert [state(jobs, id_) for id_ in (mine, kept, other)] == [QUEUED, RUNNING, RUNNING]
    again = jobs.claim("host:10 d")
    assert again is not None
    assert again[0] == mine


def test_a_former_owner_cannot_end_a_job(jobs: Jobs) -> None:
    id_ = add(jobs)
    assert jobs.claim("a 1")
    jobs.requeue("a")
    assert not jobs.is_wanted(id_, "a 1")
    assert not jobs.finish(id_, "a 1", "0", b"file", {})
    assert jobs.claim("b 1")
    assert not jobs.finish(id_, "a 1", "0", b"file", {})
    assert not jobs.fail(id_, "a 1", {})
    assert not jobs.count_death(id_, "a 1")
    assert jobs.finish(id_, "b 1", "0", b"file", {})
    assert not jobs.finish(id_, "b 1", "1", b"another", {})
    assert state(jobs, id_) == DONE
    jobs.requeue("b")
    assert state(jobs, id_) == DONE, "what has ended is not built again"


def test_deaths_are_counted_over_several_owners(jobs: Jobs) -> None:
    id_ = add(jobs)
    parked = []
    for k in range(3):
        assert jobs.claim(f"a {k}")
        parked.append(jobs.count_death(id_, f"a {k}"))
        jobs.requeue("a")
    assert parked == [False, False, True]
    assert state(jobs, id_) == PARKED
    assert jobs.claim("a 4") is None


def test_a_deleted_job_is_neither_claimed_nor_wanted(jobs: Jobs) -> None:
    first, second = add(jobs), add(jobs)
    assert jobs.claim("a 1")
    for id_ in (first, second):
        assert jobs.delete("ann", id_)
    assert not jobs.is_wanted(first, "a 1")
    assert not jobs.finish(first, "a 1", "0", b"file", {})
    assert jobs.claim("a 2") is None


class NoProcess(Worker):
    """A worker without a process: it is alive, ready or dead as a test says."""

    is_alive = True

    def kill(self) -> None:
        self.is_alive = False

    def _submit(self, *recipe: Any) -> None:
        raise BrokenPipeError

    def _close(self) -> None:
        self.kill()


def test_workers_that_die_before_they_are_ready_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After some of them in a row the service is not ready; the first that is ready mends it."""
    made: list[NoProcess] = []

    def new(pool: WorkerPool) -> Worker:
        made.append(NoProcess())
        return made[-1]

    monkeypatch.setattr(WorkerPool, "_new", new)
    pool = WorkerPool()
    pool.start_spare()
    for deaths in range(1, RETRY.cold_deaths + 1):
        assert pool.is_usable
        made[-1].kill()
        pool.start_spare()
        assert len(made) == deaths + 1
    assert not pool.is_usable
    outcome = pool.acquire().solve(BODY, 8.0, 1.0, lambda progress: None, lambda: True)
    assert not outcome.was_ready
    made[-1].handle({"ready": True}, lambda size: b"")
    pool.start_spare()
    assert pool.is_usable
