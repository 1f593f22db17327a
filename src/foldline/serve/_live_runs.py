"""Runs in progress: `LiveRun` collects a run's events, `Committer` writes them to the log, followers read them.

A follower gets an event only when it is in the log. Events of many runs are written in one transaction: at once under
low load, and after a wait of up to 20 ms under high load.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from foldline._io import ASYNC
from foldline._io.serving import BackgroundTask, Notice, Workers
from foldline._io.timers import Timers
from foldline._io.turns import SLICE, Turns
from foldline.exceptions import FoldlineError
from foldline.serve._json_object import JsonObject
from foldline.serve._log.answers import Refusal
from foldline.serve._log.events import EncodedEvent, Events, encode_event
from foldline.serve._log.records import (
    EventsToKeep,
    RunRecord,
    RunStatus,
    end_event,
    make_event,
)
from foldline.serve._log.requests import Repeat
from foldline.serve._log.run_log import ServerLog
from foldline.serve.errors import ServeError
from foldline.serve.settings import MEBIBYTE

__all__ = ["Committer", "LiveRun"]

logger = logging.getLogger("foldline.serve")

LONGEST_WAIT: Final = 0.02
WAIT_PER_RUN: Final = 0.0005
EVENTS_AT_ONCE: Final = 32
"""Events of one run in one commit of many runs, and in one piece that a follower gets."""
EVENTS_OF_COMMIT: Final = 1_024
"""Events in one commit of few runs: a slow disk is not asked more often than needed."""
MOST_UNLOGGED: Final = 1_024
"""A run with more events that are not in the log waits for it."""
FREE_EVENTS: Final = 8
"""So many events are sent without waiting for a turn."""
EVENT_SIZE: Final = 64
"""Bytes that an event needs in memory, besides its JSON."""
GONE: Final = "it was deleted, or another worker took this one for dead"
MESSAGE_EDGES: Final = frozenset({"message-start", "message-finish"})


class LiveRun:
    """A run of this process.

    Its last events are in memory: up to `stream_buffer` bytes, and all that are not in the log yet. A follower that is
    further behind is fed from the log.
    """

    def __init__(
        self, info: RunRecord, committer: Committer, largest: int, stream_buffer: int = MEBIBYTE
    ) -> None:
        self.info = info
        self.events: list[EncodedEvent] = []
        """The events in memory."""
        self.dropped_count = 0
        """The number of events before them, which are in the log only."""
        self.key_events: list[JsonObject] = []
        """Those that say how the run ends: questions, and the starts and ends of messages."""
        self.has_begun = False
        """Whether the app has done anything."""
        self.logged_count = 0
        """The number of events in the log."""
        self.is_new = True
        self._is_queued = False
        """Whether it is in the log, and waits in line."""
        self.is_over = False
        """Whether its end is in the log."""
        self.is_ending = False
        self.output: object = None
        self.task: BackgroundTask | None = None
        self.followers = 0
        self.forgets = False
        """Whether the run is deleted when it has ended."""
        self.refusal: Refusal | Repeat | None = None
        """Why it was not started: others were first to continue a run, or the request is a repeat."""
        self.is_refused = False
        """Whether the app refused to start: what the run has claimed is free again."""
        self.first_event: float | None = None
        """When the first event after its start came, on the monotonic clock."""
        self._committer = committer
        self._remaining_events = largest
        self._change = Notice()
        self._paced_count = 0
        self._buffer = stream_buffer
        self._size = 0
        """The bytes of the events in memory."""

    @property
    def count(self) -> int:
        """The number of events."""
        return self.dropped_count + len(self.events)

    def emit(
        self, method: str, data: object, namespace: list[str] | None = None, node: str | None = None
    ) -> None:
        """Add an event."""
        event = make_event(method, data, int(time.time() * 1000), namespace, node)
        self._add(event)
        if self.first_event is None and method != "run":
            self.first_event = time.monotonic()
        if method == "messages":
            self.has_begun = True
            if event["params"]["data"]["event"] in MESSAGE_EDGES:
                self.key_events.append(event)
        elif method not in ("run", "lifecycle"):
            self.has_begun = True
            if method == "input.requested":
                self.key_events.append(event)
        self._remaining_events -= 1
        if self._remaining_events < 0:
            raise ServeError(
                "too_large", "the run has more events than this server keeps of one run"
            )
        self._committer.note(self)

    def _add(self, event: JsonObject) -> None:
        data = encode_event(event)
        self.events.append(data)
        self._size += len(data) + EVENT_SIZE
        if self._size > self._buffer:
            self._shrink()

    async def pace(self) -> None:
        """Give way to others after some events, and wait for the log where it is far behind."""
        count = self.count - self._paced_count
        if count < SLICE:
            return
        self._paced_count += count
        await self._committer.turns.spend(count)
        while self.count - self.logged_count > MOST_UNLOGGED and not self.is_over:
            await self._change.wait()

    def end(self, status: RunStatus, result: JsonObject) -> None:
        """Add the event of the run's end."""
        self.info.status, self.info.finished = status, time.time()
        self.info.result = result
        self._add(end_event(status, result))
        self.is_ending = True
        self._committer.note(self)

    def take(self, limit: int) -> EventsToKeep:
        """Return the next events that are not in the log yet."""
        first = self.logged_count - self.dropped_count
        events = self.events[first : first + limit]
        is_last = first + len(events) == len(self.events)
        batch = EventsToKeep(
            self.info,
            self.logged_count + 1,
            events,
            self.is_new,
            self.is_ending and is_last,
            self.is_refused,
        )
        self.is_new = False
        return batch

    def note_commit(self, batch: EventsToKeep) -> None:
        """Record that a batch is in the log, and wake the followers."""
        self.logged_count += len(batch.events)
        self.info.last_seq = self.logged_count
        self.is_over = batch.is_over
        if self.logged_count < self.count:
            self._committer.note(self)
        self._shrink()
        self._change.set()

    def _shrink(self) -> None:
        """Drop events that are in the log, the oldest first, where those in memory need too much."""
        if self.forgets:
            return  # they leave the log at the end, and readers may be behind
        count, logged = 0, self.logged_count - self.dropped_count
        while self._size > self._buffer and count < logged:
            self._size -= len(self.events[count]) + EVENT_SIZE
            count += 1
        if count:
            self.dropped_count += count
            del self.events[:count]

    def lose(self) -> None:
        """End the run because the log cannot be written; events that are not in it are dropped."""
        del self.events[self.logged_count - self.dropped_count :]
        self.is_over = True
        self._change.set()

    async def follow(self, after: int, ping: float | None) -> AsyncGenerator[Events, None]:
        """Yield events as they are logged; an empty list after `ping` seconds without any."""
        self.followers += 1
        try:
            while True:
                if after < self.logged_count:
                    batch = await self._next_events(after)
                    if not batch:
                        return  # the run was deleted
                    after = batch[-1][0]
                    if len(batch) > FREE_EVENTS:
                        await self._committer.turns.spend(len(batch))
                    yield batch
                elif self.is_over:
                    return
                else:
                    await self._change.wait(self._committer.timers, ping)
                    if after >= self.logged_count and not self.is_over:
                        yield []
        finally:
            self.followers -= 1

    async def _next_events(self, after: int) -> Events:
        """Return some of the logged events after a number."""
        first = after - self.dropped_count
        if first < 0:
            return await self._committer.read(self.info.id, after)
        last = min(self.logged_count - self.dropped_count, first + EVENTS_AT_ONCE)
        return list(enumerate(self.events[first:last], after + 1))

    async def all_events(self) -> list[EncodedEvent]:
        """Return all logged events, also those that are no more in memory."""
        if not self.dropped_count:
            return self.events[: self.logged_count]
        return [event async for batch in self.follow(0, None) for _, event in batch]

    async def wait_for_begin(self) -> None:
        """Wait until the run is in the log: its id may be given away then."""
        while not self.is_logged and not self.is_over:
            await self._change.wait()

    @property
    def is_logged(self) -> bool:
        """Whether the run is in the log, with events or before them."""
        return self._is_queued or self.logged_count > 0

    def note_begin(self) -> None:
        """Record that the run is in the log, though it has no events yet."""
        self._is_queued = True
        self._change.set()

    async def wait_for_end(self) -> None:
        """Wait until the end is in the log."""
        while not self.is_over:
            await self._change.wait()


class Committer:
    """Writes the events of live runs to the log, those of many runs in one transaction."""

    def __init__(
        self,
        log: ServerLog,
        on_failure: Callable[..., None],
        read: Callable[[str, int], Awaitable[Events]],
    ) -> None:
        self.turns = Turns()
        self.timers = Timers()
        self.read = read
        """Reads some events of a run after a number from the log."""
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
            self._task = BackgroundTask(self._commit_forever(), is_of_server=True)
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
            count = len(runs)
            limit = max(EVENTS_AT_ONCE, EVENTS_OF_COMMIT // count)
            batches = [run.take(limit) for run in runs]
            start = time.monotonic()
            try:
                gone = await self._thread.call(self._log.keep, batches)
            except (FoldlineError, OSError) as error:
                await self._fail(runs, error)
                continue
            self.is_failing = False
            self.commits += 1
            if self.on_commit is not None:
                self.on_commit(time.monotonic() - start)
            for run, batch in zip(runs, batches, strict=True):
                if run.info.id in gone:
                    logger.warning("run %s ends: %s", run.info.id, GONE)
                    self._on_failure([run], GONE)
                else:
                    run.note_commit(batch)
            # While it waits, it keeps no run and no event in memory.
            del run, runs, batch, batches

    async def _fail(self, runs: list[LiveRun], error: Exception) -> None:
        """End the runs: clients may see only events that are in the log."""
        if not self.is_failing:
            logger.error("the run log cannot be written, its runs end: %s", error)
        self.is_failing = True
        self._on_failure(runs)
        await ASYNC.sleep(0.05)
