"""Live calls: groups of items in progress at once, whose results are written together.

The store is the only place that knows what is done, so that another process can continue after a crash; and each
transaction with it costs milliseconds. Everything here follows from these two facts:

- One transaction does both: it writes the results that have come, and takes the next items, which count as started from
  then on. An item is in one of four places: the store, `_ready` (taken, waiting for a place), `_running`, `_outcomes`
  (ended, not written). Whatever ends the run, `_leave` gives back what is ready and writes what has ended; what a dying
  process takes with it is repeated, and nothing is lost.
- A transaction is due (`_is_due`) when a result has waited long enough, or when there is room for more items and it is
  worth it. How much room there is depends on how long a call takes. Slow calls (a network): one item for each free
  place, a quarter of the places at a time. Quick calls (a cache, a fake): so many items, in groups that run one after
  the other in this thread, that there is one transaction every 20 ms.
- How long a call takes is measured, not configured: the first calls are made one at a time (`_limit_now`).
- Nothing is spent on an assumption. Until a first answer has come, only `probe_items` are under way: a wrong key
  fails for every item. An executor's workers do not see the budget, and get as many items as it allows if each is as
  dear as the dearest so far (`_affordable`).

The loop in `run` does one thing after another, and waits in one place, `_next_outcomes`. It ends when nothing runs,
nothing is ready, and nothing is left to write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from time import perf_counter
from typing import Any, Final, cast

from foldline._io import IO, Channel
from foldline.batches._executors import CHUNK, PortableTarget, is_lost, workers_of
from foldline.batches._targets.base import Target, error_text
from foldline.batches.records import BatchItem, ItemOutcome
from foldline.language_models._call.policies.usage_scope import UsageScope
from foldline.messages.usage import UsageMetadata, add_usage

__all__ = ["Advance", "LiveCalls", "not_begun"]

Advance = Callable[[list[ItemOutcome], int], list[BatchItem]]
"""Writes results and returns the next items: as many as requested, or fewer where no more wait."""

QUICK: Final = 0.001
"""Seconds: shorter calls do not wait for a network, and threads would only slow them down."""
GROUP_SECONDS: Final = 0.02
"""How long a group of quick calls may take."""
WRITE_SECONDS: Final = 0.05
"""How long a result, and a free place, wait for others before they are written and filled."""
LARGEST_GROUP: Final = 500
MOST_TAKEN: Final = 2000
PROBE_SECONDS: Final = 0.05
"""How long the first calls are made one at a time, to see whether they are quick."""
PROBES: Final = 3


class LiveCalls:
    """The live calls of a job: some groups of items under way, here or on an executor."""

    def __init__(
        self,
        target: Target,
        *,
        concurrency: int,
        scope: UsageScope | None,
        portable: PortableTarget | None = None,
        probe_items: int | None = None,
    ) -> None:
        """Take a target and how to call it; until a first answer, `probe_items` are under way at most."""
        self._target = target
        self._scope = scope
        self._portable = portable
        self._probe_items = probe_items
        self._is_remote = portable is not None
        executor = None if portable is None else portable.executor
        chunk = int(getattr(executor, "chunk_size", 0) or CHUNK)
        self._limit = workers_of(executor) * 2 if self._is_remote else concurrency
        self._group = chunk if self._is_remote else target.group_size or 1
        self._grows = not self._is_remote and target.group_size is None
        self._seconds = 1.0
        """The recent average of seconds per item."""
        self._calls = 0
        self._has_answer = False
        self._failures = 0
        """Items that failed before the first answer."""
        self._start_time = 0.0
        self._highest: dict[str, float] = {}
        """The highest usage of an item for each limit, where an executor's workers cannot share the scope."""
        self._ready: deque[BatchItem] = deque()
        """Items that were taken from the store, and wait for a free place."""
        self._running: dict[int, tuple[list[BatchItem], Any]] = {}
        self._outcomes: list[ItemOutcome] = []
        """Results that are not written."""
        self._write_time = 0.0
        self._is_dry = False
        """Whether the store had fewer items than were asked for: it has none until a result puts one back."""
        self._next_id = 0
        self.is_out_of_budget = False
        self.executor_error: BaseException | None = None
        """The error by which the executor was lost: nothing more is sent."""

    @property
    def _is_stopped(self) -> bool:
        return self.is_out_of_budget or self.executor_error is not None

    async def run(self, advance: Advance, io: IO) -> AsyncGenerator[list[ItemOutcome], None]:
        """Run all items that `advance` returns; yield the outcomes as they are written."""
        done = io.channel()
        self._start_time = self._write_time = perf_counter()
        try:
            while True:
                room = self._room()
                if self._is_due(room) and (written := await self._exchange(room, advance, io)):
                    yield written
                self._start(done, io)
                if self._is_stopped:
                    self._put_back()
                if self._running:
                    self._outcomes += await self._next_outcomes(room, done)
                elif self._outcomes:
                    self._write_time = 0.0  # nothing will come that they could wait for
                elif not self._ready:
                    break
        except BaseException as error:
            # A reader that stops early waits for calls in progress, which are paid for; an exiting program does not.
            waits = isinstance(error, GeneratorExit)
            await self._leave(advance, done if waits else None)
            raise

    def _is_due(self, room: int) -> bool:
        """Whether it is time for a transaction, which writes what has come and takes items for the free places."""
        has_waited = perf_counter() - self._write_time >= WRITE_SECONDS
        if self._outcomes and has_waited:
            return True
        is_idle = not self._running and not self._ready
        return bool(room) and (is_idle or has_waited or self._is_worth(room))

    async def _exchange(self, room: int, advance: Advance, io: IO) -> list[ItemOutcome]:
        """Write the results and take the next items, in one transaction; return what was written."""
        items = await io.call(advance, self._outcomes, room)
        written, self._outcomes, self._write_time = self._outcomes, [], perf_counter()
        if room:
            self._is_dry = len(items) < room
        if any(outcome.is_retryable for outcome in written):
            self._is_dry = False  # it is in the store again
        self._ready.extend(items)
        return written

    async def _next_outcomes(self, room: int, done: Channel) -> list[ItemOutcome]:
        """Wait until a group ends; not for long, if there is something to write, to take or to measure meanwhile."""
        is_probing = self._limit_now() < self._limit and not self._is_quick
        has_work = bool(self._outcomes or room or is_probing)
        ended = await (done.get_within(WRITE_SECONDS) if has_work else done.get())
        return [] if ended is None else self._collect(ended)

    def _put_back(self) -> None:
        """Give back the items that were taken and will not be started."""
        self._outcomes += [not_begun(item) for item in self._ready]
        self._ready.clear()

    # -- what is taken and started

    def _room(self) -> int:
        """Return how many items to take now."""
        if self._is_dry or self._is_stopped:
            return 0
        ready = len(self._ready)
        if self._grows:
            self._group = (
                int(min(LARGEST_GROUP, GROUP_SECONDS / self._seconds)) if self._is_quick else 1
            )
        if self._is_quick:
            return 0 if ready > self._group else MOST_TAKEN
        free = self._limit_now() - len(self._running)
        room = min(MOST_TAKEN, free * self._group - ready)
        if not self._has_answer and self._probe_items is not None:
            # What fails for every item must not fail for thousands before anybody can see it.
            room = min(room, self._probe_items - self._failures - ready - self._pending)
        return max(0, room)

    @property
    def _pending(self) -> int:
        return sum(len(items) for items, _ in self._running.values())

    @property
    def _is_quick(self) -> bool:
        # Only after a first answer: a chain that fails quickly must not fail for thousands of items at once.
        return self._grows and self._has_answer and self._seconds < QUICK

    def _limit_now(self) -> int:
        """Return how many groups may run at once: at first one, to measure the time of a call."""
        if not self._grows:
            return self._limit
        is_probe = self._calls < PROBES and perf_counter() - self._start_time < PROBE_SECONDS
        return 1 if self._is_quick or is_probe else self._limit

    def _is_worth(self, room: int) -> bool:
        """Whether so much room is worth a transaction."""
        return self._is_quick or room >= max(1, self._limit_now() // 4) * self._group

    def _start(self, done: Channel, io: IO) -> None:
        """Start groups of the items that are ready, in the free places."""
        ready = self._ready
        while ready and not self._is_stopped and len(self._running) < self._limit_now():
            size = self._affordable(min(self._group_now(), len(ready)))
            if not size:
                return
            items = [ready.popleft() for _ in range(size)]
            id, self._next_id = self._next_id, self._next_id + 1
            self._running[id] = (items, None)
            self._running[id] = (items, self._launch(id, items, done, io))

    def _group_now(self) -> int:
        """Return the size of the next group: before a first answer the few items are divided among the workers."""
        if self._has_answer or self._probe_items is None or not self._is_remote:
            return self._group
        return min(self._group, max(1, self._probe_items // self._limit))

    def _launch(self, id: int, items: list[BatchItem], done: Channel, io: IO) -> Any:  # noqa: ANN401  RunningBody or a future
        pairs = [(item.number, item.input) for item in items]
        if self._portable is None:
            return io.start(self._work(id, pairs, done, io))
        try:
            future = self._portable.submit(pairs)
        except Exception as error:  # noqa: BLE001  of any executor: it was shut down, or its pool broke
            self.executor_error = error
            done.put((id, None, error))
            return None
        future.add_done_callback(lambda ended: done.put((id, *_outcome(ended))))
        return future

    async def _work(self, id: int, pairs: list[tuple[int, str]], done: Channel, io: IO) -> None:
        start_time = perf_counter()
        try:
            outcomes = await self._target.run_items(pairs, io, self._scope)
        except BaseException as error:
            done.put((id, None, error))
            raise
        seconds = (perf_counter() - start_time) / len(pairs)
        self._calls += 1
        self._seconds = (
            min(self._seconds, seconds)
            if self._calls <= PROBES
            else 0.7 * self._seconds + 0.3 * seconds
        )
        done.put((id, outcomes, None))

    def _affordable(self, size: int) -> int:
        """Return how many items to send to an executor: one until a first has ended, then as the budget allows."""
        scope = self._scope
        if not self._is_remote or scope is None or not scope.is_limited:
            return size
        pending = self._pending
        if not self._highest:
            return 0 if pending else 1
        count = float(size)
        for name, highest in self._highest.items():
            limit = scope.limits.of(name)
            if limit is not None and highest:
                count = min(count, (limit - scope.used(name)) / highest - pending)
        timeout = scope.limits.timeout
        if timeout is not None and scope.elapsed >= timeout:
            count = 0
        if count < 1 and not pending:
            self.is_out_of_budget = True
        return max(0, int(count))

    def _count_remote(self, outcomes: list[ItemOutcome]) -> None:
        """Count the usage of items that an executor's workers ran."""
        for item in outcomes:
            tokens = {"input_tokens": item.input_tokens, "output_tokens": item.output_tokens}
            usage = {**tokens, "total_tokens": item.input_tokens + item.output_tokens}
            used = {**usage, "cost": item.cost or 0.0, "model_calls": 1}
            for name, amount in used.items():
                self._highest[name] = max(self._highest.get(name, 0), amount)
            if self._scope is not None:
                self._scope.known_cost += item.cost or 0.0
                self._scope.model_calls += 1
                self._scope.usage = add_usage(self._scope.usage, cast("UsageMetadata", usage))

    # -- what came of it

    def _collect(self, outcome: Any) -> list[ItemOutcome]:  # noqa: ANN401  of the channel: id, results, error
        id, outcomes, error = outcome
        items, _ = self._running.pop(id)
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            text = error_text(error)
            if self._portable is not None and (
                error is self.executor_error or is_lost(self._portable.executor, error)
            ):
                self.executor_error = error
                return [not_begun(item, text) for item in items]
            return [
                ItemOutcome(item.number, None, text, "live", is_retryable=True) for item in items
            ]
        if self._is_remote:
            outcomes = [ItemOutcome(*fields) for fields in outcomes]
            self._count_remote(outcomes)
        self._has_answer = self._has_answer or any(item.error is None for item in outcomes)
        self._failures += sum(bool(item.error) and not item.is_retryable for item in outcomes)
        if any(not item.was_called for item in outcomes):
            self.is_out_of_budget = True
        return list(outcomes)

    async def _leave(self, advance: Advance, done: Channel | None) -> None:
        """Write the known outcomes; items that were taken and not begun wait again."""
        self._put_back()
        while self._running and done is not None:
            self._outcomes += self._collect(await done.get())
        for _, started in self._running.values():
            if started is not None:
                started.cancel()
        if self._outcomes:
            advance(self._outcomes, 0)


def _outcome(future: Any) -> tuple[Any, BaseException | None]:  # noqa: ANN401  of any executor
    try:
        return future.result(), None
    except BaseException as error:  # noqa: BLE001  raised by the reader
        return None, error


def not_begun(item: BatchItem, reason: str = "not begun") -> ItemOutcome:
    """Return the outcome of an item that is put back."""
    return ItemOutcome(item.number, None, reason, None, is_retryable=True, was_called=False)
