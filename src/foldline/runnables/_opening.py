"""A `stream_v2` call that has not begun: nothing happens before somebody reads the stream.

`Runnable.stream_v2` makes an `Opening` and hands it to `_open_stream_v2`. A chat model returns its stream, which calls
`begin()` when it is first read, then `end` or `fail` once (neither if `begin` itself raised). A sequence wraps the
opening: its `begin` runs the steps before the last one. A runnable that ends in no model refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from foldline._io import IO
from foldline._run import Run

if TYPE_CHECKING:
    from foldline.runnables._relay import Attempts


class EventStream(Protocol):
    """What `_open_stream_v2` gives: the stream of a chat model, which is of a layer above."""

    def relayed(self, attempts: Attempts) -> EventStream:
        """Make a stream of several attempts."""


class Opening:
    """The input and the run of a stream not yet read."""

    def __init__(self, input: object, run: Run) -> None:
        self._input = input
        self._run = run

    @property
    def io(self) -> IO:
        """The colour of the call, known before it begins."""
        return self._run.io

    @property
    def run(self) -> Run:
        """The run as far as it is known before it begins: for its config."""
        return self._run

    async def begin(self) -> tuple[Any, Run]:
        """Return the model's input and its run; called once, at the first read."""
        return self._input, self._run

    async def end(self, output: object) -> None:
        """The stream came to its end, or its reader closed it; `output` is what it gave."""

    async def fail(self, error: BaseException) -> None:
        """The stream broke."""


class Wrapped(Opening):
    """An opening around another one."""

    def __init__(self, inner: Opening) -> None:
        self._inner = inner

    @property
    def io(self) -> IO:
        """The colour of the call."""
        return self._inner.io

    @property
    def run(self) -> Run:
        """The run as far as it is known before it begins."""
        return self._inner.run

    async def begin(self) -> tuple[Any, Run]:
        """Return the inner input and run."""
        return await self._inner.begin()

    async def end(self, output: object) -> None:
        """Pass the end on."""
        await self._inner.end(output)

    async def fail(self, error: BaseException) -> None:
        """Pass the failure on."""
        await self._inner.fail(error)


class Bound(Wrapped):
    """An opening whose run gets a binding's config and arguments."""

    def __init__(self, inner: Opening, adapt: Callable[[Run], Run]) -> None:
        super().__init__(inner)
        self._adapt = adapt

    @property
    def run(self) -> Run:
        """The inner run with what is bound."""
        return self._adapt(self._inner.run)

    async def begin(self) -> tuple[Any, Run]:
        """Return the inner input, and its run with what is bound."""
        value, run = await self._inner.begin()
        return value, self._adapt(run)
