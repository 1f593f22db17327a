"""Runs that are under way: `LiveRun` gathers a run's events, `Committer` puts them into the log, followers read them.

An event is given to a follower when it is in the log, not before. Events of many runs go into the log in one
transaction: at once while little happens, and after a wait of up to 20 ms while much does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from foldline._io import ASYNC
from foldline._io.serving import BackgroundTask, Notice, Workers
from foldline.exceptions import FoldlineError
from foldline.serve.errors import ServeError
from foldline.serve.json_object import JsonObject
from foldline.serve.log.records import EventsToKeep, RunInfo, RunStatus, make_event
from foldline.serve.log.run_log import RunLog

__all__ = ["Committer", "Events", "LiveRun"]

logger = logging.getLogger("foldline.serve")

Events = list[tuple[int, JsonObject]]
"""Events with their numbers."""
LONGEST_WAIT: Final = 0.02
WAIT_PER_RUN: Final = 0.0005


class LiveRun:
    """A run of this process."""

    def __init__(self, info: RunInfo, committer: Committer, largest: int) -> None:
        self.info = info
        self.events: list[JsonObject] = []
        self.logged_count = 0
        """How many events are in the log."""
        self.is_new = True
        self.is_over = False
        """Whether its end is in the log."""
        self.is_ending = False
        self.output: object = None
        self.task: BackgroundTask | None = None
        self.followers = 0
        self.forgets = False
        """Whether it is deleted when it is over and read."""
        self._committer = committer
        self._left = largest
        self._change = Notice()

    def emit(
        self, method: str, data: object, namespace: list[str] | None = None, node: str | None = None
    ) -> None:
        """Add an event."""
        self.events.append(make_event(method, data, int(time.time() * 1000), namespace, node))
        self._left -= 1
        if self._left < 0:
            raise ServeError("too_large", "the run says more than this server keeps of one run")
        self._committer.note(self)

    def end(self, status: RunStatus, result: JsonObject) -> None:
        """Add the end."""
        self.info.status, self.info.finished = status, time.time()
        self.info.result = result
        data = {"event": status, "error": result.get("error"), "usage": result.get("usage")}
        self.events.append(make_event("run", data, int(time.time() * 1000)))
        self.is_ending = True
        self._committer.note(self)

    def take(self) -> EventsToKeep:
        """Return what is not in the log yet."""
        first = self.logged_count + 1
        batch = EventsToKeep(
            self.info, first, self.events[self.logged_count :], self.is_new, self.is_ending
        )
        self.is_new = False
        return batch

    def note_commit(self, batch: EventsToKeep) -> None:
        """Take note that a batch is in the log, and wake the followers."""
        self.logged_count += len(batch.events)
        self.info.last_seq = self.logged_count
        self.is_over = batch.is_over
        self._change.set()

    def lose(self) -> None:
        """Take note that the log cannot be written: what is not in it was not said."""
        del self.events[self.logged_count :]
        self.is_over = True
        self._change.set()

    async def follow(self, after: int, ping: float | None) -> AsyncGenerator[Events, None]:
        """Return events as they get into the log; an empty list when nothing came for `ping` seconds."""
        self.followers += 1
        try:
            while True:
                if after < self.logged_count:
                    batch = self.events[after : self.logged_count]
                    numbered = list(enumerate(batch, after + 1))
                    after = self.logged_count
                    yield numbered
                elif self.is_over:
                    return
                else:
                    await self._change.wait(ping)
                    if after >= self.logged_count and not self.is_over:
                        yield []
        finally:
            self.followers -= 1

    async def ended(self) -> None:
        """Wait until the end is in the log."""
        while not self.is_over:
            await self._change.wait()


class Committer:
    """Puts the events of live runs into the log, those of many runs at a time."""

    def __init__(self, log: RunLog, on_failure: Callable[[list[LiveRun]], None]) -> None:
        self._log = log
        self._on_failure = on_failure
        self._dirty: dict[LiveRun, None] = {}
        self._arrival = Notice()
        self._task: BackgroundTask | None = None
        self._thread = Workers(1, "foldline-serve-log")
        self.is_failing = False
        self.commits = 0

    def note(self, run: LiveRun) -> None:
        """Take note that a run has something for the log."""
        self._dirty[run] = None
        if self._task is None:
            self._task = BackgroundTask(self._commit_on())
        self._arrival.set()

    async def close(self) -> None:
        """Write what is left, and stop."""
        while self._dirty and not self.is_failing:
            await ASYNC.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
            await self._task.join()
            self._task = None
        self._thread.close()

    async def _commit_on(self) -> None:
        count = 0
        while True:
            if not self._dirty:
                await self._arrival.wait()
            # One step of the loop lets a run say all that came at once; more where many runs speak.
            await ASYNC.sleep(min(LONGEST_WAIT, count * WAIT_PER_RUN) if count > 1 else 0)
            runs = list(self._dirty)
            self._dirty.clear()
            batches = [run.take() for run in runs]
            count = len(batches)
            try:
                await self._thread.call(self._log.keep, batches)
            except (FoldlineError, OSError) as error:
                await self._fail(runs, error)
                continue
            self.is_failing = False
            self.commits += 1
            for run, batch in zip(runs, batches, strict=True):
                run.note_commit(batch)

    async def _fail(self, runs: list[LiveRun], error: Exception) -> None:
        """A log that cannot be written ends its runs: what a client saw must be in it."""
        if not self.is_failing:
            logger.error("the run log cannot be written, its runs end: %s", error)
        self.is_failing = True
        self._on_failure(runs)
        await ASYNC.sleep(0.05)
