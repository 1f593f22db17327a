"""Transactions inside one another, in forks, beside other writers and in processes that are killed; odd paths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from foldline._io.deadline import call_deadline
from foldline._storage.database import Connection, Database
from foldline._storage.open_database import open_database
from foldline._storage.schema import LockNumber
from foldline._storage.sqlite_database import SqliteDatabase
from foldline.exceptions import StoreError
from tests.storage.conftest import FRUIT

ADD = "INSERT INTO foldline_fruit (name, weight) VALUES (?, ?)"
NAMES = "SELECT name FROM foldline_fruit ORDER BY place"


def names(database: Database) -> list[str]:
    return [row[0] for row in database.rows(NAMES)]


def add(database: Database, *fruit: str) -> None:
    database.write(lambda connection: connection.each(ADD, [(name, 1) for name in fruit]))


def hold_lock(place: str, has_lock: threading.Event, end: threading.Event) -> None:
    """Hold what a writer needs until the end."""
    other = open_database(place, FRUIT)

    def hold(connection: Connection) -> None:
        connection.lock(LockNumber.HISTORY, "fruit")
        has_lock.set()
        end.wait(30)

    other.write(hold)


@pytest.mark.timing
def test_a_wait_for_another_writer_ends_with_the_deadline_of_the_call(place: str):
    database, has_lock, end = open_database(place, FRUIT), threading.Event(), threading.Event()
    holder = threading.Thread(target=hold_lock, args=(place, has_lock, end))
    holder.start()
    has_lock.wait(30)

    def work(connection: Connection) -> None:
        connection.lock(LockNumber.HISTORY, "fruit")
        connection.run(ADD, ("plum", 1))

    start = time.monotonic()
    with call_deadline(0.2), pytest.raises(StoreError, match=r"time limit of the call|timeout"):
        database.write(work)
    seconds = time.monotonic() - start
    end.set()
    holder.join()

    assert seconds < 5
    database.write(work)
    assert names(database) == ["plum"]


@pytest.mark.parametrize(
    "name",
    ["a?b", "a#b", "a%20b", "file:x", "file:x?mode=ro", "ü ä", "-x", "a'b\"", "x;y", "\udc80"],
)
def test_a_path_means_the_file_of_that_name(name: str, tmp_path: Path):
    add(open_database(tmp_path / name, FRUIT), "plum")

    assert names(open_database(str(tmp_path / name), FRUIT)) == ["plum"]
    assert {file.name for file in tmp_path.iterdir()} <= {name, f"{name}-wal", f"{name}-shm"}


@pytest.mark.parametrize("path", ["", ".", "a\0b"])
def test_a_path_that_is_no_file_is_an_error(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError):
        open_database(path, FRUIT)


def test_a_database_in_memory_that_is_used_inside_its_own_work_is_an_error_and_no_deadlock():
    database = SqliteDatabase(":memory:", FRUIT, patience=0.05)

    with pytest.raises(StoreError, match="all 1 connections were in use"):
        database.read(lambda _: database.rows(NAMES))
    with pytest.raises(StoreError, match="all 1 connections were in use"):
        database.write(lambda _: add(database, "plum"))

    add(database, "fig")
    assert names(database) == ["fig"]


def test_a_write_inside_a_write_is_an_error_and_writes_nothing(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "fruit.db", FRUIT, patience=0.1)

    def work(connection: Connection) -> None:
        connection.run(ADD, ("plum", 1))
        add(database, "fig")

    with pytest.raises(StoreError, match="locked"):
        database.write(work)

    assert names(database) == []


def test_a_read_inside_a_write_sees_what_was_there_before(place: str):
    database = open_database(place, FRUIT)

    def work(connection: Connection) -> list[str]:
        connection.run(ADD, ("plum", 1))
        return names(database)

    assert database.write(work) == []
    assert names(database) == ["plum"]


def test_a_forked_child_has_a_copy_of_a_database_in_memory():
    database = open_database(":memory:", FRUIT)
    add(database, "plum")
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        add(database, "fig")
        os._exit(0 if names(database) == ["plum", "fig"] else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert names(database) == ["plum"]


KILLED = """
import os, sys
from foldline._storage.open_database import open_database
from tests.storage.test_transactions import ADD, FRUIT, add

database = open_database(sys.argv[1], FRUIT)
add(database, "plum")
add(database, "fig")

def work(connection):
    connection.run(ADD, ("half", 1))
    os.kill(os.getpid(), 9)

database.write(work)
"""


@pytest.mark.slow
def test_what_a_killed_process_committed_is_there_and_nothing_else(place: str):
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED, place], cwd=root, check=False)

    assert killed.returncode == -9
    assert names(open_database(place, FRUIT)) == ["plum", "fig"]
