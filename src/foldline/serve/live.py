"""Runs in progress: `LiveRun` collects a run's events, `Committer` writes them to the log, followers read them.

A follower gets an event only when it is in the log. Events of many runs are written in one transaction: at once under
low load, and after a wait of up to 20 ms under high load.
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
from foldline.serve.log.answers import Refusal
from foldline.serve.log.records import EventsToKeep, RunRecord, RunStatus, make_event
from foldline.serve.log.run_log import RunLog

__all__ = ["Committer", "Events", "LiveRun"]

logger = logging.getLogger("foldline.serve")

Events = list[tuple[int, JsonObject]]
"""Events with their numbers."""
LONGEST_WAIT: Final = 0.02
WAIT_PER_RUN: Final = 0.0005


class LiveRun:
    """A run of this process."""

    def __init__(self, info: RunRecord, committer: Committer, largest: int) -> None:
        self.info = info
        self.events: list[JsonObject] = []
        self.logged_count = 0
        """The number of events in the log."""
        self.is_new = True
        self.is_over = False
        """Whether its end is in the log."""
        self.is_ending = False
        self.output: object = None
        self.task: BackgroundTask | None = None
        self.followers = 0
        self.forgets = False
        """Whether the run is deleted when it has ended."""
        self.refusal: Refusal | None = None
        """Why it does not continue another run: others were first."""
        self.is_refused = False
        """Whether the app refused to start: what the run has claimed is free again."""
        self.first_event: float | None = None
        """When the first event after its start came, on the monotonic clock."""
        self._committer = committer
        self._remaining_events = largest
        self._change = Notice()

    def emit(
        self, method: str, data: object, namespace: list[str] | None = None, node: str | None = None
    ) -> None:
        """Add an event."""
        self.events.append(make_event(method, data, int(time.time() * 1000), namespace, node))
        if len(self.events) == 2:
            self.first_event = time.monotonic()
        self._remaining_events -= 1
        if self._remaining_events < 0:
            raise ServeError(
                "too_large", "the run has more events than this server keeps of one run"
            )
        self._committer.note(self)

    def end(self, status: RunStatus, result: JsonObject) -> None:
        """Add the event of the run's end."""
        self.info.status, self.info.finished = status, time.time()
        self.info.result = result
        data = {"event": status, "error": result.get("error"), "usage": result.get("usage")}
        self.events.append(make_event("run", data, int(time.time() * 1000)))
        self.is_ending = True
        self._committer.note(self)

    def take(self) -> EventsToKeep:
        """Return the events that are not in the log yet."""
        first = self.logged_count + 1
        batch = EventsToKeep(
            self.info,
            first,
            self.events[self.logged_count :],
            self.is_new,
            self.is_ending,
            self.is_refused,
        )
        self.is_new = False
        return batch

    def note_commit(self, batch: EventsToKeep) -> None:
        """Record that a batch is in the log, and wake the followers."""
        self.logged_count += len(batch.events)
        self.info.last_seq = self.logged_count
        self.is_over = batch.is_over
        self._change.set()

    def lose(self) -> None:
        """End the run because the log cannot be written; events that are not in it are dropped."""
        del self.events[self.logged_count :]
        self.is_over = True
        self._change.set()

    async def follow(self, after: int, ping: float | None) -> AsyncGenerator[Events, None]:
        """Yield events as they are logged; an empty list after `ping` seconds without any."""
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

    async def wait_for_begin(self) -> None:
        """Wait until the run is in the log: its id may be given away then."""
        while not self.logged_count and not self.is_over:
            await self._change.wait()

    async def wait_for_end(self) -> None:
        """Wait until the end is in the log."""
        while not self.is_over:
            await self._change.wait()


class Committer:
    """Writes the events of live runs to the log, those of many runs in one transaction."""

    def __init__(self, log: RunLog, on_failure: Callable[[list[LiveRun]], None]) -> None:
        self._log = log
        self._on_failure = on_failure
        self._dirty: dict[LiveRun, None] = {}
        self._arrival = Notice()
        self._task: BackgroundTask | None = None
        self._thread = Workers(1, "foldline-serve-log")
        self.is_failing = False
        self.commits = 0
        self.on_commit: Callable[[float], None] | None = None
        """Called with the seconds that a transaction took."""

    def note(self, run: LiveRun) -> None:
        """Record that a run has new events."""
        self._dirty[run] = None
        if self._task is None:
            self._task = BackgroundTask(self._commit_forever())
        self._arrival.set()

    async def close(self) -> None:
        """Write the remaining events, and stop."""
        while self._dirty and not self.is_failing:
            await ASYNC.sleep(0.01)
        if self._task is not None:
            self._task.cancel()
            await self._task.join()
            self._task = None
        self._thread.close()

    async def _commit_forever(self) -> None:
        count = 0
        while True:
            if not self._dirty:
                await self._arrival.wait()
            # Events that come together are written together; the wait grows with the number of runs.
            await ASYNC.sleep(min(LONGEST_WAIT, count * WAIT_PER_RUN) if count > 1 else 0)
            runs = list(self._dirty)
            self._dirty.clear()
            batches = [run.take() for run in runs]
            count = len(batches)
            start = time.monotonic()
            try:
                await self._thread.call(self._log.keep, batches)
            except (FoldlineError, OSError) as error:
                await self._fail(runs, error)
                continue
            self.is_failing = False
            self.commits += 1
            if self.on_commit is not None:
                self.on_commit(time.monotonic() - start)
            for run, batch in zip(runs, batches, strict=True):
                run.note_commit(batch)

    async def _fail(self, runs: list[LiveRun], error: Exception) -> None:
        """End the runs: clients may see only events that are in the log."""
        if not self.is_failing:
            logger.error("the run log cannot be written, its runs end: %s", error)
        self.is_failing = True
        self._on_failure(runs)
        await ASYNC.sleep(0.05)
