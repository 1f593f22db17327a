"""The ways to wait, sync and async: nothing else in foldline may block a thread or suspend a task.

A behaviour is one `async def` body that waits only through an `IO`. `BLOCKING` waits in the calling thread and never
suspends, so `drive()` can run the body without a loop; `ASYNC` suspends on the running loop.

The two are in `blocking` and `asynchronous`; what they wait with is in `waiting` (threads, tasks), `gather`, `locks`
and `private_loop`. `drive` runs a body without a loop.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import BrokenExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

from foldline._io.asynchronous import Async
from foldline._io.blocking import Blocking
from foldline._io.gather import stopped_by
from foldline._io.locks import (
    HomeLoop,
    Interruptible,
    Mutex,
    Signal,
    mutex,
    running_loop,
)
from foldline._io.private_loop import PrivateLoop, run_loop
from foldline._io.waiting import UNCHANGED, Around, Outcome, OutOfTime, shield

__all__ = [
    "ASYNC",
    "BLOCKING",
    "IO",
    "BrokenExecutor",
    "Channel",
    "HomeLoop",
    "Interruptible",
    "Mutex",
    "OutOfTime",
    "Outcome",
    "PrivateLoop",
    "RunningBody",
    "Signal",
    "mutex",
    "run_loop",
    "running_loop",
    "shield",
    "stopped_by",
]

T = TypeVar("T")
K = TypeVar("K")


class RunningBody(Protocol):
    """A body that is running; `result()` waits for it, `cancel()` asks it to stop and returns whether it can."""

    async def result(self) -> Any: ...  # noqa: ANN401  the result of the body
    async def end(self) -> BaseException | None:
        """Wait for its end; return its error, None if it was cancelled."""

    def cancel(self) -> bool: ...


class Channel(Protocol):
    """Carries items from any thread to the only body that reads them."""

    def put(self, item: object) -> None: ...
    async def get(self) -> Any: ...  # noqa: ANN401  an item of any type
    async def get_within(self, seconds: float) -> object:
        """Return the next item, or None if none arrives in time."""


class IO(Protocol):
    """The operations with which a body waits."""

    blocking: bool

    async def call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  the result of a user's function
        """Call a user's function, sync or async."""

    async def settle(self, value: Awaitable[T]) -> T:
        """Wait for an awaitable that was made elsewhere (by an async callback handler)."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""

    async def bounded(self, seconds: float, body: Coroutine[Any, Any, T]) -> T:
        """Run a body with a time limit; raise OutOfTime after it, without waiting for a thread that hangs."""

    def as_completed(
        self,
        body: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int | None,
    ) -> AsyncGenerator[Outcome, None]:
        """Run a body for each item, at most `limit` at once; yield the outcomes as they complete."""

    def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        """Read several streams at once; yield the items as they arrive."""

    def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        """Iterate a user's sync or async iterable; `around` is entered for every step."""

    def iterate(self, stream: AsyncGenerator[T, None]) -> AbstractAsyncContextManager[Iterator[T]]:
        """Return a stream of ours as an iterator for a user's blocking code."""

    def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """Iterate like `each`, but accept an async iterator in a blocking call too."""

    def start(self, body: Coroutine[Any, Any, Any]) -> RunningBody:
        """Start a body that runs concurrently."""

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Return a lock for the bodies of one call."""

    def channel(self) -> Channel:
        """Return a channel from any thread to one reader."""


BLOCKING: IO = Blocking()
ASYNC: IO = Async()
