"""Runs pyreqwest's coroutines without an event loop, which makes one client serve both colours.

pyreqwest has a blocking client too, but a thread inside it cannot be interrupted: Ctrl-C waits for the server, and a
deadline that moves cannot be set. Its coroutines ask the running loop for three things (a future, whether the loop is
closed, a thread-safe callback); `Waker` gives them these from a queue, on which a thread waits with a timeout and can
be interrupted. Every method is a built-in, because the Rust side calls them with the interpreter's lock held.
"""

from __future__ import annotations

import threading
import time
from asyncio import events
from collections.abc import Coroutine, Generator
from itertools import repeat
from queue import Empty, SimpleQueue
from types import coroutine
from typing import Any, TypeVar

from foldline.transports._wait import Expired

T = TypeVar("T")

PENDING = "pending"
"""What a step gives when it truly waits; `None` means that the wake-up came during the step: go on at once."""


class Waker:
    """What pyreqwest takes for an event loop; one per thread."""

    __slots__ = ("call_soon_threadsafe", "create_future", "is_closed", "wait")

    def __init__(self) -> None:
        woken: SimpleQueue[object] = SimpleQueue()
        self.wait = woken.get
        self.call_soon_threadsafe = woken.put
        self.create_future = repeat((PENDING,)).__next__
        self.is_closed = bool


class _Local(threading.local):
    def __init__(self) -> None:
        self.waker = Waker()


_local = _Local()


@coroutine
def run_async(work: Coroutine[Any, Any, T]) -> Generator[Any, None, T]:
    """Await a coroutine of pyreqwest, which would answer a cancellation with one of its own.

    A cancel scope of anyio knows its cancellation by what it says, so the very one must come out again.
    """
    try:
        while True:
            yield work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        work.close()


def run_blocking(work: Coroutine[Any, Any, T], seconds: float | None) -> T:
    """Run a coroutine of pyreqwest to its end in this thread; raise `Expired` when the seconds are over."""
    waker = _local.waker
    outer = events._get_running_loop()
    deadline = None
    try:
        while True:
            # Only for the step: a signal handler that runs during the wait must see the true loop.
            events._set_running_loop(waker)  # type: ignore[arg-type]
            try:
                step = work.send(None)
            finally:
                events._set_running_loop(outer)
            if step is None:
                continue
            if deadline is None and seconds is not None:
                deadline = time.monotonic() + seconds
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Empty
            waker.wait(True, left)  # noqa: FBT003  a built-in; a stale wake-up only means one more step
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    except Empty:
        raise Expired from None
    finally:
        work.close()
