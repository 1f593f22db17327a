"""Projections: views of one part of a stream (its text, its reasoning, its tool calls), sync and async.

What was said is in `Deltas`, which the stream holds; a projection is a light view on it that asks for more when it runs
out: of the stream it belongs to, or of whoever drives it from outside (`set_request_more`, `set_arequest_more`). The
stream holds a projection only weakly, so that dropping it closes its connection at once, without a garbage collector.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from foldline._io import Signal

D = TypeVar("D")
W = TypeVar("W")

RequestMore = Callable[[], bool]
ARequestMore = Callable[[], Awaitable[bool]]


class Failure:
    """An error that many readers raise: its traceback is put back each time, so that it does not grow."""

    __slots__ = ("_traceback", "error")

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException = error
        self._traceback: TracebackType | None = error.__traceback__

    def as_raised(self) -> BaseException:
        """Return the error as it was first raised."""
        return self.error.with_traceback(self._traceback)


class Deltas(Generic[D, W]):
    """What one part of a stream has said so far, and how it ended."""

    __slots__ = ("ask", "failure", "is_done", "items", "join", "signal", "value")

    def __init__(self, join: Callable[[list[D]], W]) -> None:
        self.items: list[D] = []
        self.join: Callable[[list[D]], W] = join
        self.value: W | None = None
        self.failure: Failure | None = None
        self.is_done: bool = False
        self.ask: Callable[[], Any] | None = None
        """How to get more, where somebody else than the stream says so."""
        self.signal: Signal | None = None
        """Wakes a reader who waits; made when one does."""

    def push(self, delta: D) -> None:
        """Add a delta; after the end nothing is added."""
        if self.is_done:
            return
        self.items.append(delta)
        if self.signal is not None:
            self.signal.set()

    def end(self, value: W | None, failure: Failure | None) -> None:
        """Say that no more will come; what has ended stays as it ended."""
        if self.is_done:
            return
        self.is_done, self.value, self.failure = True, value, failure
        if self.signal is not None:
            self.signal.set()

    def result(self) -> W:
        """Return everything said, or raise the failure."""
        if self.failure is not None:
            raise self.failure.as_raised()
        if self.value is not None:
            return self.value
        return self.join(self.items)


class Projection(Generic[D, W]):
    """The producer's side of the sync and the async projection, and what can be read without waiting."""

    __slots__ = ("__weakref__", "_deltas", "_more")

    _join: Callable[[list[Any]], Any] = list

    def __init__(
        self, deltas: Deltas[D, W] | None = None, more: Callable[[], Any] | None = None
    ) -> None:
        """Make a view on a stream's deltas, or one that somebody else drives."""
        self._deltas: Deltas[D, W] = Deltas(type(self)._join) if deltas is None else deltas
        self._more = more

    def push(self, delta: D) -> None:
        """Add a delta."""
        self._deltas.push(delta)

    def complete(self, value: W | None = None) -> None:
        """Say that no more will come; `value` is the whole where joining the deltas does not give it."""
        self._deltas.end(value, None)

    def fail(self, error: BaseException) -> None:
        """Say that no more will come because of an error; a finished projection stays finished."""
        self._deltas.end(None, Failure(error))

    @property
    def done(self) -> bool:
        """Whether no more will come."""
        return self._deltas.is_done

    @property
    def error(self) -> BaseException | None:
        """Why no more will come, if it failed."""
        return self._deltas.failure.error if self._deltas.failure else None

    @property
    def so_far(self) -> W:
        """What has been said so far, without waiting; also readable after a failure."""
        deltas = self._deltas
        return deltas.join(deltas.items) if deltas.value is None else deltas.value

    def __bool__(self) -> bool:
        """Whether anything has been said so far; does not wait."""
        return any(self._deltas.items) or (self._deltas.is_done and bool(self.so_far))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} so far: {self.so_far!r:.200}>"


class SyncProjection(Projection[D, W]):
    """A projection that is iterated and read blocking."""

    __slots__ = ()

    def set_request_more(self, callback: RequestMore | None) -> None:
        """Say how to get more: a function that returns False when there is no more."""
        self._deltas.ask = callback

    def _advance(self) -> bool:
        ask = self._deltas.ask or self._more
        return ask is not None and bool(ask())

    def __iter__(self) -> Iterator[D]:
        deltas, place = self._deltas, 0
        items = deltas.items
        while True:
            if items is not deltas.items:  # the attempt failed: what came of it was dropped
                items, place = deltas.items, 0
            while place < len(items):
                place += 1
                yield items[place - 1]
            if deltas.is_done:
                break
            if not self._advance() and place >= len(items):
                break
        if deltas.failure is not None:
            raise deltas.failure.as_raised()

    def get(self) -> W:
        """Read to the end and give the whole."""
        while not self._deltas.is_done and self._advance():
            pass
        return self._deltas.result()


class SyncTextProjection(SyncProjection[str, str]):
    """Text: iterates pieces; `str()` gives the whole."""

    __slots__ = ()
    _join = "".join

    def __str__(self) -> str:
        return self.get()

    def __repr__(self) -> str:
        return repr(self.so_far)


class AsyncProjection(Projection[D, W]):
    """A projection that is iterated with `async for` and awaited."""

    __slots__ = ()

    def set_arequest_more(self, callback: ARequestMore | None) -> None:
        """Say how to get more: an async function that returns False when there is no more."""
        self._deltas.ask = callback

    async def _advance(self) -> bool:
        ask = self._deltas.ask or self._more
        if ask is not None:
            return bool(await ask())
        if self._deltas.signal is None:
            self._deltas.signal = Signal()
        await self._deltas.signal.wait()
        return True

    async def __aiter__(self) -> AsyncIterator[D]:
        deltas, place = self._deltas, 0
        items = deltas.items
        while True:
            if items is not deltas.items:  # the attempt failed: what came of it was dropped
                items, place = deltas.items, 0
            while place < len(items):
                place += 1
                yield items[place - 1]
            if deltas.is_done:
                break
            if not await self._advance() and place >= len(items):
                break
        if deltas.failure is not None:
            raise deltas.failure.as_raised()

    async def get(self) -> W:
        """Read to the end and give the whole."""
        while not self._deltas.is_done and await self._advance():
            pass
        return self._deltas.result()

    def __await__(self) -> Generator[Any, None, W]:
        return self.get().__await__()


class AsyncTextProjection(AsyncProjection[str, str]):
    """Text: iterates pieces; `await` gives the whole."""

    __slots__ = ()
    _join = "".join

    def __repr__(self) -> str:
        return repr(self.so_far)


class Later(Generic[W]):
    """Something to be awaited, as often as one likes; nothing is pending if nobody does."""

    __slots__ = ("__weakref__", "_body")

    def __init__(self, body: Callable[[], Awaitable[W]]) -> None:
        self._body = body

    def __await__(self) -> Generator[Any, None, W]:
        return cast("Generator[Any, None, W]", self._body().__await__())
