"""`stream_v2` of runnables that try more than once: the first attempt that delivers anything is the stream.

A runnable makes a `StreamAttempts` and passes it to the stream of its first attempt (`stream.with_attempts(attempts)`),
which opens the next attempt whenever one fails before it delivers.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline._run import Run
from foldline.runnables import _trace
from foldline.runnables._stream_call import EventStream, StreamCall

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable


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


class _ProbeCall(StreamCall):
    """The call of a stream that is only opened to find its class."""

    def __init__(self, io: IO) -> None:
        super().__init__(None, Run(io, {}, None, {}))


def stream_of_attempts(runnable: Runnable[Any, Any], attempts: StreamAttempts) -> EventStream:
    """Return the stream of these attempts; `runnable` is one of those that are tried, and must be able to stream."""
    return runnable._open_stream_v2(_ProbeCall(attempts.io)).with_attempts(attempts)
