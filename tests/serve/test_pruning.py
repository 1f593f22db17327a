"""Old runs are deleted by their end, in whole chains, and never while they run or wait; marks of dead workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foldline._storage import forget
from foldline.serve._log.answers import Claim
from foldline.serve._log.events import decode_event, encode_event
from foldline.serve._log.pruning import RUNS_AT_ONCE
from foldline.serve._log.records import EventsToKeep, RunRecord, RunStatus
from foldline.serve._log.requests import Repeat
from foldline.serve._log.run_log import BEAT, ServerLog
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["file", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> ServerLog:
    if request.param == "file":
        return ServerLog(str(tmp_path / "log.db"))
    return ServerLog(request.getfixturevalue("postgres_url"))


def add(
    log: ServerLog, id: str, status: RunStatus, *, created: float, finished: float | None = None
) -> RunRecord:
    """Write a run that began and ended at a time."""
    run = RunRecord(id, "ada", "app", "wire", "t", "running", created, log.worker, None)
    log.keep([EventsToKeep(run, 1, [encode_event({"text": "first"})], is_new=True)])
    if finished is not None:
        end(log, run, status, finished)
    return run


def end(log: ServerLog, run: RunRecord, status: RunStatus, finished: float) -> None:
    run.status, run.finished, run.result = status, finished, {}
    log.keep([EventsToKeep(run, 2, [encode_event({"text": "end"})], is_over=True)])


def resume(log: ServerLog, asked: RunRecord, id: str, *, created: float) -> RunRecord:
    run = RunRecord(id, "ada", "app", "wire", "t", "running", created, log.worker, None)
    run.resumes, run.first = asked.id, asked.root
    assert log.begin(run, [Claim("q", "1")]) is None
    return run


def ids(log: ServerLog) -> set[str]:
    return {run.id for run in log.runs("ada", limit=5_000)}


def rows(log: ServerLog) -> dict[str, int]:
    tables = ("serve_events", "serve_answers", "serve_chains", "serve_requests")
    return {table: log.database.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def test_S41_runs_are_deleted_by_their_end_and_not_by_their_start(log: ServerLog):
    add(log, "long", "success", created=1, finished=1_000)
    add(log, "short", "success", created=1, finished=2)

    assert log.prune(500) == 1
    assert ids(log) == {"long"}


def test_S41_runs_that_run_or_wait_are_never_deleted(log: ServerLog):
    add(log, "running", "running", created=1)
    add(log, "waiting", "waiting", created=1, finished=2)
    over: tuple[RunStatus, ...] = ("success", "error", "stopped", "interrupted")
    for status in over:
        add(log, status, status, created=1, finished=2)
    add(log, "queued", "running", created=1)
    log.database.write(
        lambda connection: connection.run(
            "UPDATE serve_runs SET status = 'queued', finished = 2 WHERE id = 'queued'"
        )
    )

    assert log.prune(500) == 4
    assert ids(log) == {"running", "waiting", "queued"}


def test_S41_runs_that_wait_are_deleted_after_a_time_of_their_own(log: ServerLog):
    add(log, "old", "waiting", created=1, finished=2)
    add(log, "new", "waiting", created=1, finished=600)
    add(log, "over", "success", created=1, finished=400)

    assert log.prune(-1.0, 500) == 1
    assert ids(log) == {"new", "over"}


def test_S41_a_chain_is_deleted_as_a_whole_by_its_last_end(log: ServerLog):
    first = add(log, "first", "waiting", created=1, finished=2)
    second = resume(log, first, "second", created=3)
    end(log, second, "waiting", 4)
    third = resume(log, second, "third", created=5)
    assert log.prune(500) == 0  # it runs
    end(log, third, "success", 1_000)
    assert log.prune(500) == 0  # it has just ended
    assert ids(log) == {"first", "second", "third"}

    assert log.prune(2_000) == 1
    assert ids(log) == set()
    assert set(rows(log).values()) == {0}


def test_S41_a_chain_whose_last_run_waits_stays(log: ServerLog):
    first = add(log, "first", "waiting", created=1, finished=2)
    end(log, resume(log, first, "second", created=3), "waiting", 4)

    assert log.prune(500) == 0
    assert log.prune(500, 500) == 1
    assert ids(log) == set()


def test_S41_many_runs_are_deleted_in_several_transactions(
    log: ServerLog, monkeypatch: pytest.MonkeyPatch
):
    count = RUNS_AT_ONCE + 20
    runs = [
        RunRecord(f"r{number}", "ada", "app", "wire", None, "success", 1.0, log.worker, None, 2.0)
        for number in range(count)
    ]
    log.keep(
        [
            EventsToKeep(run, 1, [encode_event({"text": "x"})], is_new=True, is_over=True)
            for run in runs
        ]
    )
    writes = []
    write = log.database.write

    def counting(work: Any, **options: Any) -> Any:
        writes.append(work)
        return write(work, **options)

    monkeypatch.setattr(log.database, "write", counting)

    assert log.prune(500) == count
    assert len(writes) == 3  # the last finds none
    assert rows(log)["serve_events"] == 0


def test_S41_forget_reaches_every_table_of_the_server(log: ServerLog, request: Any, tmp_path: Path):
    first = add(log, "first", "waiting", created=1, finished=2)
    end(log, resume(log, first, "second", created=3), "success", 4)
    run = RunRecord("third", "ada", "app", "wire", "t", "running", 1.0, log.worker, None)
    run.request_key = ("key", "digest")
    assert log.begin(run, []) is None
    end(log, run, "success", 4)
    is_file = (tmp_path / "log.db").exists()
    place = str(tmp_path / "log.db") if is_file else request.getfixturevalue("postgres_url")

    assert forget.delete_served_runs(place, [], ["t"]) == 3
    assert set(rows(log).values()) == {0}


def test_S5_a_key_belongs_to_the_first_run_and_is_deleted_with_it(log: ServerLog):
    def begin(id: str, digest: str) -> Any:
        run = RunRecord(id, "ada", "app", "wire", "t", "running", 1.0, log.worker, None)
        run.request_key = ("key", digest)
        return log.begin(run, [])

    assert begin("one", "a") is None
    assert begin("one", "a") is None  # a repeat of a transaction of which only the reply was lost
    assert begin("two", "a") == Repeat("one", is_equal=True)
    assert begin("two", "b") == Repeat("one", is_equal=False)
    assert ids(log) == {"one"}
    log.delete_run("one")
    assert begin("two", "b") is None


# -- runs of dead workers


def dead_run(log: ServerLog) -> RunRecord:
    """Write a run of a worker that has left."""
    run = RunRecord("r", "ada", "app", "wire", "t", "running", 1.0, "gone/1/2/3", None)
    log.keep(
        [
            EventsToKeep(
                run,
                1,
                [encode_event({"text": "first"}), encode_event({"text": "second"})],
                is_new=True,
            )
        ]
    )
    return run


@pytest.mark.parametrize("way", ["read", "sweep"])
def test_S3_a_run_that_is_marked_as_interrupted_gets_an_end_event_with_the_next_number(
    log: ServerLog, way: str
):
    dead_run(log)
    info = log.run("r") if way == "read" else (log.mark_interrupted(), log.run("r"))[1]
    events = log.events("r", 0)

    assert info is not None
    assert (info.status, info.last_seq) == ("interrupted", 3)
    assert [seq for seq, _ in events] == [1, 2, 3]
    end = decode_event(events[-1][1])
    assert (end["method"], end["params"]["data"]["event"]) == ("run", "interrupted")
    assert log.mark_interrupted() == 0
    assert len(log.events("r", 0)) == 3


def test_S3_a_worker_that_was_taken_for_dead_writes_nothing_after_the_end(log: ServerLog):
    run = dead_run(log)
    log.mark_interrupted()
    gone = log.keep([EventsToKeep(run, 3, [encode_event({"text": "late"})])])
    run.status, run.finished, run.result = "success", 9.0, {}
    gone |= log.keep(
        [
            EventsToKeep(
                run,
                3,
                [encode_event({"text": "late"}), encode_event({"text": "end"})],
                is_over=True,
            )
        ]
    )
    info = log.run("r")

    assert gone == {"r"}
    assert info is not None
    assert (info.status, info.last_seq) == ("interrupted", 3)
    assert [decode_event(event).get("text") for _, event in log.events("r", 0)] == [
        "first",
        "second",
        None,
    ]


def test_S3_an_end_whose_reply_was_lost_can_be_written_again(log: ServerLog):
    log.database.write(lambda connection: connection.run(BEAT, (log.worker, 1.0)))
    run = add(log, "r", "running", created=1)
    run.status, run.finished, run.result = "success", 9.0, {}
    batch = EventsToKeep(run, 2, [encode_event({"text": "end"})], is_over=True)

    assert log.keep([batch]) == set()
    assert log.keep([batch]) == set()
    assert [seq for seq, _ in log.events("r", 0)] == [1, 2]
