"""Workers: who is alive, with processes that are killed and stopped, and clocks that jump."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import foldline
from foldline._io.deadline import call_deadline
from foldline._io.timer import TIMER
from foldline._storage import workers as workers_module
from foldline._storage.database import Connection
from foldline._storage.open_database import open_database
from foldline._storage.workers import SCHEMA, Worker, Workers, WorkerTimes, this_worker
from foldline._storage.writers import Writers
from foldline.checkpoint import _stored as checkpoints
from foldline.exceptions import StoreError, ThreadBusyError, ThreadConflictError, UsageError
from foldline.utils._data_places import is_url
from tests.servers.databases import wait_until
from tests.storage.test_schema import execute

QUICK = WorkerTimes(beat=0.1, dead_after=0.6)
STEADY = WorkerTimes(beat=0.1, dead_after=60)
OTHER = """
import sys, time
from foldline._storage.open_database import open_database
from foldline._storage.workers import SCHEMA, WorkerTimes
from foldline._storage.writers import Writers

place, beat, dead_after = sys.argv[1:]
writers = Writers(open_database(place, SCHEMA), WorkerTimes(float(beat), float(dead_after)))
writers.claim("t", "run of the other")
print("ready", flush=True)
time.sleep(60)
"""

Start = Callable[[WorkerTimes], "subprocess.Popen[str]"]


def open_writers(place: str, times: WorkerTimes = QUICK) -> Writers:
    return Writers(open_database(place, SCHEMA), times)


@pytest.fixture
def writers(place: str) -> Iterator[Writers]:
    found = open_writers(place)
    yield found
    found.close()


@pytest.fixture
def start_other(place: str, writers: Writers) -> Iterator[Start]:
    """Starts another process that claims thread "t" and beats."""
    processes: list[subprocess.Popen[str]] = []

    def start(times: WorkerTimes) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OTHER, place, str(times.beat), str(times.dead_after)]
        root = Path(foldline.__file__).parents[2]
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def beats(place: str) -> dict[str, float]:
    return {row[0]: row[1] for row in execute(place, "SELECT id, beat FROM foldline_workers")}


def test_a_thread_of_a_killed_process_is_free_at_once(writers: Writers, start_other: Start):
    other = start_other(STEADY)
    with pytest.raises(ThreadBusyError, match=rf"run of the other' of process {other.pid} on"):
        writers.claim("t", "mine")
    other.kill()
    other.wait()
    began = time.monotonic()

    writers.claim("t", "mine")

    assert time.monotonic() - began < 5


@pytest.mark.timing
def test_a_process_that_stands_still_loses_its_thread_after_its_own_time(
    writers: Writers, start_other: Start
):
    other = start_other(QUICK)
    os.kill(other.pid, signal.SIGSTOP)
    with pytest.raises(ThreadBusyError):
        writers.claim("t", "mine")
    time.sleep(QUICK.dead_after)

    writers.claim("t", "mine")

    os.kill(other.pid, signal.SIGCONT)


@pytest.mark.timing
def test_a_process_with_longer_times_is_judged_by_its_own(writers: Writers, start_other: Start):
    other = start_other(STEADY)
    os.kill(other.pid, signal.SIGSTOP)
    time.sleep(QUICK.dead_after * 2)

    with pytest.raises(ThreadBusyError):
        writers.claim("t", "mine")


def test_a_process_of_another_machine_is_judged_by_its_beat_alone(place: str, writers: Writers):
    database = open_database(place, SCHEMA)
    gone = Worker("far", "another boot", "far.example", 1, "1")
    assert not gone.is_gone()
    statement = "INSERT INTO foldline_workers VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    database.write(
        lambda connection: connection.run(
            statement,
            (gone.id, gone.boot, gone.host, gone.pid, gone.started, workers_module._now(connection) - 0.3, 0.1, 0.6),
        )
    )  # fmt: skip
    execute(place, "INSERT INTO foldline_writers VALUES ('t', 7, 'far run', 'far')")

    with pytest.raises(ThreadBusyError, match=r"far run' of process 1 on 'far.example'"):
        writers.claim("t", "mine")
    time.sleep(0.4)

    assert writers.claim("t", "mine") == 8


def test_the_row_is_renewed_while_a_thread_is_owned_and_no_longer(place: str, writers: Writers):
    epoch = writers.claim("t", "a")
    first = beats(place)[this_worker().id]

    wait_until(lambda: beats(place)[this_worker().id] > first, "a beat")
    assert len(beats(place)) == 1
    writers.release("t", epoch)
    wait_until(lambda: not TIMER.is_running, "the end of the timer")


def test_two_objects_of_one_process_share_a_row_and_the_first_to_close_leaves_it(
    place: str, writers: Writers
):
    second = open_writers(place)
    first_epoch, second_epoch = writers.claim("t", "a"), second.claim("u", "b")
    assert list(beats(place)) == [this_worker().id]

    writers.close()

    assert list(beats(place)) == [this_worker().id]
    second.check("u", second_epoch)
    with pytest.raises(ThreadConflictError):
        writers.check("t", first_epoch)
    third = open_writers(place)
    third.claim("t", "b")
    with pytest.raises(ThreadBusyError):
        third.claim("u", "b2")
    third.close()
    second.close()
    assert beats(place) == {}


def test_an_object_that_nobody_holds_any_more_stops_its_timer(place: str):
    writers = open_writers(place)
    writers.claim("t", "a")
    del writers

    wait_until(lambda: not TIMER.is_running, "the end of the timer")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_row_of_its_own_and_not_its_parents_threads(
    place: str, writers: Writers
):
    epoch = writers.claim("t", "parent")
    parent_id = this_worker().id
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for refused in (
                lambda: writers.claim("t", "child"),
                lambda: writers.check("t", epoch),
            ):
                with pytest.raises((ThreadBusyError, ThreadConflictError)):
                    refused()
            own = writers.claim("u", "child")
            writers.check("u", own)
            ids = set(beats(place))
            first = beats(place)[this_worker().id]
            wait_until(lambda: beats(place)[this_worker().id] > first, "a beat of the child")
            status = 0 if ids == {parent_id, this_worker().id} and len(ids) == 2 else 2
            writers.close()
        finally:
            os._exit(status)
    _, code = os.waitpid(child, 0)

    assert code == 0
    assert set(beats(place)) == {parent_id}
    writers.check("t", epoch)
    open_writers(place).claim("u", "after the child")


def test_rows_of_dead_processes_are_removed_in_time(place: str, writers: Writers):
    mine = Worker()
    database = open_database(place, SCHEMA)

    def add(connection: Connection) -> None:
        now = workers_module._now(connection)
        rows = [
            ("gone", mine.boot, "h", mine.pid, "1", now, 5, 30),
            ("old", "another boot", "h", 1, "1", now - 100_000, 5, 30),
            ("of the future", "another boot", "h", 1, "1", now + 100_000, 5, 30),
            ("quiet", "another boot", "h", 1, "1", now - 100, 5, 30),
            ("owner", "another boot", "h", 1, "1", now - 100_000, 5, 30),
        ]
        connection.each("INSERT INTO foldline_workers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.run("INSERT INTO foldline_writers VALUES ('x', 1, 'run', 'owner')")

    database.write(add)
    writers.claim("t", "a")

    wait_until(lambda: "gone" not in beats(place), "the removal")
    assert set(beats(place)) == {this_worker().id, "quiet", "owner"}


# -- clocks


class Clock:
    """Sets the clock that the workers of a place write and read."""

    def __init__(self, place: str, patch: pytest.MonkeyPatch) -> None:
        self._place, self._patch = place, patch
        if is_url(place):
            # Before PostgreSQL's own function of that name, for every session of this database.
            name = place.rpartition("/")[2]
            execute(place, f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
            self.jump(0)

    def jump(self, seconds: float) -> None:
        if is_url(self._place):
            execute(
                self._place,
                "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
                f"$$ SELECT pg_catalog.clock_timestamp() + interval '{seconds} seconds' $$",
            )
        else:
            now = time.time
            self._patch.setattr(time, "time", lambda: now() + seconds)


@pytest.fixture
def clock(place: str, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(place, monkeypatch)


HOURS = pytest.mark.parametrize("seconds", [-7200, 7200])


@HOURS
def test_a_clock_that_jumps_kills_no_worker_that_lives(
    clock: Clock, place: str, writers: Writers, start_other: Start, seconds: float
):
    start_other(QUICK)
    with pytest.raises(ThreadBusyError):
        writers.claim("t", "mine")

    clock.jump(seconds)

    with pytest.raises(ThreadBusyError):
        writers.claim("t", "mine")
    with pytest.raises(ThreadBusyError):
        open_writers(place).claim("t", "mine")


@HOURS
@pytest.mark.timing
def test_a_clock_that_jumps_keeps_no_dead_worker(
    clock: Clock, writers: Writers, start_other: Start, seconds: float
):
    other = start_other(QUICK)
    os.kill(
        other.pid, signal.SIGSTOP
    )  # not killed: a process that is gone is known without a clock
    time.sleep(QUICK.dead_after)

    clock.jump(seconds)
    began = time.monotonic()

    writers.claim("t", "mine")
    assert time.monotonic() - began < QUICK.dead_after * 3


def test_times_that_other_machines_wrote_wrongly_are_watched_and_not_believed(
    place: str, writers: Writers, start_other: Start, monkeypatch: pytest.MonkeyPatch
):
    other = start_other(QUICK)
    now = workers_module._now
    for wrong in (-7200, 7200):
        monkeypatch.setattr(workers_module, "_now", lambda connection: now(connection) + wrong)  # noqa: B023
        with pytest.raises(ThreadBusyError):
            open_writers(place).claim("t", "mine")
    os.kill(other.pid, signal.SIGSTOP)

    open_writers(place).claim("t", "mine")


def test_a_watch_ends_with_the_deadline_of_the_call(place: str, writers: Writers):
    row = ("far", "another boot", "far.example", 1, "1", -100_000.0, 5, 30)
    execute(place, "INSERT INTO foldline_workers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    execute(place, "INSERT INTO foldline_writers VALUES ('t', 7, 'far run', 'far')")
    began = time.monotonic()

    with call_deadline(0.5), pytest.raises(ThreadBusyError) as caught:
        writers.claim("t", "mine")

    assert time.monotonic() - began < 2
    assert caught.value.retry_after == 2.5


# -- a process that cannot renew


def test_a_run_whose_process_cannot_renew_stops_before_its_next_effect(
    place: str, writers: Writers, monkeypatch: pytest.MonkeyPatch
):
    epoch = writers.claim("t", "a")
    writers.check("t", epoch)
    write = writers._database.write

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the store is gone")

    monkeypatch.setattr(writers._database, "write", fail)
    writers.check("t", epoch)  # not for long yet
    uptime = workers_module.uptime
    later = "foldline._storage.writers.uptime"
    monkeypatch.setattr(later, lambda: uptime() + QUICK.stop_after + 0.01)
    with pytest.raises(
        ThreadConflictError, match=r"could not renew .* 't' for 0.4 s.*store is gone"
    ):
        writers.check("t", epoch)

    monkeypatch.setattr(writers._database, "write", write)
    writers.check("t", epoch)  # nobody took it over meanwhile


def test_a_run_that_lost_its_thread_while_it_stood_still_stops(
    place: str, writers: Writers, monkeypatch: pytest.MonkeyPatch
):
    epoch = writers.claim("t", "a")
    execute(place, "UPDATE foldline_writers SET epoch = epoch + 1, owner = 'b', worker = 'w'")
    uptime = workers_module.uptime
    monkeypatch.setattr("foldline._storage.writers.uptime", lambda: uptime() + 60)

    with pytest.raises(ThreadConflictError, match="another run has taken it over"):
        writers.check("t", epoch)


# -- who is who


def test_a_later_process_with_the_same_number_is_another_worker():
    mine = Worker()
    assert not mine.is_gone()
    assert Worker("id", mine.boot, mine.host, mine.pid, "1").is_gone()
    assert not Worker("id", "another machine", mine.host, mine.pid, "1").is_gone()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a process started")
def test_a_process_that_proc_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch):
    parent = Worker("id", Worker().boot, "h", os.getppid(), "1")
    monkeypatch.setattr(workers_module, "_start_of", lambda pid: None)
    assert not parent.is_gone()
    monkeypatch.undo()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    wait_until(lambda: workers_module._start_of(ended.pid) == "", "the end of the process")
    assert Worker("id", Worker().boot, "h", ended.pid, "1").is_gone()  # a zombie
    ended.wait()
    assert Worker("id", Worker().boot, "h", ended.pid, "1").is_gone()


# -- settings


def test_the_environment_sets_the_times(monkeypatch: pytest.MonkeyPatch):
    assert Workers().times == WorkerTimes(5, 30)
    assert WorkerTimes().stop_after == 20
    monkeypatch.setenv("FOLDLINE_WORKER_BEAT", "0.2")
    monkeypatch.setenv("FOLDLINE_WORKER_DEAD", "1")
    assert Workers().times == WorkerTimes(0.2, 1)


@pytest.mark.parametrize(
    ("beat", "dead"), [("soon", "30"), ("0", "30"), ("-1", "30"), ("5", "14"), ("nan", "30"), ("5", "inf")]
)  # fmt: skip
def test_times_that_make_no_sense_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, beat: str, dead: str
):
    monkeypatch.setenv("FOLDLINE_WORKER_BEAT", beat)
    monkeypatch.setenv("FOLDLINE_WORKER_DEAD", dead)
    with pytest.raises(UsageError, match="FOLDLINE_WORKER_BEAT"):
        Workers()


def test_a_kind_that_needs_workers_brings_their_tables(place: str):
    open_database(place, checkpoints.SCHEMA)

    kinds = execute(place, "SELECT kind FROM foldline_schema ORDER BY kind")
    assert kinds == [("checkpoints",), ("snapshots",), ("workers",)]
    assert execute(place, "SELECT * FROM foldline_writers") == []


def test_a_beat_that_begins_before_a_close_does_not_bring_the_row_back(place: str):
    writers = open_writers(place)
    writers.claim("t", "a")
    has_begun, may_go_on = threading.Event(), threading.Event()
    write = writers._database.write

    def slow_write(work):
        if work == writers._workers.renew:
            has_begun.set()
            may_go_on.wait(10)
        return write(work)

    writers._database.write = slow_write
    with ThreadPoolExecutor(2) as pool:
        beat = pool.submit(writers._renew)
        has_begun.wait(10)
        close = pool.submit(writers.close)
        close_is_early = wait([close], timeout=0.2).done
        may_go_on.set()
        beat.result(10)
        close.result(10)

    assert not close_is_early
    assert beats(place) == {}
