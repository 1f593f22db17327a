"""`ChunkStream`: llama.cpp's callback as a stream, sync and async. The only file of this package that blocks or awaits.

llama.cpp pushes: it calls back from inside a blocking C++ call, which needs its own thread, and a way to be stopped
between two tokens. A `ChunkStream` is such a thread with a queue of at most `MAX_QUEUED` chunks, after which the
producer waits. Closing the stream returns "stop" to the producer's next callback.
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
from foldline.utils._signals import block_signals

T = TypeVar("T")
Emit = Callable[[T | None], bool]
"""Pass on one chunk, or None to only ask whether to stop; True means stop."""

MAX_QUEUED = 64
"""How many chunks may wait for their reader."""
EXIT_TIMEOUT = 30.0
"""Seconds that the process waits for a stream to stop at exit: the time of the longest batch of a large model."""

_running: weakref.WeakSet[ChunkStream[Any]] = weakref.WeakSet()


class ChunkStream(Generic[T]):
    """The chunks that `produce` emits, to be iterated once, from any thread; `close` stops the producer."""

    def __init__(self, produce: Callable[[Emit[T]], None]) -> None:
        self._produce = produce
        self._chunks: deque[T] = deque()
        self._changed = threading.Condition()
        self._notify_reader: Callable[[], None] | None = None
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
        """Iterate, sync or async as `io` is; leaving early closes the stream."""
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
        """Ask the producer to stop and drop its chunks; does not wait for it."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._wake()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the producer has stopped; return False if it has not in time."""
        if self._process == os.getpid():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def __enter__(self) -> ChunkStream[T]:
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
                self._notify_reader = partial(_settle_from_thread, loop, arrived)
            await arrived

    def _run(self) -> None:
        block_signals()
        try:
            self._produce(self._emit)
        except BaseException as error:  # raised where the stream is read
            self._error = error
        with self._changed:
            self._ended = True
            self._wake()
        _running.discard(self)

    def _emit(self, chunk: T | None) -> bool:
        with self._changed:
            while len(self._chunks) >= MAX_QUEUED and not self._closed:
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
        notify, self._notify_reader = self._notify_reader, None
        if notify:
            notify()
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

    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(settle)


def stop_all() -> bool:
    """Close every stream of this process and wait for their threads; return False if one did not stop in time."""
    streams = [stream for stream in list(_running) if stream._process == os.getpid()]
    for stream in streams:
        stream.close()
    return not [stream for stream in streams if not stream.join(EXIT_TIMEOUT)]


# A thread that returns from C++ into a finalised interpreter aborts the process ("exception not rethrown").
atexit.register(stop_all)

Lock = threading.RLock
"""The lock of the table of loaded models; replaced in a forked child."""
