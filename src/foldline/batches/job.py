"""`BatchJob`: runs a model, a chain or embeddings once for each of many inputs; it can be resumed after a crash.

`results()` reads the inputs into the store, makes the calls, and yields results as they come; `run()` does the same and
returns the report. Both have an async form. Results, counts and the budget are in the store and survive the process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any, Self, Unpack, cast

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive, drive_each
from foldline.batches._input_reader import InputReader, open_inputs
from foldline.batches._runner import JobRunner, make_batches
from foldline.batches._store.item_table import StoredResult
from foldline.batches._store.job_store import JobStore
from foldline.batches._targets.base import Target, read_definition
from foldline.batches._targets.make import make_target
from foldline.batches.options import BatchOptions, check_options
from foldline.batches.records import (
    BatchItem,
    BatchReport,
    BatchResult,
    ItemOutcome,
    ItemState,
    RejectedRow,
)
from foldline.batches.rows import write_rows
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr

__all__ = ["BatchJob"]

PAGE = 500


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

    def __init__(
        self, subject: object, inputs: object = None, **options: Unpack[BatchOptions]
    ) -> None:
        """Open a job; `inputs` is any iterable, or the path of a .jsonl, .csv or .parquet file; None resumes."""
        check_options(options)
        self._options = options
        rows = open_inputs(inputs)
        target = make_target(subject, options.get("config"), options.get("output_type"))
        target.check_limits(options.get("budget"))
        self._store = JobStore(options.get("store", ":memory:"), options.get("name", "job"))
        self._store.job.open(target.fingerprint(), target.describe(), target.definition())
        self._target = _with_limiter(target, options)
        row = self._store.job.row
        if rows is None and not row.rows_read and not row.is_read:
            raise UsageError(
                f"{self._store.where} has no inputs for the job {self._store.name!r} yet: batch_job(inputs, …)"
            )
        self._inputs = InputReader(
            self._store,
            rows,
            self._target,
            options.get("key"),
            dedupe=options.get("dedupe", True),
        )
        self._runner = JobRunner(self._store, self._target, self._inputs, options)
        self._has_keys = options.get("key") is not None or rows is None
        self._keys: dict[int, str] = {}
        """The inputs of the items in progress."""

    @classmethod
    def resume(
        cls,
        location: str | Path,
        subject: object = None,
        **options: Unpack[BatchOptions],
    ) -> BatchJob:
        """Resume the job of a store. Pass its runnable or embeddings where the store could not save it."""
        name = options.get("name", "job")
        store = JobStore(location, name)
        row = store.job.find()
        if row is None:
            names = ", ".join(store.job.names()) or "none"
            raise UsageError(f"{store.where} has no job {name!r} (it has: {names}): name=…")
        if subject is None:
            if row.definition is None:
                raise UsageError(
                    f"the job {name!r} asks {row.description}, which cannot be read from the store: "
                    "BatchJob.resume(store, chain)"
                )
            subject = read_definition(row.definition)
        store.close()
        merged: BatchOptions = {**options, "store": location}
        return cls(subject, None, **merged)

    # -- running

    def results(self) -> Iterator[BatchResult]:
        """Yield every result: those of the store, then new ones as they come."""
        return drive_each(self._results(BLOCKING))

    def aresults(self) -> AsyncGenerator[BatchResult, None]:
        """Yield every result: those of the store, then new ones as they come."""
        return self._results(ASYNC)

    def run(self) -> BatchReport:
        """Run all waiting items; return the report. The results are in the store: `answers()`, `write()`."""
        return drive(self._run(BLOCKING))

    async def arun(self) -> BatchReport:
        """Run all waiting items; return the report. The results are in the store: `answers()`, `write()`."""
        return await self._run(ASYNC)

    async def _run(self, io: IO) -> BatchReport:
        async with aclosing(self._runner.run(io, _forget_items)) as groups:
            async for _ in groups:
                pass
        report: BatchReport = await io.call(self.report)
        return report

    async def _results(self, io: IO) -> AsyncGenerator[BatchResult, None]:
        failures: set[int] = set()
        """The failed items that were yielded."""
        stored = self._store.items.results()
        while page := await io.call(lambda: list(islice(stored, PAGE))):
            for row in page:
                if row.error is not None:
                    failures.add(row.number)
                yield self._stored_result(row)
        async with aclosing(self._runner.run(io, self._note_keys)) as groups:
            async for outcomes in groups:
                for outcome in outcomes:
                    if outcome.error is None or not outcome.is_retryable:
                        if outcome.error is not None:
                            failures.add(outcome.number)
                        yield self._new_result(outcome)
        async with aclosing(io.each(self._last_results(failures))) as rows:
            async for row in rows:
                yield self._stored_result(row)

    def _last_results(self, failures: set[int]) -> Iterator[StoredResult]:
        """Yield the items that no call answered: those out of attempts, and copies of others."""
        for row in self._store.items.results((ItemState.FAILED,)):
            if row.number not in failures:
                yield row
        if self._runner.copies:
            rows = self._store.items.results((ItemState.DONE,))
            yield from (row for row in rows if row.source == "copy")

    def _note_keys(self, items: list[BatchItem]) -> None:
        if self._has_keys:
            self._keys.update((item.number, item.key) for item in items if item.key is not None)

    # -- what it has

    def answers(self) -> Iterator[BatchResult]:
        """Yield the results of the store, in the order of the inputs; no call is made."""
        return (self._stored_result(row) for row in self._store.items.results())

    def failures(self) -> Iterator[BatchResult]:
        """Yield the items that failed."""
        return (self._stored_result(row) for row in self._store.items.results((ItemState.FAILED,)))

    def rejected(self) -> Iterator[RejectedRow]:
        """Yield the rejected rows: broken lines, duplicate keys."""
        return self._store.inputs.rejects()

    def report(self) -> BatchReport:
        """Return the state and the usage of the job."""
        return self._runner.report()

    def input_of(self, result: BatchResult) -> Any:  # noqa: ANN401  whatever the input was
        """Return the input of a result."""
        return self._target.unpack_input(self._store.items.input_of(result.number))

    def write(self, path: str | Path) -> int:
        """Write the results of the store to a .jsonl, .csv or .parquet file; return how many."""
        return write_rows((_file_row(result) for result in self.answers()), path)

    def _stored_result(self, row: StoredResult) -> BatchResult:
        has_output = row.output is not None and row.error is None
        output = self._target.unpack_output(cast("str", row.output)) if has_output else None
        return BatchResult(
            row.key if row.key is not None else str(row.number), row.number, output, row.error,
            cast("Any", row.source), row.attempts, row.input_tokens, row.output_tokens, row.cost,
        )  # fmt: skip

    def _new_result(self, outcome: ItemOutcome) -> BatchResult:
        output = None if outcome.output is None else self._target.unpack_output(outcome.output)
        number = outcome.number
        key = self._keys.pop(number, None)
        if key is None:
            key = self._store.items.key_of(number) if self._has_keys else str(number)
        return BatchResult(
            key, number, output, outcome.error, outcome.source,
            input_tokens=outcome.input_tokens, output_tokens=outcome.output_tokens, cost=outcome.cost,
        )  # fmt: skip

    # -- stopping and going on

    def cancel(self) -> None:
        """Cancel the job, in any process; its batches at the provider are stopped."""
        drive(self._cancel(BLOCKING))

    async def acancel(self) -> None:
        """Cancel the job, in any process; its batches at the provider are stopped."""
        await self._cancel(ASYNC)

    async def _cancel(self, io: IO) -> None:
        await io.call(self._store.job.set_cancelled)
        api = self._target.batch_api()
        is_live = self._options.get("mode") == "live"
        if api is not None and not is_live and await io.call(self._store.parts.open_parts):
            await make_batches(self._store, self._target, api, self._options).cancel(io)
        if await io.call(self._store.try_lock):  # no process works on it
            try:
                await io.call(self._store.items.cancel_waiting)
            finally:
                self._store.unlock()

    def retry_failed(self) -> None:
        """Let the next run repeat the failed items; a cancelled job continues too."""
        self._store.items.retry_failures()
        self._store.items.reopen()
        self._runner.forget_failures()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _forget_items(items: list[BatchItem]) -> None:
    """Record nothing: `run` needs no keys."""


def _with_limiter(target: Target, options: BatchOptions) -> Target:
    """Return the target with the job's rate limiter, where there is one."""
    limiter = options.get("rate_limiter")
    if limiter is None:
        return target
    paced = target.with_limiter(limiter)
    if paced is None:
        raise UsageError(
            f"rate_limiter=…: {target.describe()} is not a chat model or a chain with one: it takes no rate limiter"
        )
    return paced


def _file_row(result: BatchResult) -> dict[str, Any]:
    """Return a result as a row of a file."""
    output = result.output
    if hasattr(output, "model_dump"):
        output = (
            output.text if hasattr(output, "usage_metadata") else output.model_dump(mode="json")
        )
    return {
        "key": result.key, "number": result.number, "output": output, "error": result.error,
        "source": result.source, "attempts": result.attempts, "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens, "cost": result.cost,
    }  # fmt: skip
