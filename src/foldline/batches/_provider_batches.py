"""Batches of the provider: writes items into parts, sends them, waits, and reads the results.

A part is in the store before it is sent, with a tag that the provider stores too. After a crash between sending and
storing the provider's id, the batch is found by that tag: it is never sent twice.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchApi, BatchStatus
from foldline.batches._store.job_store import JobStore
from foldline.batches._targets.base import BatchRequest, Target, error_text
from foldline.batches.records import ItemOutcome, Part
from foldline.exceptions import FoldlineError, ModelError, UsageError

__all__ = ["Allowance", "ProviderBatches"]

PAGE: Final = 500
"""Items read from the store together while a part is written, and results written together."""
MOST_OPEN: Final = 8
"""Batches that are with the provider at once."""
LONGEST_POLL: Final = 300.0
MAX_DIGITS: Final = 18
"""The longest number of an item; the provider's answer may have any text in its place."""
MOST_FAILED_POLLS: Final = 20
"""Failed connections in a row after which the run ends; the batch stays at the provider."""
Allowance = Callable[[BatchRequest, int], bool]
"""Whether a further request fits the budget, after so many requests of the part."""


class ProviderBatches:
    """The batches of one job."""

    def __init__(
        self,
        target: Target,
        api: BatchApi,
        store: JobStore,
        *,
        attempts: int,
        most_requests: int | None,
        most_bytes: int,
        poll_seconds: float,
        allows: Allowance,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self._target = target
        self._api = api
        self._store = store
        self._attempts = attempts
        self._most_requests = min(most_requests or api.most_requests, api.most_requests)
        self._most_bytes = min(most_bytes, api.most_bytes)
        self._poll_seconds = poll_seconds
        self._allows = allows
        self._is_cancelled = is_cancelled
        self._has_cancelled = False
        self._failed_polls = 0
        self.is_out_of_budget = False
        self.failures: list[str] = []
        """The reasons of batches that the provider refused."""

    async def run(
        self, io: IO, *, may_send: Callable[[], bool]
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        """Send all waiting items, and yield results as batches end; without `may_send`, only read."""
        parts = await io.call(self._store.parts.open_parts)
        pause = self._poll_seconds
        while True:
            parts = await self._known_parts(parts, io)
            async with aclosing(self._fill(parts, io, may_send)) as refusals:
                async for outcomes in refusals:
                    yield outcomes
            if not parts:
                return
            count = len(parts)
            async with aclosing(self._collect_ended(parts, io)) as results:
                async for outcomes in results:
                    yield outcomes
            if len(parts) < count:
                pause = self._poll_seconds
            else:
                await io.sleep(pause)
                longest = max(LONGEST_POLL, self._poll_seconds)
                pause = min(pause * 1.5, longest) if pause >= 10 else pause

    async def _known_parts(self, parts: list[Part], io: IO) -> list[Part]:
        """Return the batches in progress with their provider ids; stop those of a cancelled job."""
        if self._is_cancelled() and not self._has_cancelled:
            self._has_cancelled = True
            await self.cancel(io)
            parts = await io.call(self._store.parts.open_parts)
        return [
            part if part.provider_id is not None else await self._find_or_send(part, io)
            for part in parts
        ]

    async def _fill(
        self, parts: list[Part], io: IO, may_send: Callable[[], bool]
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        """Send batches while items wait; yield the items that cannot be sent."""
        while len(parts) < MOST_OPEN and not self.is_out_of_budget and may_send():
            part, refusals = await self._write_part(io)
            if refusals:
                yield refusals
            if part is not None:
                parts.append(part)
            elif not refusals:
                return

    async def _collect_ended(
        self, parts: list[Part], io: IO
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        """Check the batches, and read those that have ended."""
        for part in list(parts):
            try:
                status = await self._api.status(part.provider_id or "", io)
                if status.state == "running":
                    self._failed_polls = 0
                    continue
                async with aclosing(self._collect(part, status, io)) as results:
                    async for outcomes in results:
                        yield outcomes
            except ModelError as error:
                self._failed_polls += 1
                if not error.is_retryable or self._failed_polls > MOST_FAILED_POLLS:
                    raise
                continue  # the network is down; the batch continues at the provider
            self._failed_polls = 0
            parts.remove(part)

    # -- out

    async def _write_part(self, io: IO) -> tuple[Part | None, list[ItemOutcome]]:
        """Write a part and send it; items that cannot be written fail."""
        lines: list[bytes] = []
        numbers: list[tuple[int, str | None]] = []
        refusals: list[ItemOutcome] = []
        path, size, start = "", 0, 0
        tag = f"{self._store.job.row.tag[:12]}-{time.time_ns():x}"
        is_full = False
        while not is_full:
            items = await io.call(self._store.items.waiting, start, PAGE)
            for item in items:
                start = item.number + 1
                try:
                    request = await self._target.encode(item.input, item.prompt, io)
                    line = self._api.encode_line(f"{tag}-{item.number}", request.path, request.body)
                    self._check_size(line)
                except FoldlineError as error:
                    refusals.append(ItemOutcome(item.number, None, error_text(error), None))
                    continue
                if (
                    path and request.path != path
                ):  # another endpoint (OpenAI's Responses) needs another batch
                    continue
                if not self._allows(request, len(lines)):
                    is_full = self.is_out_of_budget = True
                    break
                if len(lines) >= self._most_requests or size + len(line) + 1 > self._most_bytes:
                    is_full = True
                    break
                path = request.path
                lines.append(line)
                numbers.append((item.number, request.prompt))
                size += len(line) + 1
            if len(items) < PAGE:
                break
        if refusals:
            await io.call(self._store.parts.write_outcomes, refusals, self._attempts)
        if not lines:
            return None, refusals
        part = await io.call(self._store.parts.add, numbers, tag, time.time())
        return await self._send(part, lines, path, io), refusals

    def _check_size(self, line: bytes) -> None:
        if len(line) + 1 > self._most_bytes:
            raise UsageError(
                f"the request has {len(line)} bytes, and a batch may have {self._most_bytes}: part_bytes=…"
            )

    async def _send(self, part: Part, lines: list[bytes], path: str, io: IO) -> Part:
        try:
            provider_id = await self._api.submit(lines, part, path, io)
        except ModelError as error:
            if not error.is_retryable:
                raise await self._give_up(part, error, io) from error
            # The provider may have accepted it: perhaps only the answer was lost.
            provider_id = (
                await self._api.find(part, await io.call(self._store.parts.provider_ids), io) or ""
            )
            if not provider_id:
                raise await self._give_up(part, error, io) from error
        sent_part: Part = await io.call(self._store.parts.set_provider_id, part, provider_id)
        return sent_part

    async def _give_up(self, part: Part, error: ModelError, io: IO) -> ModelError:
        """Let the items of a part that was not accepted wait again."""
        await io.call(
            lambda: self._store.parts.end(
                part, error_text(error), is_missing=False, attempts=self._attempts + 1
            )
        )
        return error

    async def _find_or_send(self, part: Part, io: IO) -> Part:
        """Find a part that was about to be sent when a process died, or send it now."""
        provider_id = await self._api.find(part, await io.call(self._store.parts.provider_ids), io)
        if provider_id is not None:
            named: Part = await io.call(self._store.parts.set_provider_id, part, provider_id)
            return named
        lines, path = [], ""
        numbers = await io.call(self._store.parts.numbers_of, part)
        for start in range(0, len(numbers), PAGE):
            items = await io.call(self._store.parts.items_of, part, numbers[start : start + PAGE])
            for number, item in sorted(items.items()):
                request = await self._target.encode(item.input, item.prompt, io)
                lines.append(
                    self._api.encode_line(f"{part.tag}-{number}", request.path, request.body)
                )
                path = request.path
        return await self._send(part, lines, path, io)

    # -- in

    async def _collect(
        self, part: Part, status: BatchStatus, io: IO
    ) -> AsyncGenerator[list[ItemOutcome], None]:
        """Read the results of a batch that has ended; what it has no result for waits again."""
        if status.state == "ended":
            answers_by_number: dict[int, BatchAnswer] = {}
            async with aclosing(self._api.answers(status, io)) as answers:
                async for answer in answers:
                    number = _number_of(answer.custom_id, part)
                    if number is None or number in answers_by_number:
                        continue  # of no request of ours, or there twice: the first counts
                    answers_by_number[number] = answer
                    if len(answers_by_number) >= PAGE:
                        yield await self._write_answers(part, answers_by_number, io)
                        answers_by_number = {}
            if answers_by_number:
                yield await self._write_answers(part, answers_by_number, io)
        else:
            self.failures.append(status.word)
        await io.call(
            lambda: self._store.parts.end(
                part,
                status.word,
                is_missing=status.word in ("completed", "ended"),
                attempts=self._attempts,
            )
        )

    async def _write_answers(
        self, part: Part, answers: dict[int, BatchAnswer], io: IO
    ) -> list[ItemOutcome]:
        items = await io.call(self._store.parts.items_of, part, list(answers))
        outcomes = []
        for number, item in items.items():
            answer = answers[number]
            if not answer.status:
                text = f"the batch did not get to it: {answer.reason}"
                outcome = ItemOutcome(number, None, text, "batch", is_retryable=True)
            else:
                outcome = await self._target.decode(number, item.input, item.prompt, answer, io)
            outcomes.append(outcome)
        await io.call(self._store.parts.write_outcomes, outcomes, self._attempts)
        return outcomes

    async def cancel(self, io: IO) -> None:
        """Ask the provider to stop every batch of this job."""
        for part in await io.call(self._store.parts.open_parts):
            provider_id = part.provider_id
            if provider_id is None:
                provider_id = await self._api.find(
                    part, await io.call(self._store.parts.provider_ids), io
                )
            if provider_id is None:  # never sent
                await io.call(
                    lambda part=part: self._store.parts.end(
                        part, "cancelled", is_missing=False, attempts=self._attempts
                    )
                )
                continue
            await io.call(self._store.parts.set_provider_id, part, provider_id)
            await self._api.cancel(provider_id, io)


def _number_of(custom_id: str, part: Part) -> int | None:
    tag, _, number = custom_id.rpartition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS
    return int(number) if tag == part.tag and is_number else None
