"""`stream_v2` of runnables that try more than once: the first attempt that delivers anything is the stream.

A runnable makes an `Attempts`; the stream of its first attempt is asked to be relayed (`stream.relayed(attempts)`), and
the relay asks for the next attempt whenever one failed before it delivered.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from foldline._io import IO
from foldline._run import Run
from foldline.runnables import _trace
from foldline.runnables._opening import EventStream, Opening

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable


class Attempts:
    """The attempts behind one stream: begun at the first read, then opened one after the other."""

    around: AbstractContextManager[Any] = nullcontext()
    """Entered around each step until something was delivered."""

    def __init__(self, runnable: Runnable[Any, Any], opening: Opening) -> None:
        self._runnable = runnable
        self._opening = opening
        self._value: Any = None
        self._run: Run | None = None

    @property
    def io(self) -> IO:
        """The colour of the call."""
        return self._opening.io

    async def begin(self) -> None:
        """Find the input and the run, and tell listeners of the start."""
        self._value, run = await self._opening.begin()
        self._run = run.patched()
        await _trace.begin(self._runnable, self._value, self._run)
        self.ready(self._value, self._run)

    def ready(self, value: object, run: Run) -> None:
        """Prepare for the first attempt."""

    def open(self) -> EventStream:
        """Open the stream of the next attempt."""
        raise NotImplementedError

    def delivered(self) -> None:
        """Something reached the reader: nothing is tried again."""

    async def failed(self, error: Exception) -> None:
        """Make ready for the next attempt, or raise."""
        raise error

    async def end(self, output: object) -> None:
        """The stream came to its end, or its reader closed it."""
        if self._run is not None:
            await self._run.dispatch("on_chain_end", output)
        await self._opening.end(output)

    async def fail(self, error: BaseException) -> None:
        """The stream broke."""
        if self._run is not None:
            await self._run.dispatch("on_chain_error", error)
        await self._opening.fail(error)


class Unread(Opening):
    """The opening of a stream that is only asked what kind it is."""

    def __init__(self, io: IO) -> None:
        super().__init__(None, Run(io, {}, None, {}))


def relayed(runnable: Runnable[Any, Any], attempts: Attempts) -> EventStream:
    """Return the stream of these attempts; `runnable` is one of those that are tried, which must be able to stream."""
    return runnable._open_stream_v2(Unread(attempts.io)).relayed(attempts)
