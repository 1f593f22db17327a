"""Several calls in one stream: the first that delivers is the stream (retries, fallbacks)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from foldline.language_models.call.batch import Batch
from foldline.language_models.call.state import NEW, CallState
from foldline.language_models.streams.source import StreamSource
from foldline.messages import AIMessage
from foldline.protocol.fold import MessageBuilder
from foldline.runnables._stream_attempts import StreamAttempts

CONTENT = frozenset({"content-block-start", "message-finish"})


class FallbackStream:
    """The source of a stream over several attempts: forwards to the current one."""

    def __init__(self, attempts: StreamAttempts) -> None:
        self._attempts = attempts
        self._source: StreamSource | None = None
        self._empty_builder = MessageBuilder()
        self._is_closing = False
        self.error: BaseException | None = None

    @property
    def is_closing(self) -> bool:
        """Whether the stream is closed while it is read."""
        return self._is_closing

    @is_closing.setter
    def is_closing(self, value: bool) -> None:
        self._is_closing = value
        if self._source is not None:
            self._source.is_closing = value

    @property
    def builder(self) -> MessageBuilder:
        """The fold of the current attempt."""
        return self._source.builder if self._source is not None else self._empty_builder

    @property
    def message(self) -> AIMessage | None:
        """The message of the last attempt."""
        return self._source.message if self._source is not None else None

    @property
    def state(self) -> CallState:
        """Where the current attempt is."""
        return NEW if self._source is None else self._source.state

    @property
    def undelivered(self) -> Batch:
        """The last batch of an attempt whose conclusion was interrupted."""
        return self._source.undelivered if self._source is not None else ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield the events of the first attempt that delivers any."""
        attempts = self._attempts
        await attempts.begin()
        try:
            async with aclosing(self._attempt_batches()) as batches:
                async for batch in batches:
                    yield batch
        except BaseException as error:
            closed_error = self._source.error if self._source is not None else None
            if self._is_closing or isinstance(error, GeneratorExit):
                self.error = closed_error
                await attempts.end(self.message)
            else:
                self.error = error
                await attempts.fail(error)
            raise
        await attempts.end(self.message)

    async def _attempt_batches(self) -> AsyncGenerator[Batch, None]:
        attempts = self._attempts
        while True:
            stream: Any = attempts.open()
            source = self._source = cast("StreamSource", stream._source)
            async with aclosing(source.batches()) as batches:
                pending_batches: list[Batch] = []
                try:
                    with attempts.around:
                        await _read_to_content(batches, pending_batches)
                except Exception as error:  # noqa: BLE001  raised again unless there is another attempt
                    failure = error
                else:
                    attempts.on_delivery()
                    for batch in pending_batches:
                        yield batch
                    async for batch in batches:
                        yield batch
                    return
            try:
                await attempts.on_failure(failure)
            except Exception:
                for batch in pending_batches:  # there is no other attempt: this one is the stream
                    yield batch
                raise


async def _read_to_content(
    batches: AsyncGenerator[Batch, None], pending_batches: list[Batch]
) -> None:
    """Read batches up to the first with content: a failure before it leaves no trace (T97)."""
    async for batch in batches:
        pending_batches.append(batch)
        if any(event["event"] in CONTENT for event in batch):
            return
