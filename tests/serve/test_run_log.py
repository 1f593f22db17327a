"""The log of runs: what is deleted stays deleted, whatever a worker still writes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import psycopg
import pytest

from foldline._storage import forget
from foldline.serve._log.events import encode_event
from foldline.serve._log.records import EventsToKeep, RunRecord
from foldline.serve._log.run_log import ServerLog
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

Deletion = Callable[[ServerLog, str], object]
DELETIONS: dict[str, Deletion] = {
    "run": lambda log, _: log.delete_run("r"),
    "thread": lambda log, _: log.delete_thread("ada", "t"),
    "forget": lambda _, place: forget.delete_served_runs(place, [], ["t"]),
}


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "log.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def begin_run(log: ServerLog) -> RunRecord:
    run = RunRecord("r", "ada", "app", "wire", "t", "running", 1.0, log.worker, None)
    log.keep([EventsToKeep(run, 1, [encode_event({"text": "first"})], is_new=True)])
    return run


def rows(log: ServerLog) -> list[tuple[object, ...]]:
    return log.database.rows("SELECT run, seq FROM serve_events ORDER BY seq")


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("deletion", DELETIONS)
def test_events_of_a_run_that_was_deleted_under_way_are_not_stored(
    deletion: str, is_over: bool, place: str
):
    log = ServerLog(place)
    run = begin_run(log)
    DELETIONS[deletion](log, place)

    log.keep([EventsToKeep(run, 2, [encode_event({"text": "second"})], is_over=is_over)])

    assert rows(log) == []
    assert log.run("r") is None


@pytest.mark.parametrize("deletion", DELETIONS)
def test_a_deletion_waits_for_events_that_are_being_written_and_deletes_them_too(
    deletion: str, postgres_url: str
):
    log = ServerLog(postgres_url)
    begin_run(log)

    with ThreadPoolExecutor() as pool, psycopg.connect(postgres_url) as worker:
        # What `keep` of another worker does, before its commit.
        worker.execute("UPDATE serve_runs SET last_seq = 2 WHERE id = 'r'")
        worker.execute("INSERT INTO serve_events (run, seq, last, data) VALUES ('r', 2, 2, '[{}]')")
        result = pool.submit(DELETIONS[deletion], log, postgres_url)
        wait([result], timeout=0.5)
        worker.commit()
        result.result(timeout=10)

    assert rows(log) == []
