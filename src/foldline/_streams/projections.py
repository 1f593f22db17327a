"""Projections: views of one part of a stream (its text, its reasoning, its tool calls), sync and async.

The content is in `Deltas`, which the stream holds; a projection is a light view of it that requests more when it runs
out: from its stream, or from an external driver (`set_request_more`, `set_arequest_more`). The stream has only a weak
reference to a projection, so that dropping it closes its connection at once, without a garbage collector.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from foldline._io import Signal
from foldline._lazy import publish

D = TypeVar("D")
W = TypeVar("W")

RequestMore = Callable[[], bool]
ARequestMore = Callable[[], Awaitable[bool]]


class StreamFailure:
    """An error that many readers raise: its traceback is restored each time, so that it does not grow."""

    __slots__ = ("_traceback", "error")

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException = error
        self._traceback: TracebackType | None = error.__traceback__

    def as_raised(self) -> BaseException:
        """Return the error as it was first raised."""
        return self.error.with_traceback(self._traceback)


class Deltas(Generic[D, W]):
    """The content of one part of a stream so far, and its end."""

    __slots__ = ("failure", "is_done", "items", "join", "request_more", "signal", "value")

    def __init__(self, join: Callable[[list[D]], W]) -> None:
        self.items: list[D] = []
        self.join: Callable[[list[D]], W] = join
        self.value: W | None = None
        self.failure: StreamFailure | None = None
        self.is_done: bool = False
        self.request_more: Callable[[], Any] | None = None
        """A function that produces more, if not the stream does."""
        self.signal: Signal | None = None
        """Wakes a waiting reader; created when one waits."""

    def push(self, delta: D) -> None:
        """Add a delta; ignored after the end."""
        if self.is_done:
            return
        self.items.append(delta)
        if self.signal is not None:
            self.signal.set()

    def end(self, value: W | None, failure: StreamFailure | None) -> None:
        """End the part; a second call is ignored."""
        if self.is_done:
            return
        self.is_done, self.value, self.failure = True, value, failure
        if self.signal is not None:
            self.signal.set()

    def result(self) -> W:
        """Return the complete content, or raise the failure."""
        if self.failure is not None:
            raise self.failure.as_raised()
        if self.value is not None:
            return self.value
        return self.join(self.items)


class Projection(Generic[D, W]):
    """The producer's side of the sync and the async projection, and what can be read without waiting."""

    __slots__ = ("__weakref__", "_deltas", "_request_more")

    _join: Callable[[list[Any]], Any] = list

    def __init__(
        self, deltas: Deltas[D, W] | None = None, request_more: Callable[[], Any] | None = None
    ) -> None:
        """Create a view of a stream's deltas, or one that is driven externally."""
        self._deltas: Deltas[D, W] = Deltas(type(self)._join) if deltas is None else deltas
        self._request_more = request_more

    def push(self, delta: D) -> None:
        """Add a delta."""
        self._deltas.push(delta)

    def complete(self, value: W | None = None) -> None:
        """End the projection; `value` is its complete content if joining the deltas does not return it."""
        self._deltas.end(value, None)

    def fail(self, error: BaseException) -> None:
        """End the projection with an error; a finished projection stays finished."""
        self._deltas.end(None, StreamFailure(error))

    @property
    def done(self) -> bool:
        """Whether the projection has ended."""
        return self._deltas.is_done

    @property
    def error(self) -> BaseException | None:
        """The error, if it failed."""
        return self._deltas.failure.error if self._deltas.failure else None

    @property
    def so_far(self) -> W:
        """The content so far, without waiting; also readable after a failure."""
        deltas = self._deltas
        return deltas.join(deltas.items) if deltas.value is None else deltas.value

    def __bool__(self) -> bool:
        """Whether there is any content so far; does not wait."""
        return any(self._deltas.items) or (self._deltas.is_done and bool(self.so_far))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} so far: {self.so_far!r:.200}>"


class SyncProjection(Projection[D, W]):
    """A projection for sync code."""

    __slots__ = ()

    def set_request_more(self, callback: RequestMore | None) -> None:
        """Set the function that produces more; it returns False when there is no more."""
        self._deltas.request_more = callback

    def _advance(self) -> bool:
        request_more = self._deltas.request_more or self._request_more
        return request_more is not None and bool(request_more())

    def __iter__(self) -> Iterator[D]:
        deltas, position = self._deltas, 0
        items = deltas.items
        while True:
            if items is not deltas.items:  # the attempt failed and its deltas were dropped
                items, position = deltas.items, 0
            while position < len(items):
                position += 1
                yield items[position - 1]
            if deltas.is_done:
                break
            if not self._advance() and position >= len(items):
                break
        if deltas.failure is not None:
            raise deltas.failure.as_raised()

    def get(self) -> W:
        """Read to the end and return the complete content."""
        while not self._deltas.is_done and self._advance():
            pass
        return self._deltas.result()


class SyncTextProjection(SyncProjection[str, str]):
    """Text: iterates slices; `str()` returns the complete text."""

    __slots__ = ()
    _join = "".join

    def __str__(self) -> str:
        return self.get()

    def __repr__(self) -> str:
        return repr(self.so_far)


class AsyncProjection(Projection[D, W]):
    """A projection for async code: `async for` and `await`."""

    __slots__ = ()

    def set_arequest_more(self, callback: ARequestMore | None) -> None:
        """Set the function that produces more; it returns False when there is no more."""
        self._deltas.request_more = callback

    async def _advance(self) -> bool:
        request_more = self._deltas.request_more or self._request_more
        if request_more is not None:
            return bool(await request_more())
        if self._deltas.signal is None:
            self._deltas.signal = Signal()
        await self._deltas.signal.wait()
        return True

    async def __aiter__(self) -> AsyncIterator[D]:
        deltas, position = self._deltas, 0
        items = deltas.items
        while True:
            if items is not deltas.items:  # the attempt failed and its deltas were dropped
                items, position = deltas.items, 0
            while position < len(items):
                position += 1
                yield items[position - 1]
            if deltas.is_done:
                break
            if not await self._advance() and position >= len(items):
                break
        if deltas.failure is not None:
            raise deltas.failure.as_raised()

    async def get(self) -> W:
        """Read to the end and return the complete content."""
        while not self._deltas.is_done and await self._advance():
            pass
        return self._deltas.result()

    def __await__(self) -> Generator[Any, None, W]:
        return self.get().__await__()


class AsyncTextProjection(AsyncProjection[str, str]):
    """Text: iterates slices; `await` returns the complete text."""

    __slots__ = ()
    _join = "".join

    def __repr__(self) -> str:
        return repr(self.so_far)


class AwaitableValue(Generic[W]):
    """A value that can be awaited several times; nothing is pending if it is not awaited."""

    __slots__ = ("__weakref__", "_body")

    def __init__(self, body: Callable[[], Awaitable[W]]) -> None:
        self._body = body

    def __await__(self) -> Generator[Any, None, W]:
        return cast("Generator[Any, None, W]", self._body().__await__())


publish(
    "foldline.language_models.chat_model_stream",
    AsyncProjection,
    AsyncTextProjection,
    SyncProjection,
    SyncTextProjection,
)
