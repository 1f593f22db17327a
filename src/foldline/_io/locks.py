"""What one waits for another with: locks, signals, channels; for threads, and for the tasks of a loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from contextlib import AbstractContextManager, suppress
from typing import Any


def mutex() -> AbstractContextManager[Any]:
    """Make a lock to be held for a few instructions, never across a wait; the same in both colours."""
    return threading.Lock()


class Mutex:
    """Lets one thread in at a time, and is nearly free for who finds it empty, which is almost everybody.

    Who wants in takes the `token` by `token.pop()`, and puts it back in a `finally`; then calls `wake` if somebody is
    `waiting`. Taking from a list is one instruction, so no two threads get it; a lock of the system costs eight times
    that, for every event of a stream. An `IndexError` says that somebody is inside: `wait` for them to leave.
    """

    __slots__ = ("token", "waiting")

    def __init__(self) -> None:
        self.token: list[None] = [None]
        self.waiting: list[threading.Event] = []

    def enter_if_free(self) -> bool:
        """Enter without waiting; False where somebody is inside, this thread included."""
        try:
            self.token.pop()
        except IndexError:
            return False
        return True

    def leave(self) -> None:
        """End what `enter_if_free` began."""
        self.token.append(None)
        self.wake()

    def wait(self) -> None:
        """Wait until somebody left; return at once if nobody is inside any more."""
        left = threading.Event()
        self.waiting.append(left)
        # Who leaves puts the token back before it looks who waits: it is seen here, or this is seen there.
        if not self.token:
            left.wait()
        with suppress(ValueError):
            self.waiting.remove(left)

    def wake(self) -> None:
        """Let those go on who wait."""
        for left in list(self.waiting):
            left.set()


class Interruptible:
    """The step of a stream that some task is taking; another task of the loop may interrupt it.

    The interrupted task sees no cancellation: its `with` block just ends, and `is_interrupted` says why.
    """

    __slots__ = ("_is_cancelled", "_task", "is_interrupted")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self.is_interrupted = False

    @property
    def is_mine(self) -> bool:
        """Whether the step under way is taken by the task that asks."""
        return self._task is not None and self._task is asyncio.current_task()

    def interrupt(self) -> None:
        """Stop the step under way."""
        self.is_interrupted = True
        # Once, however many interrupt it: the task takes one cancellation back.
        if self._task is not None and not self.is_mine and not self._is_cancelled:
            self._is_cancelled = self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        task, self._task = self._task, None
        is_cancelled, self._is_cancelled = self._is_cancelled, False
        if not is_cancelled or task is None:
            return False
        # Somebody else may have cancelled the task too: that stays.
        left = task.uncancel()
        return kind is not None and issubclass(kind, asyncio.CancelledError) and not left


running_loop = asyncio.get_running_loop


class HomeLoop:
    """The event loop in which something was begun; what waits there can be woken from no other loop."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of whoever entered first."""

    def enter(self) -> bool:
        """Return whether this is the loop of whoever entered first."""
        if self.loop is None:
            self.loop = running_loop()
        return self.loop is running_loop()

    @property
    def is_elsewhere(self) -> bool:
        """Whether somebody entered, in another loop than the one that runs now."""
        return self.loop is not None and self.loop is not running_loop()

    @property
    def is_closed(self) -> bool:
        """Whether the loop has ended."""
        return self.loop is not None and self.loop.is_closed()


class Signal:
    """Wakes the tasks of a loop that wait for the next change; set from anywhere on that loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake everybody who waits now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._event.wait()


class ThreadLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class ThreadChannel:
    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.put = self._items.put

    async def get(self) -> Any:  # noqa: ANN401  what was put, of any type
        return self._items.get()

    async def get_within(self, seconds: float) -> object:
        try:
            return self._items.get(timeout=seconds)
        except queue.Empty:
            return None


class LoopChannel:
    """Items arrive in the order they were put, from the loop's own thread or from another one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._items: deque[Any] = deque()
        self._arrived = asyncio.Event()

    def put(self, item: object) -> None:
        self._items.append(item)
        if threading.get_ident() == self._home:
            self._arrived.set()
            return
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody reads any more
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Any:  # noqa: ANN401  what was put, of any type
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        return self._items.popleft()

    async def get_within(self, seconds: float) -> object:
        try:
            async with asyncio.timeout(seconds):
                return await self.get()
        except TimeoutError:
            return None
