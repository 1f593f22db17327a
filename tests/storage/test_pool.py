"""The pool: a bounded number of connections, first come first served, within the deadline of the call."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foldline._io.deadline import call_deadline
from foldline._storage.pool import ConnectionPool, Slot, shared_pool
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


def idle(pool: ConnectionPool[Connection]) -> list[Connection]:
    """Return the open connections that nobody uses."""
    slots = list[Slot[Connection]]()
    pool._slots.change(lambda items: slots.extend(items) or items)  # type: ignore[func-returns-value]
    return [slot.connection for slot in slots if slot.is_open]


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
            while pool._slots.waiting_count <= number:
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
        kept = idle(pool)
        os._exit(0 if connection.is_open and connection not in kept else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert idle(pool) == [connection]


def test_a_child_does_not_wait_for_a_thread_of_its_parent_that_has_the_pools_lock(opener: Opener):
    pool, entered, end = make(opener), threading.Event(), threading.Event()

    def hold(slots: list[Slot[Connection]]) -> list[Slot[Connection]]:
        entered.set()
        end.wait(30)
        return slots

    holder = threading.Thread(target=pool._slots.change, args=(hold,))
    holder.start()
    entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with pool.connection(), pool.connection():
            pool.close()
        os._exit(0)
    end.set()
    holder.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_does_not_wait_for_connections_that_its_parents_threads_have(opener: Opener):
    pool, entered, end = make(opener, size=1, patience=30), threading.Event(), threading.Event()

    def hold() -> None:
        with pool.connection():
            entered.set()
            end.wait(30)

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with pool.connection() as connection:
            os._exit(0 if connection not in opener.opened[:-1] else 1)
    end.set()
    for thread in threads:
        thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert idle(pool) == opener.opened


class SlowKey:
    """A place whose comparison gives other threads their turn."""

    def __hash__(self) -> int:
        time.sleep(0.02)
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


def test_threads_that_open_one_place_in_the_same_moment_share_a_pool(opener: Opener):
    key, together = SlowKey(), threading.Barrier(8)

    def share(_: int) -> ConnectionPool[Connection]:
        together.wait(30)
        return shared_pool(key, lambda: make(opener))

    with ThreadPoolExecutor(8) as threads:
        pools = list(threads.map(share, range(8)))

    assert len(set(pools)) == 1


def test_a_child_does_not_wait_for_a_thread_of_its_parent_that_makes_a_shared_pool(opener: Opener):
    entered, end = threading.Event(), threading.Event()

    def make_slowly() -> ConnectionPool[Connection]:
        entered.set()
        end.wait(30)
        return make(opener)

    maker = threading.Thread(target=shared_pool, args=("slow", make_slowly))
    maker.start()
    entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        with shared_pool("quick", lambda: make(opener)).connection():
            os._exit(0)
    end.set()
    maker.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Interrupt(BaseException):
    """Such as Ctrl+C."""


def test_a_wait_that_is_interrupted_takes_no_connection_away(opener: Opener):
    pool = make(opener, size=1, patience=30)

    def interrupt(*_: object) -> None:
        raise Interrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pool.connection():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupt), pool.connection():
                pass
    finally:
        signal.signal(signal.SIGALRM, handler)

    with call_deadline(1), pool.connection() as connection:
        assert connection is opener.opened[0]


@pytest.mark.timing
def test_no_connection_is_lost_among_threads_of_which_many_give_up(opener: Opener):
    pool, served, gave_up = make(opener, size=2, patience=0.002), list[int](), list[int]()

    def work(number: int) -> None:
        for turn in range(60):
            try:
                with pool.connection():
                    served.append(number)
                    time.sleep(0.001 * (turn % 4))
            except StoreError:
                gave_up.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(served) + len(gave_up) == 12 * 60
    assert gave_up
    assert len(idle(pool)) == len(opener.opened) == 2
    with pool.connection(), pool.connection():
        pass


def test_what_the_garbage_collector_gives_back_while_the_pool_is_locked_is_free_again(
    opener: Opener,
):
    pool = make(opener, size=2, patience=1)

    def pages() -> Generator[None, None, None]:
        with pool.connection():
            yield

    abandoned = pages()
    next(abandoned)

    def collect(slots: list[Slot[Connection]]) -> list[Slot[Connection]]:
        abandoned.close()
        return slots

    pool._slots.change(collect)

    with pool.connection(), pool.connection():
        assert (
            len(opener.opened) == 3
        )  # the connection of a block that is left by an error is closed
