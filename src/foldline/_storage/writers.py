"""Writers of a store's threads: which run may write to a thread.

A run claims its thread and gets an `epoch`, which every claim raises; a write with an older epoch is refused. So a run
that was taken for dead cannot write after another one took its thread over. Nothing is locked between transactions:
while this process owns threads, a timer renews its row among the workers, and others believe that it is alive.
"""

from __future__ import annotations

import logging
import os
import weakref
from contextlib import suppress
from functools import partial
from secrets import randbelow
from typing import Final

from foldline._io.deadline import seconds_left
from foldline._io.locks import mutex
from foldline._io.timer import TIMER, wait
from foldline._storage.database import Connection, Database
from foldline._storage.schema import LockNumber
from foldline._storage.workers import Workers, WorkerTimes, this_worker, uptime
from foldline.exceptions import StoreError, ThreadBusyError, ThreadConflictError

__all__ = ["Writers", "conflict"]

OWNER: Final = "SELECT epoch, owner, worker FROM foldline_writers WHERE thread = ?"
CLAIM: Final = (
    "INSERT INTO foldline_writers (thread, epoch, owner, worker) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (thread) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, worker = excluded.worker"
)
RELEASE: Final = (
    "UPDATE foldline_writers SET owner = NULL, worker = NULL WHERE thread = ? AND epoch = ?"
)
FIRST_EPOCHS: Final = 2**40
"""A thread's first epoch is any number below: one that was deleted and made again has not the epochs it had."""
_RUNNING: Final[set[tuple[int, str, int]]] = set()
"""The claims of this process that were not given back: process (a child has its own), thread and epoch."""
logger = logging.getLogger("foldline.checkpoint")


class Writers:
    """The threads that this process owns in one store."""

    def __init__(self, database: Database, times: WorkerTimes | None = None) -> None:
        """Use a database that has the tables of `workers.SCHEMA`."""
        self._database = database
        self._workers = Workers(times)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = mutex()
        self._beating = mutex()
        """Held while the row is renewed or removed: a beat that has begun must not write it after the removal."""
        self._claims: dict[str, int] = {}
        """The epochs of the threads that this process owns through this object."""
        self._renewed = float("-inf")
        """When the row of this process was last written."""
        self._is_swept = False
        self._to_release: list[tuple[str, int]] = []
        """Threads whose release the store did not take yet."""
        self._timer_key = object()

    def _start_in_child(self) -> None:
        """Start over in a forked child: the threads are its parent's, and so is the row."""
        if self._pid != os.getpid():
            self._start()

    # -- of runs

    def claim(self, thread: str, owner: str) -> int:
        """Make a run the owner of a thread; return its epoch. Raise `ThreadBusyError` while another owner is alive."""
        self._start_in_child()
        while True:
            began = uptime()
            # Not durable: a power failure that undoes it ends this process too, and the first durable entry of the
            # run, which comes before its first effect, makes the claim durable with it.
            result = self._database.write(partial(self._try_claim, thread, owner), is_durable=False)
            if isinstance(result, int):
                self._add(thread, result, began)
                return result
            left = seconds_left()
            if not result.retry_after or (left is not None and left <= result.retry_after):
                raise result
            wait(result.retry_after)

    def is_surely_owner(self, thread: str, epoch: int) -> bool:
        """Whether nobody can have taken the thread over: the row of this process is recent. Asks no store."""
        self._start_in_child()
        is_recent = uptime() - self._renewed <= self._workers.times.stop_after
        return is_recent and self._claims.get(thread) == epoch

    def check(self, thread: str, epoch: int) -> None:
        """Raise `ThreadConflictError` where a run must not go on, for the next effect could be another one's too."""
        if self.is_surely_owner(thread, epoch):
            return
        began = uptime()
        try:
            is_owner = self._database.write(partial(self._renew_claim, thread, epoch))
        except StoreError as error:
            raise ThreadConflictError(
                f"{self._database.where}: this process could not renew its ownership of thread {thread!r:.200} for "
                f"{self._workers.times.stop_after:g} s, and another one may take it over ({error}). The run stops "
                "before its next effect; start it again when the store can be reached"
            ) from error
        if not is_owner:
            self._remove(thread, epoch)
            raise conflict(self._database.where, thread)
        self._renewed = began

    def release(self, thread: str, epoch: int) -> None:
        """Give a thread back; nothing happens where another run has taken it over.

        A store that cannot be reached is asked again while this process lives; runs of this process need not wait.
        """
        self._start_in_child()
        _RUNNING.discard((self._pid, thread, epoch))
        try:
            self._database.write(
                lambda connection: connection.run(RELEASE, (thread, epoch)), is_durable=False
            )
        except StoreError as error:
            logger.warning(
                "thread %r could not be given back, and is tried again: %s", thread, error
            )
            with self._lock:
                self._to_release.append((thread, epoch))
        self._remove(thread, epoch)

    def close(self) -> None:
        """Give all threads back and renew the row no more; a store that cannot be reached is left alone."""
        self._start_in_child()
        with self._lock:
            claims = [*self._claims.items(), *self._to_release]
            self._claims.clear()
            self._to_release.clear()
            _RUNNING.difference_update((self._pid, *claim) for claim in claims)
        TIMER.remove(self._timer_key)
        if self._renewed == float("-inf"):
            return

        def work(connection: Connection) -> None:
            for claim in claims:
                connection.run(RELEASE, claim)
            self._workers.leave(connection)

        with self._beating, suppress(StoreError):
            self._renewed = float("-inf")
            self._database.write(work)

    # -- in the transaction of a write

    def check_epoch(self, connection: Connection, thread: str, epoch: int) -> None:
        """Raise `ThreadConflictError` where another run has claimed the thread since, or it was deleted."""
        row = connection.row(OWNER, (thread,))
        if row is None or row[0] != epoch:
            raise conflict(self._database.where, thread)

    def delete(self, connection: Connection, thread: str) -> None:
        """Delete what is known of a thread; its owner may not write any more."""
        connection.run("DELETE FROM foldline_writers WHERE thread = ?", (thread,))

    def _try_claim(self, thread: str, owner: str, connection: Connection) -> int | ThreadBusyError:
        connection.lock(LockNumber.THREAD, thread)
        row = connection.row(OWNER, (thread,))
        epoch, other, worker = row or (randbelow(FIRST_EPOCHS), None, None)
        is_over = worker == this_worker().id and (self._pid, thread, int(epoch)) not in _RUNNING
        if other not in (None, owner) and not is_over:
            judgement = self._workers.judge(connection, worker)
            if judgement.is_alive is not False:
                return ThreadBusyError(
                    f"{self._database.where}: thread {thread!r:.200} belongs to run {other!r:.200} of "
                    f"{judgement.text}: nothing was written. Wait until that run ends, or end it, and try again",
                    thread,
                    other,
                    retry_after=judgement.wait or None,
                )
        self._workers.renew(connection)
        # Before the commit: nobody may see the row and not this.
        _RUNNING.add((self._pid, thread, int(epoch) + 1))
        connection.run(CLAIM, (thread, epoch + 1, owner, this_worker().id))
        return int(epoch) + 1

    def _renew_claim(self, thread: str, epoch: int, connection: Connection) -> bool:
        connection.lock(LockNumber.THREAD, thread)
        row = connection.row(OWNER, (thread,))
        if row is None or row[0] != epoch or row[2] != this_worker().id:
            return False
        self._workers.renew(connection)
        return True

    # -- the timer

    def _add(self, thread: str, epoch: int, began: float) -> None:
        with self._lock:
            is_first = not self._claims
            self._claims[thread] = epoch
            self._renewed = max(self._renewed, began)
            if is_first:
                key, this = self._timer_key, weakref.ref(self)
                TIMER.add(key, self._workers.times.beat, lambda: _beat(key, this))

    def _remove(self, thread: str, epoch: int) -> None:
        with self._lock:
            if self._claims.get(thread) == epoch:
                del self._claims[thread]
            if not self._claims and not self._to_release:
                TIMER.remove(self._timer_key)

    def _renew(self) -> None:
        began = uptime()
        with self._beating, suppress(StoreError):  # `check` notices when it lasts
            if self._renewed == float("-inf"):
                return  # it was closed meanwhile
            self._database.write(self._workers.renew)
            self._renewed = max(self._renewed, began)
            self._release_again()
            if not self._is_swept:
                self._is_swept = True
                self._database.write(self._workers.sweep)

    def _release_again(self) -> None:
        with self._lock:
            claims, self._to_release = self._to_release, []
        for claim in claims:
            self.release(*claim)


def _beat(key: object, writers: weakref.ref[Writers]) -> None:
    this = writers()
    if this is None:
        TIMER.remove(key)
    else:
        this._renew()


def conflict(where: str, thread: str) -> ThreadConflictError:
    """Return the error of a run that owns its thread no more."""
    return ThreadConflictError(
        f"{where}: this run does not own thread {thread!r:.200} any more: another run has taken it over, or the thread "
        "was deleted; nothing was written. Read the state of the thread again before you go on"
    )
