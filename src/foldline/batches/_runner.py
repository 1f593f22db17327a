"""`JobRunner`: one run of a job: reads the inputs, runs them live or in the provider's batches, and writes results.

The store is locked while it runs. However it ends (an error, a reader that stops early, Ctrl-C), answers are in the
store, and the other items wait there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from time import perf_counter
from typing import Final

from foldline._io import IO
from foldline.batches._batch_api import BatchApi
from foldline.batches._budget import JobBudget
from foldline.batches._executors import PortableTarget
from foldline.batches._input_reader import InputReader
from foldline.batches._live import LiveCalls, not_begun
from foldline.batches._progress import JobProgress
from foldline.batches._provider_batches import ProviderBatches
from foldline.batches._store.job_store import JobStore
from foldline.batches._targets.base import Target, error_text
from foldline.batches.options import BatchOptions, Mode
from foldline.batches.records import BatchItem, BatchReport, ItemOutcome
from foldline.exceptions import BudgetExceeded, FoldlineError, StoreError, UsageError

__all__ = ["JobRunner", "make_batches"]

CANCEL_PERIOD: Final = 1.0
"""Seconds between two checks whether the job was cancelled."""


class JobRunner:
    """One run of a job."""

    def __init__(
        self, store: JobStore, target: Target, inputs: InputReader, options: BatchOptions
    ) -> None:
        self._store = store
        self._target = target
        self._inputs = inputs
        self._options = options
        self._attempts = options.get("max_attempts", 3)
        self._budget = JobBudget(options.get("budget"), store.job.report(with_errors=False))
        self._progress = JobProgress(options.get("progress"), store.name)
        self._cursor = 0
        """The number of the next item to look for."""
        self._is_cancelled = False
        self._cancel_check = 0.0
        """The time of the last check whether the job was cancelled."""
        self._has_answer = False
        self._failures = 0
        """Items that failed before the first answer."""
        self._failed_calls = 0
        """Calls that failed before the first answer, also those of items that are tried again."""
        self._last_error = ""
        self.copies = 0
        """Items that got the answer of another at the end."""
        self.seconds = 0.0

    def report(self) -> BatchReport:
        """Return the state and the usage of the job."""
        report = self._store.job.report()
        report.seconds = self.seconds
        return report

    async def run(
        self, io: IO, note_items: Callable[[list[BatchItem]], None]
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        """Lock the job and run all waiting items; yield written outcomes. `note_items` gets the items taken."""
        await io.call(self._store.lock)
        start = perf_counter()
        try:
            await io.call(self._store.items.recover)
            self._is_cancelled = await io.call(self._store.job.is_cancelled)
            with self._progress as progress:
                async with aclosing(self._run_items(io, note_items)) as groups:
                    async for outcomes in groups:
                        self.seconds += perf_counter() - start
                        if progress.is_due:
                            progress.show(await io.call(self.report))
                        start = perf_counter()
                        yield outcomes
                self.copies = await io.call(self._store.items.settle_copies)
                if progress.is_shown:
                    progress.show(await io.call(self.report))
        finally:
            self.seconds += perf_counter() - start
            self._store.unlock()
        self._raise_if_stopped(await io.call(self._store.job.report, with_errors=False))

    async def _run_items(
        self, io: IO, note_items: Callable[[list[BatchItem]], None]
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        api = await self._choose_api(io)
        if api is not None:
            await self._read_all(io)
            batches = self._batches(api)
            async with aclosing(batches.run(io, may_send=self._may_send)) as groups:
                async for outcomes in groups:
                    for outcome in outcomes:
                        self._budget.spend(outcome)
                    self._count(outcomes)
                    yield outcomes
        if self._mode != "provider" and not self._budget.is_spent:
            calls = self._live_calls()

            def advance(outcomes: list[ItemOutcome], count: int) -> list[BatchItem]:
                items = self._advance(outcomes, count)
                note_items(items)
                return items

            async with aclosing(calls.run(advance, io)) as groups:
                async for outcomes in groups:
                    self._count(outcomes)
                    yield outcomes
            self._budget.is_spent = calls.is_out_of_budget
            if calls.executor_error is not None:
                raise await self._executor_error(calls.executor_error, io) from calls.executor_error
            if self._inputs.error is not None:  # the inputs that were read before are run
                raise self._inputs.error
        if self._is_cancelled:
            await io.call(self._store.items.cancel_waiting)

    async def _executor_error(self, error: BaseException, io: IO) -> FoldlineError:
        report = await io.call(self._store.job.report, with_errors=False)
        return FoldlineError(
            f"the job {self._store.name!r} stopped: its executor is lost ({error_text(error):.300}). "
            f"{report.done} items are done, {report.waiting} wait: resume it with a new executor"
        )

    # -- how it is asked

    @property
    def _mode(self) -> Mode:
        return self._options.get("mode", "auto")

    async def _choose_api(self, io: IO) -> BatchApi | None:
        """Return the provider's batches, where the job uses them."""
        if self._mode == "live" or self._options.get("executor") is not None:
            return None
        api = self._target.batch_api()
        if self._mode == "provider":
            if api is None:
                raise UsageError(
                    f"mode='provider': {self._target.describe()} has no batches of its provider. They are there for "
                    "ChatOpenAI, ChatAnthropic, ChatGoogle (the Gemini API), OpenAIEmbeddings and "
                    "GoogleGenerativeAIEmbeddings, alone or as the one model of a chain"
                )
            return api
        if api is None:
            return None
        if await io.call(self._store.parts.open_parts):
            return api
        if not self._target.prefers_batches:
            return None
        least = self._options.get("batch_from", 1000)
        while not self._inputs.is_over and self._inputs.count < least:
            await io.call(self._inputs.read_page)
        report = await io.call(self._store.job.report, with_errors=False)
        return api if report.waiting >= least else None

    async def _read_all(self, io: IO) -> None:
        while not self._inputs.is_over:
            await io.call(self._inputs.read_page)
        if self._inputs.error is not None:
            raise self._inputs.error

    def _batches(self, api: BatchApi) -> ProviderBatches:
        return make_batches(
            self._store,
            self._target,
            api,
            self._options,
            allows=self._budget.allows(self._target),
            is_cancelled=self._check_cancel,
        )

    def _live_calls(self) -> LiveCalls:
        executor = self._options.get("executor")
        concurrency = self._options.get("max_concurrency", 16)
        portable = None
        if executor is not None:
            secrets = self._options.get("secrets", {})
            portable = PortableTarget(self._target, executor, secrets, concurrency)
        return LiveCalls(
            self._target,
            concurrency=concurrency,
            scope=self._budget.scope,
            portable=portable,
            probe_items=self._options.get("give_up_after", 50),
        )

    def _advance(self, outcomes: list[ItemOutcome], count: int) -> list[BatchItem]:
        """Write results and take the next items; read more inputs where there are too few."""
        count = count if self._may_send() else 0
        items = self._store.items.advance(outcomes, self._attempts, self._cursor, count)
        try:
            self._take_more(items, count)
        except BaseException:
            with suppress(StoreError):  # the next run finds items that cannot be put back
                self._store.items.advance([not_begun(item) for item in items], 1, 0, 0)
            raise
        self._cursor = _number_after(items, self._cursor) if count else self._cursor
        return items

    def _take_more(self, items: list[BatchItem], count: int) -> None:
        """Take further items: read more inputs, then start again at the first items."""
        store = self._store.items
        while len(items) < count and not self._inputs.is_over:
            self._inputs.read_page()
            cursor = _number_after(items, self._cursor)
            items += store.advance([], self._attempts, cursor, count - len(items))
        if len(items) < count and self._cursor:
            items += store.advance([], self._attempts, 0, count - len(items))

    # -- when it stops

    def _may_send(self) -> bool:
        return not self._check_cancel() and not self._has_given_up

    def _check_cancel(self) -> bool:
        """Check at intervals whether the job was cancelled."""
        if not self._is_cancelled and perf_counter() - self._cancel_check > CANCEL_PERIOD:
            self._cancel_check = perf_counter()
            self._is_cancelled = self._store.job.is_cancelled()
        return self._is_cancelled

    @property
    def _has_given_up(self) -> bool:
        most = self._options.get("give_up_after", 50)
        if most is None or self._has_answer:
            return False
        return self._failures >= most or self._failed_calls >= most * self._attempts

    def _count(self, outcomes: list[ItemOutcome]) -> None:
        """Count the failures before the first answer; later ones do not stop the job."""
        for outcome in outcomes:
            if outcome.error is None:
                self._has_answer = True
            elif outcome.was_called:
                self._failed_calls += 1
                self._failures += not outcome.is_retryable
                self._last_error = outcome.error

    def forget_failures(self) -> None:
        """Reset the count of failures before the first answer."""
        self._failures = self._failed_calls = 0

    def _raise_if_stopped(self, report: BatchReport) -> None:
        if report.is_finished or self._is_cancelled:
            return
        if self._has_given_up:
            calls = max(self._failures, self._failed_calls)
            raise FoldlineError(
                f"the job {self._store.name!r} stopped: the first {calls} calls failed, and no item has an answer. "
                f"The last one said: {self._last_error:.300}. {report.waiting} items wait: correct it and resume with "
                "a new job, or continue with give_up_after=None"
            )
        if self._budget.is_spent:
            limits, scope = self._budget.limits, self._budget.scope
            raise BudgetExceeded(
                f"the job {self._store.name!r} stopped before its budget is passed: {report.done} items are done, "
                f"{report.waiting} wait. Resume it with a higher one (budget={limits!r})",
                used=scope.known_cost if scope is not None else 0.0,
                limit=limits.cost or 0.0 if limits is not None else 0.0,
            )


def make_batches(
    store: JobStore,
    target: Target,
    api: BatchApi,
    options: BatchOptions,
    *,
    allows: Callable[..., bool] = lambda request, place: True,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ProviderBatches:
    """Return the provider's batches of a job."""
    return ProviderBatches(
        target,
        api,
        store,
        attempts=options.get("max_attempts", 3),
        most_requests=options.get("part_requests"),
        most_bytes=options.get("part_bytes", 64 * 1024 * 1024),
        poll_seconds=options.get("poll_seconds", 30.0),
        allows=allows,
        is_cancelled=is_cancelled,
    )


def _number_after(items: list[BatchItem], number: int) -> int:
    return items[-1].number + 1 if items else number
