"""`BatchJob`: one question asked of many inputs, once each; it goes on where a killed process left it.

`results()` reads the inputs into the store, asks, and yields answers as they come; `run()` does it and gives the
report. Both have an async form. What is stored is the truth: results, counts and the cost cap survive the process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Self, Unpack, cast

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive, drive_each
from foldline.batches.executors import Shipment
from foldline.batches.live import LiveCalls
from foldline.batches.options import BatchOptions, Mode
from foldline.batches.parts import ProviderParts
from foldline.batches.progress import Reporter
from foldline.batches.provider import BatchApi
from foldline.batches.reading import Reading
from foldline.batches.records import BatchReport, BatchResult, Finished, Item, RejectedRow, State
from foldline.batches.rows import read_rows, write_rows
from foldline.batches.spending import JobBudget
from foldline.batches.store import JobStore, StoredResult
from foldline.batches.target import Target, make_target, read_target
from foldline.exceptions import BudgetExceeded, FoldlineError, UsageError
from foldline.utils.short_repr import short_repr

__all__ = ["BatchJob"]

MODES: Final = ("auto", "live", "provider")
KNOWN: Final = frozenset(BatchOptions.__annotations__)
CANCEL_LOOK: Final = 1.0
"""Seconds between two looks whether somebody cancelled the job."""


class BatchJob:
    """A job over many inputs. Made by `batch_job` of a model, a chain or embeddings, or by `BatchJob.resume`.

    ```python
    from foldline.language_models import FakeListChatModel
    from foldline.output_parsers import StrOutputParser

    chain = FakeListChatModel(responses=["yes"]) | StrOutputParser()
    job = chain.batch_job(["Is it raining?", "Is it cold?"])
    print(sorted((result.key, result.output) for result in job.results()))
    #> [('0', 'yes'), ('1', 'yes')]
    print(job.report().done)
    #> 2
    ```
    """

    __repr__ = short_repr

    def __init__(self, subject: Any, inputs: Any = None, **options: Unpack[BatchOptions]) -> None:  # noqa: ANN401  JSON, or whatever was given
        """Open a job; `inputs` is any iterable, or the path of a .jsonl, .csv or .parquet file. None: go on."""
        _check(options)
        self._options = options
        target = make_target(subject, options.get("config"), options.get("output_type"))
        self._store = JobStore(options.get("store", ":memory:"), options.get("name", "job"))
        self._store.open(target.fingerprint(), target.describe(), target.written())
        self._target = _paced(target, options)
        if inputs is None and not self._store.job.rows_read and not self._store.job.is_read:
            raise UsageError(
                f"{self._store.where} has no inputs for the job {self._store.name!r} yet: batch_job(inputs, …)"
            )
        self._reading = Reading(
            self._store,
            _rows(inputs),
            self._target,
            options.get("key"),
            dedupe=options.get("dedupe", True),
        )
        self._attempts = options.get("max_attempts", 3)
        self._budget = JobBudget(options.get("budget"), self._store.report(with_errors=False))
        self._reporter = Reporter(options.get("progress"))
        self._cursor = 0
        self._has_keys = options.get("key") is not None or inputs is None
        self._keys: dict[int, str] = {}
        """Of the items under way."""
        self._seconds = 0.0
        self._looked_at = 0.0
        self._is_cancelled = False

    @classmethod
    def resume(
        cls,
        location: str | Path,
        subject: Any = None,  # noqa: ANN401  JSON, or whatever was given
        **options: Unpack[BatchOptions],
    ) -> BatchJob:
        """Go on with the job of a store. What it asks is read from there where it could be written, else give it."""
        name = options.get("name", "job")
        opened = JobStore(location, name)
        found = opened.find()
        if found is None:
            known = ", ".join(opened.names()) or "none"
            raise UsageError(f"{opened.where} has no job {name!r} (it has: {known}): name=…")
        if subject is None:
            if found.written is None:
                raise UsageError(
                    f"the job {name!r} asks {found.described}, which cannot be read from the store: "
                    "BatchJob.resume(store, chain)"
                )
            subject = read_target(found.written)
        opened.close()
        merged: BatchOptions = {**options, "store": location}
        return cls(subject, None, **merged)

    # -- running

    def results(self) -> Iterator[BatchResult]:
        """Yield every result: those that the store has, then those that are asked for now, as they come."""
        return drive_each(self._results(BLOCKING))

    def aresults(self) -> AsyncGenerator[BatchResult, None]:
        """Yield every result: those that the store has, then those that are asked for now, as they come."""
        return self._results(ASYNC)

    def run(self) -> BatchReport:
        """Ask for all that waits; return the report. Answers are in the store: `answers()`, `write()`."""
        return drive(self._run(BLOCKING))

    async def arun(self) -> BatchReport:
        """Ask for all that waits; return the report. Answers are in the store: `answers()`, `write()`."""
        return await self._run(ASYNC)

    async def _run(self, io: IO) -> BatchReport:
        async with aclosing(self._work(io)) as groups:
            async for _ in groups:
                pass
        report: BatchReport = await io.call(self.report)
        return report

    async def _results(self, io: IO) -> AsyncGenerator[BatchResult, None]:
        told: set[int] = set()
        """The failed items that were given."""
        stored = self._store.results()
        while some := await io.call(lambda: list(islice(stored, 500))):
            for row in some:
                if row.error is not None:
                    told.add(row.number)
                yield self._result(row)
        async with aclosing(self._work(io)) as groups:
            async for finished in groups:
                for one in finished:
                    if one.error is None or not one.is_retryable:
                        if one.error is not None:
                            told.add(one.number)
                        yield self._fresh(one)
        async with aclosing(io.each(self._left_over(told))) as rows:
            async for row in rows:
                yield self._result(row)

    def _left_over(self, told: set[int]) -> Iterator[StoredResult]:
        """Yield what no call gave: items that were asked too often, and copies of others settled at the end."""
        failed = self._store.results((State.FAILED,))
        yield from (row for row in failed if row.number not in told)
        if self._copies:
            done = self._store.results((State.DONE,))
            yield from (row for row in done if row.how == "copy")

    async def _work(self, io: IO) -> AsyncGenerator[list[Finished], None]:
        """Hold the job and ask for all that waits; yield what was written."""
        await io.call(self._store.hold)
        began = perf_counter()
        try:
            await io.call(self._store.recover)
            self._is_cancelled = await io.call(self._store.is_cancelled)
            with self._reporter:
                async with aclosing(self._ask(io)) as groups:
                    async for finished in groups:
                        self._seconds += perf_counter() - began
                        self._reporter.tell(self.report, is_last=False)
                        began = perf_counter()
                        yield finished
                self._copies = await io.call(self._store.settle_copies)
                self._reporter.tell(self.report, is_last=True)
        finally:
            self._seconds += perf_counter() - began
            self._store.sql.release()
        self._raise_if_stopped()

    async def _ask(self, io: IO) -> AsyncGenerator[list[Finished], None]:
        api = await self._chosen_api(io)
        if api is not None:
            await self._read_all(io)
            async with aclosing(self._parts(api).run(io, may_send=self._may_send)) as groups:
                async for finished in groups:
                    self._settle(finished)
                    yield finished
        if self._mode == "provider" or self._budget.is_spent:
            if self._is_cancelled:
                await io.call(self._store.cancel_waiting)
            return
        calls = self._live_calls()
        async with aclosing(calls.run(self._advance, io)) as groups:
            async for finished in groups:
                self._settle(finished, is_counted=True)
                yield finished
        if calls.is_out_of_budget:
            self._budget.is_spent = True
        if self._is_cancelled:
            await io.call(self._store.cancel_waiting)

    # -- how it is asked

    @property
    def _mode(self) -> Mode:
        return self._options.get("mode", "auto")

    async def _chosen_api(self, io: IO) -> BatchApi | None:
        """Return the provider's batches, where they are to be used."""
        if self._mode == "live" or self._options.get("executor") is not None:
            return None
        api = self._target.batch_api()
        if self._mode == "provider":
            if api is None:
                raise UsageError(
                    f"mode='provider': {self._target.describe()} has no batches of its provider. They are there for "
                    "ChatOpenAI, ChatAnthropic, ChatGoogle and OpenAIEmbeddings, alone or as the one model of a chain"
                )
            return api
        if api is None:
            return None
        if await io.call(self._store.open_parts):
            return api
        if not self._target.prefers_batches:
            return None
        least = self._options.get("batch_from", 1000)
        while not self._reading.is_over and self._reading.count < least:
            await io.call(self._reading.read_some)
        waiting = (await io.call(self._store.report)).waiting
        return api if waiting >= least else None

    async def _read_all(self, io: IO) -> None:
        while not self._reading.is_over:
            await io.call(self._reading.read_some)

    def _parts(self, api: BatchApi) -> ProviderParts:
        return ProviderParts(
            self._target,
            api,
            self._store,
            attempts=self._attempts,
            most_requests=self._options.get("part_requests"),
            most_bytes=self._options.get("part_bytes", 64 * 1024 * 1024),
            poll_seconds=self._options.get("poll_seconds", 30.0),
            allows=self._budget.allows(self._target),
            is_cancelled=self._sees_cancel,
        )

    def _live_calls(self) -> LiveCalls:
        executor, concurrency = (
            self._options.get("executor"),
            self._options.get("max_concurrency", 16),
        )
        shipment = None
        if executor is not None:
            shipment = Shipment(self._target, self._options.get("secrets", {}), concurrency)
        return LiveCalls(
            self._target,
            concurrency=concurrency,
            scope=self._budget.scope,
            shipment=shipment,
            executor=executor,
        )

    def _advance(self, finished: list[Finished], count: int) -> list[Item]:
        """Write results; take items from where the last ones were, reading on in the inputs where there are too few."""
        self._look_for_cancel()
        count = count if self._may_send() else 0
        taken = self._store.advance(finished, self._attempts, self._cursor, count)
        while len(taken) < count and not self._reading.is_over:
            self._reading.read_some()
            taken += self._store.advance(
                [], self._attempts, _after(taken, self._cursor), count - len(taken)
            )
        if len(taken) < count and self._cursor:
            taken += self._store.advance([], self._attempts, 0, count - len(taken))
        self._cursor = _after(taken, self._cursor) if count else self._cursor
        if self._has_keys:
            self._keys.update((item.number, item.key) for item in taken if item.key is not None)
        return taken

    def _may_send(self) -> bool:
        self._look_for_cancel()
        return not self._is_cancelled and not self._has_given_up

    def _sees_cancel(self) -> bool:
        self._look_for_cancel()
        return self._is_cancelled

    def _look_for_cancel(self) -> None:
        if not self._is_cancelled and perf_counter() - self._looked_at > CANCEL_LOOK:
            self._looked_at = perf_counter()
            self._is_cancelled = self._store.is_cancelled()

    # -- what came of it

    _copies = 0
    _failed_in_a_row = 0
    _last_failure = ""

    @property
    def _has_given_up(self) -> bool:
        most = self._options.get("give_up_after", 50)
        return most is not None and self._failed_in_a_row >= most

    def _settle(self, finished: list[Finished], *, is_counted: bool = False) -> None:
        """Count what was spent, and what failed before anything was answered."""
        for one in finished:
            if not is_counted:
                self._budget.spend(one)
            if one.error is None:
                self._failed_in_a_row = (
                    -1 << 60
                )  # it works: single failures are listed, and no reason to stop
            elif not one.is_retryable:
                self._failed_in_a_row += 1
                self._last_failure = one.error

    def _raise_if_stopped(self) -> None:
        report = self._store.report(with_errors=False)
        if report.is_finished or self._is_cancelled:
            return
        if self._has_given_up:
            raise FoldlineError(
                f"the job {self._store.name!r} stopped: the first {self._failed_in_a_row} items failed, and none has "
                f"an answer. The last one said: {self._last_failure:.300}. {report.waiting} items wait: mend it and "
                "resume with a new job, or go on with give_up_after=None"
            )
        if self._budget.is_spent:
            limits = self._budget.limits
            raise BudgetExceeded(
                f"the job {self._store.name!r} stopped before its budget is passed: {report.done} items are done, "
                f"{report.waiting} wait. Resume it with a higher one (budget={limits!r})",
                used=self._budget.scope.known_cost if self._budget.scope else 0.0,
                limit=limits.cost or 0.0 if limits is not None else 0.0,
            )

    # -- looked at

    def answers(self) -> Iterator[BatchResult]:
        """Yield the results that the store has, in the order of the inputs; nothing is asked."""
        return (self._result(row) for row in self._store.results())

    def failures(self) -> Iterator[BatchResult]:
        """Yield the items that failed."""
        return (self._result(row) for row in self._store.results((State.FAILED,)))

    def rejected(self) -> Iterator[RejectedRow]:
        """Yield the rows that are no input: broken lines, keys that were there already."""
        return self._store.rejected()

    def report(self) -> BatchReport:
        """Return where the job stands."""
        report = self._store.report()
        report.seconds = self._seconds
        return report

    def input_of(self, result: BatchResult) -> Any:  # noqa: ANN401  JSON, or whatever was given
        """Return the input of a result."""
        return self._target.unpack_input(self._store.input_of(result.number))

    def write(self, path: str | Path) -> int:
        """Write the results that the store has to a .jsonl, .csv or .parquet file; return how many."""
        return write_rows((_row(result) for result in self.answers()), path)

    def cancel(self) -> None:
        """Ask for nothing more, here or wherever the job runs; batches of the provider are stopped."""
        drive(self._cancel(BLOCKING))

    async def acancel(self) -> None:
        """Ask for nothing more, here or wherever the job runs; batches of the provider are stopped."""
        await self._cancel(ASYNC)

    async def _cancel(self, io: IO) -> None:
        await io.call(self._store.cancel)
        api = self._target.batch_api()
        if api is not None and self._mode != "live" and await io.call(self._store.open_parts):
            await self._parts(api).cancel(io)
        if self._store.sql.hold(self._store.name):  # nobody works on it
            await io.call(self._store.cancel_waiting)
            self._store.sql.release()

    def retry_failed(self) -> None:
        """Let items that failed be asked again by the next run; a cancelled job goes on too."""
        self._store.retry_failed()
        self._store.reopen()
        self._failed_in_a_row = 0

    def close(self) -> None:
        """Let the store go."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result(self, row: StoredResult) -> BatchResult:
        output = (
            None
            if row.output is None or row.error is not None
            else self._target.unpack_output(row.output)
        )
        return BatchResult(
            row.key if row.key is not None else str(row.number), row.number, output, row.error,
            cast("Any", row.how), row.attempts, row.input_tokens, row.output_tokens, row.cost,
        )  # fmt: skip

    def _fresh(self, one: Finished) -> BatchResult:
        output = None if one.output is None else self._target.unpack_output(one.output)
        key = self._keys.pop(one.number, None)
        if key is None:
            key = str(one.number) if not self._has_keys else self._store.key_of(one.number)
        return BatchResult(
            key, one.number, output, one.error, one.how,
            input_tokens=one.input_tokens, output_tokens=one.output_tokens, cost=one.cost,
        )  # fmt: skip


def _after(items: list[Item], cursor: int) -> int:
    return items[-1].number + 1 if items else cursor


def _check(options: Mapping[str, Any]) -> None:
    unknown = sorted(options.keys() - KNOWN)
    if unknown:
        raise UsageError(
            f"batch_job does not know {unknown[0]!r}: it takes {', '.join(sorted(KNOWN))}"
        )
    if options.get("mode", "auto") not in MODES:
        raise UsageError(f"mode={options['mode']!r}: choose one of {', '.join(MODES)}")
    for name in ("max_concurrency", "max_attempts", "batch_from", "part_bytes", "part_requests"):
        value = options.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            raise UsageError(f"{name}={value!r}: a whole number from 1")


def _rows(inputs: Any) -> Iterable[Any] | None:  # noqa: ANN401  JSON, or whatever was given
    if inputs is None:
        return None
    if isinstance(inputs, Path) or (isinstance(inputs, str) and Path(inputs).suffix):
        return read_rows(inputs)
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(inputs, Iterable):
        raise UsageError(
            f"a job takes many inputs (a list, a generator, the path of a .jsonl, .csv or .parquet file), not "
            f"{inputs!r:.60}"
        )
    return inputs


def _paced(target: Target, options: BatchOptions) -> Target:
    """Return the target with the job's own rate limiter, where there is one."""
    limiter = options.get("rate_limiter")
    if limiter is None:
        return target
    paced = target.with_limiter(limiter)
    if paced is None:
        raise UsageError(
            f"rate_limiter=…: {target.describe()} is no chat model, nor a chain with just one: it has none"
        )
    return paced


def _row(result: BatchResult) -> dict[str, Any]:
    """Return a result as a row of a file."""
    output = result.output
    if hasattr(output, "model_dump"):
        output = (
            output.text if hasattr(output, "usage_metadata") else output.model_dump(mode="json")
        )
    return {
        "key": result.key, "number": result.number, "output": output, "error": result.error, "how": result.how,
        "attempts": result.attempts, "input_tokens": result.input_tokens, "output_tokens": result.output_tokens,
        "cost": result.cost,
    }  # fmt: skip
