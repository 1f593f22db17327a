"""A `stream_v2` call that has not begun: nothing runs before the stream is read.

`Runnable.stream_v2` makes a `StreamCall` and passes it to `_open_stream_v2`. A chat model returns its stream, which
calls `begin()` when it is first read, then `end` or `fail` once (neither if `begin` itself raised). A sequence wraps
the call: its `begin` runs the steps before the last one. A runnable that does not end in a model raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from foldline._io import IO
from foldline._run import Run
from foldline._streams.source import StreamSource
from foldline._streams.state import EVENTS, View


class EventStream(Protocol):
    """The result of `_open_stream_v2`: the stream of a chat model, which is in a layer above."""

    def with_source(self, source: StreamSource) -> EventStream:
        """Return a stream of another source."""


class StreamCall:
    """The input and the run of a stream that has not been read."""

    def __init__(self, input: object, run: Run, view: View = EVENTS) -> None:
        self._input = input
        self._run = run
        self._view = view

    @property
    def view(self) -> View:
        """What handlers and the caller get: the events of a `stream_v2`, or the chunks and message of a v1 stream."""
        return self._view

    @property
    def io(self) -> IO:
        """How the call waits, sync or async."""
        return self._run.io

    @property
    def run(self) -> Run:
        """The run before it begins: for its config."""
        return self._run

    async def begin(self) -> tuple[Any, Run]:
        """Return the model's input and its run; called once, at the first read."""
        return self._input, self._run

    async def end(self, output: object) -> None:
        """Handle the end of the stream, or its close by the reader; `output` is the message."""

    async def fail(self, error: BaseException) -> None:
        """Handle a failure of the stream."""


class StreamCallWrapper(StreamCall):
    """A stream call around another one."""

    def __init__(self, inner: StreamCall) -> None:
        self._inner = inner

    @property
    def view(self) -> View:
        """What handlers and the caller get."""
        return self._inner.view

    @property
    def io(self) -> IO:
        """How the call waits, sync or async."""
        return self._inner.io

    @property
    def run(self) -> Run:
        """The run before it begins."""
        return self._inner.run

    async def begin(self) -> tuple[Any, Run]:
        """Return the inner input and run."""
        return await self._inner.begin()

    async def end(self, output: object) -> None:
        """Forward the end."""
        await self._inner.end(output)

    async def fail(self, error: BaseException) -> None:
        """Forward the failure."""
        await self._inner.fail(error)


class BoundStreamCall(StreamCallWrapper):
    """A stream call whose run gets the config and arguments of a binding."""

    def __init__(self, inner: StreamCall, adapt: Callable[[Run], Run]) -> None:
        super().__init__(inner)
        self._adapt = adapt

    @property
    def run(self) -> Run:
        """The inner run with the bound config and arguments."""
        return self._adapt(self._inner.run)

    async def begin(self) -> tuple[Any, Run]:
        """Return the inner input, and its run with the bound config and arguments."""
        value, run = await self._inner.begin()
        return value, self._adapt(run)
