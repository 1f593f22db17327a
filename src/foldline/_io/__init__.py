"""The ways to wait, in two colours: nothing else in foldline may block a thread or suspend a task.

A behaviour is one `async def` body that waits through an `IO` and nothing else. `BLOCKING` waits in the calling
thread and never suspends, so `drive()` can run the body without a loop; `ASYNC` suspends on the running loop.

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
    "Channel",
    "HomeLoop",
    "Interruptible",
    "Mutex",
    "OutOfTime",
    "Outcome",
    "PrivateLoop",
    "Signal",
    "Started",
    "mutex",
    "run_loop",
    "running_loop",
    "shield",
    "stopped_by",
]

T = TypeVar("T")
K = TypeVar("K")


class Started(Protocol):
    """A body under way; `result()` waits for it, `cancel()` asks it to stop."""

    async def result(self) -> Any: ...  # noqa: ANN401  what the body returns
    def cancel(self) -> None: ...


class Channel(Protocol):
    """Carries items from any thread to the one body that reads them."""

    def put(self, item: object) -> None: ...
    async def get(self) -> Any: ...  # noqa: ANN401  what was put, of any type
    async def get_within(self, seconds: float) -> object:
        """Return the next item, or None where none came in time."""


class IO(Protocol):
    """What a body may ask of the world."""

    blocking: bool

    async def call(self, function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  what the user's function returns; it may be sync or async
        """Call a user's function, whichever colour it has."""

    async def settle(self, value: Awaitable[T]) -> T:
        """Wait for an awaitable that somebody else made (an async callback handler)."""

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""

    async def bounded(self, seconds: float, body: Coroutine[Any, Any, T]) -> T:
        """Run a body that must end in time, else raise OutOfTime; a thread that hangs is left behind."""

    def as_completed(
        self,
        body: Callable[[T], Coroutine[Any, Any, Any]],
        items: Iterable[T],
        *,
        limit: int | None,
    ) -> AsyncGenerator[Outcome, None]:
        """Run a body for each item, at most `limit` at once; outcomes as they come."""

    def merge(
        self, streams: Mapping[K, AsyncGenerator[T, None]]
    ) -> AsyncGenerator[tuple[K, T], None]:
        """Read several streams at once; items as they come."""

    def each(
        self, items: Iterable[T] | AsyncIterator[T], around: Around = UNCHANGED
    ) -> AsyncGenerator[T, None]:
        """Iterate what a user gave, whichever colour it has; `around` is entered for every step."""

    def iterate(self, stream: AsyncGenerator[T, None]) -> AbstractAsyncContextManager[Iterator[T]]:
        """Let a user's blocking code iterate a stream of ours."""

    def adapt(self, items: Iterable[T] | AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """Iterate what an author wrote in only one colour: like `each`, and an async iterator works everywhere."""

    def start(self, body: Coroutine[Any, Any, Any]) -> Started:
        """Run a body beside this one."""

    def lock(self) -> AbstractAsyncContextManager[Any]:
        """Make a lock for the bodies of one call."""

    def channel(self) -> Channel:
        """Make a channel from anywhere to one reader of this colour."""


BLOCKING: IO = Blocking()
ASYNC: IO = Async()
