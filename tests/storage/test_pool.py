"""The pool: a bounded number of connections, first come first served, within the deadline of the call."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from foldline._io.deadline import call_deadline
from foldline._storage.pool import ConnectionPool
from foldline._storage.sqlite_database import SqliteDatabase
from foldline.exceptions import StoreError
from foldline.language_models import Limits, usage_scope
from tests.storage.conftest import FRUIT


class Connection:
    """Knows whether it is open."""

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


class Opener:
    """Opens connections and remembers them."""

    def __init__(self) -> None:
        self.opened: list[Connection] = []

    def __call__(self) -> Connection:
        self.opened.append(Connection())
        return self.opened[-1]


@pytest.fixture
def opener() -> Opener:
    return Opener()


def make(opener: Opener, *, size: int = 2, patience: float = 5, idle_seconds: float = 60):
    return ConnectionPool("here", opener, size=size, patience=patience, idle_seconds=idle_seconds)


def test_no_more_connections_are_opened_than_the_size(opener: Opener):
    pool, in_use, most = make(opener, size=3), list[int](), list[int]()

    def work() -> None:
        for _ in range(20):
            with pool.connection():
                in_use.append(1)
                most.append(len(in_use))
                time.sleep(0.0005)
                in_use.pop()

    threads = [threading.Thread(target=work) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(opener.opened) <= 3
    assert max(most) <= 3


def test_who_waits_longest_is_next(opener: Opener):
    pool, order, threads = make(opener, size=1), list[int](), list[threading.Thread]()

    def work(number: int) -> None:
        with pool.connection():
            order.append(number)

    with pool.connection():
        for number in range(10):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            while len(pool._slots._waiters) <= number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()

    assert order == list(range(10))


def test_a_wait_that_is_too_long_is_an_error_and_costs_no_place(opener: Opener):
    pool = make(opener, size=1, patience=0.05)
    with (
        pool.connection(),
        pytest.raises(StoreError, match=r"here: all 1 connections .* 0.05 s: try again"),
        pool.connection(),
    ):
        pass

    with pool.connection() as connection:
        assert connection.is_open


@pytest.mark.timing
def test_a_wait_ends_with_the_deadline_of_the_call(opener: Opener):
    pool = make(opener, size=1, patience=30)
    start = time.monotonic()
    with pool.connection():
        with call_deadline(0.1), pytest.raises(StoreError, match="in use"), pool.connection():
            pass
        with (
            usage_scope(Limits(timeout=0.1)),
            pytest.raises(StoreError, match="in use"),
            pool.connection(),
        ):
            pass

    assert time.monotonic() - start < 5


@pytest.mark.timing
def test_a_write_to_a_busy_file_ends_with_the_deadline_of_the_call(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "fruit.db", FRUIT, pool_size=1)
    start = time.monotonic()

    def hold(_: object) -> None:
        with usage_scope(Limits(timeout=0.1)), pytest.raises(StoreError, match="in use"):
            database.rows("SELECT 1")

    database.read(hold)

    assert time.monotonic() - start < 5


def test_idle_connections_are_closed_when_another_is_given_back(opener: Opener):
    pool = make(opener, idle_seconds=0.02)
    with pool.connection(), pool.connection():
        pass
    time.sleep(0.05)

    with pool.connection():
        pass

    assert [connection.is_open for connection in opener.opened].count(True) == 1


def test_a_connection_that_fails_is_closed_and_another_is_opened(opener: Opener):
    pool = make(opener)
    with pytest.raises(ValueError, match="broken"), pool.connection():
        raise ValueError("broken")

    with pool.connection() as connection:
        assert connection.is_open
    assert [each.is_open for each in opener.opened] == [False, True]


def test_an_opening_that_fails_costs_no_place():
    def fail() -> Connection:
        raise OSError("no route")

    pool = ConnectionPool("here", fail, size=1, patience=0.05)
    for _ in range(3):
        with pytest.raises(OSError, match="no route"), pool.connection():
            pass


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("uses_pool", [False, True])
def test_a_child_that_leaves_its_parents_block_neither_keeps_nor_closes_its_connection(
    uses_pool: bool, fails: bool, opener: Opener
):
    pool, child = make(opener), -1
    try:
        with pool.connection() as connection:
            child = os.fork()
            if child == 0 and uses_pool:
                with pool.connection():
                    pass
            if child == 0 and fails:
                raise ValueError("of the child")
    except ValueError:
        pass
    if child == 0:
        kept = [each for _, each in pool._idle]
        os._exit(0 if connection.is_open and connection not in kept else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [each for _, each in pool._idle] == [connection]
