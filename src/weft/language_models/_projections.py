"""Projections: views of one part of a stream (its text, its reasoning, its tool calls), in two colours.

A projection keeps every delta, so each iteration begins at the first one. When it runs out it asks for more: of the
stream it belongs to, or of whoever drives it from outside (`set_request_more`, `set_arequest_more`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from weft._io import Signal

D = TypeVar("D")
W = TypeVar("W")

RequestMore = Callable[[], bool]
ARequestMore = Callable[[], Awaitable[bool]]


class Failure:
    """An error that many readers raise: its traceback is put back each time, so that it does not grow."""

    __slots__ = ("error", "_traceback")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self._traceback: TracebackType | None = error.__traceback__

    def again(self) -> BaseException:
        """Give the error as it was first raised."""
        return self.error.with_traceback(self._traceback)


class Projection(Generic[D, W]):
    """Deltas so far, the whole once complete, or the failure. The producer's side of both colours."""

    def __init__(self, whole: Callable[[list[D]], W]) -> None:
        self._deltas: list[D] = []
        self._join = whole
        self._final: W | None = None
        self._failure: Failure | None = None
        self._is_done = False
        self._signal: Signal | None = None

    def push(self, delta: D) -> None:
        """Add a delta."""
        self._deltas.append(delta)
        if self._signal is not None:
            self._signal.set()

    def complete(self, value: W | None = None) -> None:
        """Say that no more will come; `value` is the whole where joining the deltas does not give it."""
        if not self._is_done:
            self._is_done = True
            self._final = value
            self._wake()

    def fail(self, error: BaseException) -> None:
        """Say that no more will come because of an error; a finished projection stays finished."""
        if not self._is_done:
            self._is_done = True
            self._failure = Failure(error)
            self._wake()

    def _wake(self) -> None:
        if self._signal is not None:
            self._signal.set()

    @property
    def done(self) -> bool:
        """Whether no more will come."""
        return self._is_done

    @property
    def error(self) -> BaseException | None:
        """Why no more will come, if it failed."""
        return self._failure.error if self._failure else None

    def _whole(self) -> W:
        if self._failure is not None:
            raise self._failure.again()
        return self._final if self._final is not None else self._join(self._deltas)


class SyncProjection(Projection[D, W]):
    """A projection that is iterated and read blocking."""

    _request_more: RequestMore | None = None

    def set_request_more(self, callback: RequestMore | None) -> None:
        """Say how to get more: a function that returns False when there is no more."""
        self._request_more = callback

    def _advance(self) -> bool:
        return self._request_more is not None and self._request_more()

    def __iter__(self) -> Iterator[D]:
        place = 0
        while True:
            while place < len(self._deltas):
                place += 1
                yield self._deltas[place - 1]
            if self._is_done or not self._advance():
                break
        if self._failure is not None and place >= len(self._deltas):
            raise self._failure.again()

    def get(self) -> W:
        """Read to the end and give the whole."""
        while not self._is_done and self._advance():
            pass
        return self._whole()


class SyncTextProjection(SyncProjection[str, str]):
    """Text: iterates pieces; `str()` gives the whole."""

    def __init__(self) -> None:
        super().__init__("".join)

    def __str__(self) -> str:
        return self.get()

    def __repr__(self) -> str:
        return f"<text so far: {''.join(self._deltas)!r}>"


class AsyncProjection(Projection[D, W]):
    """A projection that is iterated with `async for` and awaited."""

    _arequest_more: ARequestMore | None = None

    def __init__(self, whole: Callable[[list[D]], W]) -> None:
        super().__init__(whole)
        self._signal = Signal()

    def set_arequest_more(self, callback: ARequestMore | None) -> None:
        """Say how to get more: an async function that returns False when there is no more."""
        self._arequest_more = callback

    async def _advance(self) -> bool:
        if self._arequest_more is not None:
            return await self._arequest_more()
        assert self._signal is not None
        await self._signal.wait()
        return True

    async def __aiter__(self) -> AsyncIterator[D]:
        place = 0
        while True:
            while place < len(self._deltas):
                place += 1
                yield self._deltas[place - 1]
            if self._is_done or not await self._advance():
                break
        if self._failure is not None and place >= len(self._deltas):
            raise self._failure.again()

    async def get(self) -> W:
        """Read to the end and give the whole."""
        while not self._is_done and await self._advance():
            pass
        return self._whole()

    def __await__(self) -> Generator[Any, None, W]:
        return self.get().__await__()


class AsyncTextProjection(AsyncProjection[str, str]):
    """Text: iterates pieces; `await` gives the whole."""

    def __init__(self) -> None:
        super().__init__("".join)
