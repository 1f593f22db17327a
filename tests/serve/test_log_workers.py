"""Workers of the server's log: who is alive is judged by a row that a jumping clock does not change."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from foldline._storage.workers import Worker, this_worker
from foldline.serve._log.events import encode_event
from foldline.serve._log.records import EventsToKeep, RunRecord
from foldline.serve._log.run_log import BEAT, LEAVE, ServerLog
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

HOURS = 7200.0


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "log.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


class Other:
    """Another worker with a run, of which this process sees only the rows."""

    def __init__(self, place: str, worker: Worker) -> None:
        self.log = ServerLog(place)
        self.worker = worker
        self.name = f"{worker.host}/{worker.pid}/0123abcd/{worker.id}"
        self.beat()
        run = RunRecord("r", "ada", "app", "wire", "t", "running", 1.0, self.name, None)
        self.log.keep([EventsToKeep(run, 1, [encode_event({"text": "first"})], is_new=True)])

    def beat(self) -> None:
        with patch("foldline._storage.workers.this_worker", lambda: self.worker):
            self.log.database.write(self.log._workers.renew)
        self.log.database.write(lambda connection: connection.run(BEAT, (self.name, time.time())))

    def leave(self) -> None:
        self.log.database.write(lambda connection: connection.run(LEAVE, (self.name,)))


def far_worker() -> Worker:
    """A worker whose process cannot be seen from here."""
    boot = this_worker().boot.partition(" ")[0]
    return Worker(boot=f"{boot} pid:[1]", host="far", pid=77, started="1")


def status(log: ServerLog) -> str:
    run = log.run("r")
    assert run is not None
    return run.status


@pytest.mark.parametrize("jump", [HOURS, -HOURS])
def test_a_clock_that_jumps_interrupts_no_run_of_a_living_worker(
    place: str, jump: float, monkeypatch: pytest.MonkeyPatch
):
    Other(place, far_worker())
    log, now = ServerLog(place), time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)

    assert (log.mark_interrupted(), status(log)) == (0, "running")


def test_a_worker_of_another_machine_is_dead_when_its_row_is_not_renewed(
    place: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FOLDLINE_WORKER_BEAT", "0.1")
    monkeypatch.setenv("FOLDLINE_WORKER_DEAD", "0.4")
    other = Other(place, far_worker())
    log = ServerLog(place)
    time.sleep(0.5)

    assert status(log) == "running", "it is watched first"
    time.sleep(0.1)
    other.beat()
    assert status(log) == "running"
    time.sleep(0.6)
    assert status(log) == "running", "it is watched again"
    time.sleep(0.3)
    assert status(log) == "interrupted"


def test_runs_of_a_process_of_this_machine_that_has_ended_are_interrupted_at_once(place: str):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = Worker(host="here", pid=process.pid, started="1")
    process.communicate(b"\n")
    Other(place, ended)

    assert ServerLog(place).mark_interrupted() == 1


def test_runs_of_a_worker_that_has_left_are_interrupted_at_once(place: str):
    Other(place, far_worker()).leave()

    assert status(ServerLog(place)) == "interrupted"


def test_two_logs_of_one_process_leave_each_others_runs_alone(place: str):
    first, second = ServerLog(place), ServerLog(place)
    first.beat()
    second.beat()
    run = RunRecord("r", "ada", "app", "wire", "t", "running", 1.0, first.worker, None)
    first.keep([EventsToKeep(run, 1, [encode_event({"text": "first"})], is_new=True)])

    assert (second.mark_interrupted(), status(second)) == (0, "running")
    second.leave()
    assert status(ServerLog(place)) == "running"
    first.leave()
    assert status(ServerLog(place)) == "interrupted"


def test_a_row_that_another_store_removed_does_not_end_the_worker(place: str):
    log = ServerLog(place)
    Other(place, far_worker())
    log.database.write(lambda connection: connection.run("DELETE FROM foldline_workers"))

    assert status(log) == "running"
