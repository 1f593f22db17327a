"""What one waits for another with: locks, signals, channels; for threads, and for the tasks of a loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from contextlib import AbstractContextManager, suppress
from typing import Any

from weft.exceptions import UsageError


def mutex() -> AbstractContextManager[Any]:
    """Make a lock to be held for a few instructions, never across a wait; the same in both colours."""
    return threading.Lock()


class OneAtATime:
    """Lets one thread in at a time; the same thread entering again is told so instead of hanging."""

    __slots__ = ("_lock", "_message")

    def __init__(self, message: str) -> None:
        self._lock: Any = (
            threading.RLock()
        )  # one written in C knows its owner, and is quick to enter
        self._message = message

    def alone(self) -> AbstractContextManager[bool]:
        """Give what to enter: it waits for other threads."""
        if self._lock._is_owned():
            raise UsageError(self._message)
        lock: AbstractContextManager[bool] = self._lock
        return lock

    def enter_if_free(self) -> bool:
        """Enter without waiting; False where somebody is inside, this thread included."""
        return not self._lock._is_owned() and self._lock.acquire(blocking=False)

    def leave(self) -> None:
        """End what `enter_if_free` began."""
        self._lock.release()


class Interruptible:
    """The step of a stream that some task is taking; another task of the loop may interrupt it.

    The interrupted task sees no cancellation: its `with` block just ends, and `is_interrupted` says why.
    """

    __slots__ = ("_task", "is_interrupted")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self.is_interrupted = False

    @property
    def is_mine(self) -> bool:
        """Whether the step under way is taken by the task that asks."""
        return self._task is not None and self._task is asyncio.current_task()

    def interrupt(self) -> None:
        """Stop the step under way."""
        self.is_interrupted = True
        if self._task is not None and not self.is_mine:
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        task, self._task = self._task, None
        if not self.is_interrupted or task is None or not task.cancelling():
            return False
        # Somebody else may have cancelled the task too: that stays.
        left = task.uncancel()
        return kind is not None and issubclass(kind, asyncio.CancelledError) and not left


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

    async def get(self) -> Any:
        return self._items.get()


class LoopChannel:
    """Items arrive in the order they were put, from the loop's own thread or from another one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._items: deque[Any] = deque()
        self._arrived = asyncio.Event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        if threading.get_ident() == self._home:
            self._arrived.set()
            return
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody reads any more
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def get(self) -> Any:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        return self._items.popleft()
