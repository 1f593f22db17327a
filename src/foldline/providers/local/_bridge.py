"""From llama.cpp's callback to a stream one can pull, in both colours: the one file of this folder that waits.

Why it is not the work of `_io`: llama.cpp pushes. It calls us from inside a blocking C++ call, which therefore needs a
thread of its own for as long as it speaks, and a way to be told to stop between two tokens. `_io` pulls; this turns the
one into the other. A `Feed` is one such thread and the chunks it has not handed over yet: at most `ROOM` of them, after
which the producer waits. Closing the feed answers "stop" at the producer's next chunk.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from foldline._io import IO
from foldline.exceptions import ModelError

T = TypeVar("T")
Emit = Callable[[T | None], bool]
"""Hand over one chunk, or none to ask only; true means: stop."""

ROOM = 64
"""Chunks that may wait for their reader."""
PATIENCE = 30.0
"""Seconds the end of the process waits for a feed to stop: the time of the longest batch of a large model."""

_running: weakref.WeakSet[Feed[Any]] = weakref.WeakSet()


class Feed(Generic[T]):
    """What `produce` emits, to be iterated once, from any thread; close it to stop the producer."""

    def __init__(self, produce: Callable[[Emit[T]], None]) -> None:
        self._produce = produce
        self._chunks: deque[T] = deque()
        self._changed = threading.Condition()
        self._waiting: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._closed = self._ended = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="foldline-llama", daemon=True)
        _running.add(self)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self._check_process()
        with self._changed:
            while not self._is_ready():
                self._changed.wait()
            return self._take(StopIteration)

    async def chunks(self, io: IO) -> AsyncGenerator[T, None]:
        """Iterate in the colour of `io`; leaving early closes the feed."""
        try:
            while True:
                try:
                    chunk = next(self) if io.blocking else await self._next_async()
                except (StopIteration, StopAsyncIteration):
                    return
                yield chunk
        finally:
            self.close()

    def close(self) -> None:
        """Ask the producer to stop and forget what it said; does not wait for it."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the producer has really stopped; false if it has not in time."""
        if self._process == os.getpid():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> Feed[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _next_async(self) -> T:
        self._check_process()
        loop = asyncio.get_running_loop()
        while True:
            with self._changed:
                if self._is_ready():
                    return self._take(StopAsyncIteration)
                arrived: asyncio.Future[None] = loop.create_future()
                self._waiting = partial(_settle_from_thread, loop, arrived)
            await arrived

    def _run(self) -> None:
        try:
            self._produce(self._emit)
        except BaseException as error:  # raised where the feed is read
            self._error = error
        with self._changed:
            self._ended = True
            self._wake()
        _running.discard(self)

    def _emit(self, chunk: T | None) -> bool:
        with self._changed:
            while len(self._chunks) >= ROOM and not self._closed:
                self._changed.wait()
            if chunk is not None and not self._closed:
                self._chunks.append(chunk)
                self._wake()
            return self._closed

    def _is_ready(self) -> bool:
        return bool(self._chunks) or self._ended or self._closed

    def _take(self, end: type[Exception]) -> T:
        if self._chunks:
            chunk = self._chunks.popleft()
            self._changed.notify_all()
            return chunk
        if self._error is not None and not self._closed:
            error, self._error = self._error, None
            raise error
        raise end

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting:
            waiting()
        self._changed.notify_all()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ModelError(
                "this answer was started before the process forked and cannot be read in the child; ask again here",
                provider="local",
            )


def _settle_from_thread(loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None]) -> None:
    def settle() -> None:
        if not arrived.done():
            arrived.set_result(None)

    with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
        loop.call_soon_threadsafe(settle)


def stop_all() -> bool:
    """Close every feed of this process and wait for their threads; false if one would not stop in time."""
    feeds = [feed for feed in list(_running) if feed._process == os.getpid()]
    for feed in feeds:
        feed.close()
    return not [feed for feed in feeds if not feed.join(PATIENCE)]


# A thread that comes back from C++ into a finalised interpreter aborts the process ("exception not rethrown").
atexit.register(stop_all)

Lock = threading.RLock
"""What guards the table of loaded models; made anew in a forked child."""
