"""Synchronisation: locks, signals and channels, for threads and for the tasks of a loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def mutex() -> AbstractContextManager[Any]:
    """Return a lock for a few instructions, never held across a wait; the same for sync and async code."""
    return threading.Lock()


def reentrant_mutex() -> AbstractContextManager[Any]:
    """Return a `mutex` that its own thread may enter again, as collecting garbage may do anywhere."""
    return threading.RLock()


get_ident = threading.get_ident


class Mutex:
    """Lets one thread in at a time, at almost no cost if no other thread is inside, which is the usual case.

    To enter, take the `token` by `token.pop()`, and put it back in a `finally`; then call `wake` if `waiting` is not
    empty. Popping from a list is atomic, so only one thread gets the token; a lock of the system would cost eight times
    as much, for every event of a stream. An `IndexError` means that another thread is inside: call `wait`.
    """

    __slots__ = ("owner", "token", "waiting")

    def __init__(self) -> None:
        self.token: list[None] = [None]
        self.owner = 0
        """The id of the thread inside, which it sets after it has entered and clears before it leaves."""
        self.waiting: list[threading.Event] = []

    def enter_if_free(self) -> bool:
        """Enter without waiting; return False if any thread is inside, this one included."""
        try:
            self.token.pop()
        except IndexError:
            return False
        self.owner = get_ident()
        return True

    def leave(self) -> None:
        """Leave after `enter_if_free` returned True."""
        self.owner = 0
        self.token.append(None)
        self.wake()

    @property
    def is_mine(self) -> bool:
        """Whether this thread is inside already: then waiting would never end."""
        return self.owner == get_ident()

    def wait(self) -> None:
        """Wait until the thread inside has left; return at once if none is inside."""
        released = threading.Event()
        self.waiting.append(released)
        # The leaving thread puts the token back before it reads `waiting`: one of the two sees the other.
        if not self.token:
            released.wait()
        with suppress(ValueError):
            self.waiting.remove(released)

    def wake(self) -> None:
        """Wake the waiting threads."""
        for released in list(self.waiting):
            released.set()


class Interruptible:
    """A step of a stream that a task is executing; another task of the loop may interrupt it.

    The interrupted task sees no cancellation: its `with` block ends, and `is_interrupted` is True.
    """

    __slots__ = ("_is_cancelled", "_task", "is_interrupted")

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self.is_interrupted = False

    @property
    def is_mine(self) -> bool:
        """Whether the current task executes the step."""
        return self._task is not None and self._task is asyncio.current_task()

    def interrupt(self) -> None:
        """Stop the current step."""
        self.is_interrupted = True
        # Cancel once, however often it is interrupted: the task takes back one cancellation.
        if self._task is not None and not self.is_mine and not self._is_cancelled:
            self._is_cancelled = self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        task, self._task = self._task, None
        is_cancelled, self._is_cancelled = self._is_cancelled, False
        if not is_cancelled or task is None:
            return False
        # The task may have been cancelled by others too: that cancellation stays.
        other_cancellations = task.uncancel()
        return (
            kind is not None
            and issubclass(kind, asyncio.CancelledError)
            and not other_cancellations
        )


running_loop = asyncio.get_running_loop


class HomeLoop:
    """The event loop in which something began; waiters of that loop cannot be woken from another one."""

    __slots__ = ("loop",)

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop of the first caller of `enter`."""

    def enter(self) -> bool:
        """Return whether the running loop is that of the first caller."""
        if self.loop is None:
            self.loop = running_loop()
        return self.loop is running_loop()

    @property
    def is_elsewhere(self) -> bool:
        """Whether `enter` was called first in another loop than the running one."""
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
        """Wake all current waiters."""
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

    async def get(self) -> Any:  # noqa: ANN401  an item of any type
        return self._items.get()

    async def get_within(self, seconds: float) -> object:
        try:
            return self._items.get(timeout=seconds)
        except queue.Empty:
            return None


class LoopChannel:
    """Items arrive in the order in which they were put, from the loop's thread or from another one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._items: deque[Any] = deque()
        self._item_event = asyncio.Event()

    def put(self, item: object) -> None:
        self._items.append(item)
        if threading.get_ident() == self._thread_id:
            self._item_event.set()
            return
        with suppress(RuntimeError):  # the loop was closed: there is no reader any more
            self._loop.call_soon_threadsafe(self._item_event.set)

    async def get(self) -> Any:  # noqa: ANN401  an item of any type
        while not self._items:
            self._item_event.clear()
            await self._item_event.wait()
        return self._items.popleft()

    async def get_within(self, seconds: float) -> object:
        try:
            async with asyncio.timeout(seconds):
                return await self.get()
        except TimeoutError:
            return None


class FairItems(Generic[T]):
    """Items that threads take and give back; whoever waits longest gets the next one.

    While nobody waits, taking is one `pop` and giving back one `append`, which are atomic, so that no lock is needed.
    Who has to wait joins the queue first and looks for an item then; who gives back appends first and looks at the
    queue then: one of the two sees the other. The lock may be entered twice by one thread: the garbage collector may
    run anywhere, and give back what an abandoned generator had.
    """

    __slots__ = ("_items", "_lock", "_waiters")

    def __init__(self, items: Iterable[T]) -> None:
        self._items = list(items)
        self._lock = threading.RLock()
        self._waiters: deque[_Turn[T]] = deque()

    @property
    def waiting_count(self) -> int:
        """How many threads wait."""
        return len(self._waiters)

    def take(self, seconds: Callable[[], float]) -> T:
        """Take the item that was given back last; raise `TimeoutError` if none became free in `seconds()`."""
        if not self._waiters:
            try:
                return self._items.pop()
            except IndexError:
                pass
        return self._wait(seconds())

    def give_back(self, item: T) -> None:
        """Give an item to the longest waiting thread, or let the next one take it."""
        self._items.append(item)
        if self._waiters:
            self._hand_out()

    def give_back_last(self, item: T) -> None:
        """Give an item back that is taken after all others."""
        self._items.insert(0, item)
        if self._waiters:
            self._hand_out()

    def change(self, change: Callable[[list[T]], list[T]]) -> None:
        """Replace the items that nobody has by what a function returns for them, the last one to be taken first."""
        with self._lock:
            items: list[T] = []
            with suppress(IndexError):
                while True:
                    items.insert(0, self._items.pop())
            self._items[:0] = change(items)
        self._hand_out()

    def renew_lock(self) -> None:
        """Forget the threads that held the lock or waited: a forked child does not have them."""
        self._lock = threading.RLock()
        self._waiters = deque()

    def _wait(self, seconds: float) -> T:
        turn = _Turn[T]()
        self._waiters.append(turn)
        try:
            self._hand_out()
            if turn.wait(seconds):
                return turn.item
        except BaseException:  # such as Ctrl+C
            if not self._leave(turn):
                self.give_back(turn.item)
            raise
        if self._leave(turn):
            raise TimeoutError(seconds)
        return turn.item  # it was handed over in the moment of giving up

    def _leave(self, turn: _Turn[T]) -> bool:
        """Leave the queue; return False if an item was handed over meanwhile."""
        with self._lock:
            try:
                self._waiters.remove(turn)
            except ValueError:
                return False
            return True

    def _hand_out(self) -> None:
        with self._lock, suppress(IndexError):  # another thread may take the last item
            while self._waiters:
                item = self._items.pop()
                try:
                    turn = self._waiters.popleft()
                except IndexError:
                    self._items.append(item)
                    raise
                turn.end(item)


class _Turn(Generic[T]):
    """One wait for an item."""

    __slots__ = ("_lock", "item")
    item: T

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=max(0.0, seconds))

    def end(self, item: T) -> None:
        self.item = item
        self._lock.release()
