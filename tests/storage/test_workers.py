"""Workers that beat and die, and the one writer of a thread, with processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldline
from foldline._storage.open_database import open_database
from foldline._storage.workers import SCHEMA, Worker, Workers, WorkerTimes

QUICK = WorkerTimes(beat=0.1, dead_after=0.5)
OTHER = """
import sys, time
from foldline._storage.open_database import open_database
from foldline._storage.workers import SCHEMA, Workers

workers = Workers(open_database(sys.argv[1], SCHEMA))
workers.beat()
print(workers._database.write(lambda connection: workers.claim(connection, "t", "run of the other")), flush=True)
while True:
    time.sleep(0.1)
    workers.beat()
"""


@pytest.fixture
def workers(place: str) -> Workers:
    found = Workers(open_database(place, SCHEMA), times=QUICK)
    found.beat()
    return found


@pytest.fixture
def other(place: str, workers: Workers) -> Iterator[subprocess.Popen[str]]:
    """Another process that has claimed thread "t" and beats."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, place],
        cwd=Path(foldline.__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def claim(workers: Workers, owner: str, thread: str = "t") -> int | None:
    return workers._database.write(lambda connection: workers.claim(connection, thread, owner))


def may_write(workers: Workers, epoch: int) -> bool:
    return workers._database.write(lambda connection: workers.may_write(connection, "t", epoch))


def test_a_thread_has_one_owner_until_it_is_released(workers: Workers):
    epoch = claim(workers, "a")
    assert epoch == 1
    assert claim(workers, "b") is None
    assert claim(workers, "b", "another thread") == 1
    assert may_write(workers, 1)

    assert workers._database.write(lambda connection: workers.release(connection, "t", 1))

    assert claim(workers, "b") == 2
    assert not may_write(workers, 1)
    assert not workers._database.write(lambda connection: workers.release(connection, "t", 1))
    assert may_write(workers, 2)


def test_a_thread_of_a_living_process_is_busy_and_of_a_killed_one_free_at_once(
    workers: Workers, other: subprocess.Popen[str]
):
    assert claim(workers, "mine") is None
    other.kill()
    other.wait()

    assert claim(workers, "mine") == 2
    assert not may_write(workers, 1)


@pytest.mark.timing
def test_a_process_that_stands_still_loses_its_thread_and_may_not_write_later(
    workers: Workers, other: subprocess.Popen[str]
):
    os.kill(other.pid, signal.SIGSTOP)
    assert claim(workers, "mine") is None
    time.sleep(QUICK.dead_after + 0.2)

    assert claim(workers, "mine") == 2
    os.kill(other.pid, signal.SIGCONT)
    assert not may_write(workers, 1)


def test_a_worker_that_left_is_not_alive(workers: Workers):
    claim(workers, "a")
    workers.leave()
    assert claim(workers, "b") == 2


def test_a_later_process_with_the_same_number_is_another_worker():
    mine = Worker()
    assert not mine.is_gone()
    assert Worker("id", mine.boot, mine.host, mine.pid, "1").is_gone()
    assert not Worker("id", "another machine", mine.host, mine.pid, "1").is_gone()
