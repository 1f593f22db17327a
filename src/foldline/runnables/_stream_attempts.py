"""`stream_v2` of runnables that try more than once: the first attempt that delivers anything is the stream.

A runnable makes a `StreamAttempts`; `FallbackStream` reads it as the source of one stream, and opens the next attempt
whenever one fails before it delivers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import TYPE_CHECKING, Any, Final, cast

from foldline._io import IO
from foldline._run import Run
from foldline._streams.answer import Batch
from foldline._streams.source import StreamSource
from foldline._streams.state import NEW, CallState
from foldline.messages import AIMessage
from foldline.protocol.fold import MessageBuilder
from foldline.runnables import _trace
from foldline.runnables._stream_call import EventStream, StreamCall

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable

CONTENT: Final = frozenset({"content-block-start", "message-finish"})


class StreamAttempts:
    """The attempts of one stream: begun at the first read, then opened one after the other."""

    around: AbstractContextManager[Any] = nullcontext()
    """Entered around each step until the first delivery."""

    def __init__(self, runnable: Runnable[Any, Any], call: StreamCall) -> None:
        self._runnable = runnable
        self._call = call
        self._value: Any = None
        self._run: Run | None = None

    @property
    def io(self) -> IO:
        """How the call waits, sync or async."""
        return self._call.io

    async def begin(self) -> None:
        """Begin the call and dispatch the start of the run."""
        self._value, run = await self._call.begin()
        self._run = run.patched()
        await _trace.begin(self._runnable, self._value, self._run)
        self.prepare(self._value, self._run)

    def prepare(self, value: object, run: Run) -> None:
        """Prepare the first attempt."""

    def open(self) -> EventStream:
        """Open the stream of the next attempt."""
        raise NotImplementedError

    def on_delivery(self) -> None:
        """Record that something reached the reader: there are no more attempts."""

    async def on_failure(self, error: Exception) -> None:
        """Prepare the next attempt, or raise."""
        raise error

    async def end(self, output: object) -> None:
        """Handle the end of the stream, or its close by the reader."""
        if self._run is not None:
            await self._run.dispatch("on_chain_end", output)
        await self._call.end(output)

    async def fail(self, error: BaseException) -> None:
        """Handle a failure of the stream."""
        if self._run is not None:
            await self._run.dispatch("on_chain_error", error)
        await self._call.fail(error)


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


class _ProbeCall(StreamCall):
    """The call of a stream that is only opened to find its class."""

    def __init__(self, io: IO) -> None:
        super().__init__(None, Run(io, {}, None, {}))


def stream_of_attempts(runnable: Runnable[Any, Any], attempts: StreamAttempts) -> EventStream:
    """Return the stream of these attempts; `runnable` is one of those that are tried, and must be able to stream."""
    return runnable._open_stream_v2(_ProbeCall(attempts.io)).with_source(FallbackStream(attempts))
