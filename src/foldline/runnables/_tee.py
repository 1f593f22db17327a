"""One stream for several readers: each sees every item, and the reader that is ahead reads the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from foldline._io import IO


class Tee:
    """Splits a stream into several readers, which may read at different speeds and in different threads."""

    def __init__(self, source: AsyncGenerator[Any, None], io: IO) -> None:
        self._source = source
        self._lock = io.lock()
        self._queues: list[deque[Any]] = []
        self._is_finished = False
        self._error: BaseException | None = None

    def reader(self) -> AsyncGenerator[Any, None]:
        """Return one more reader; make all readers before the first one reads."""
        queue: deque[Any] = deque()
        self._queues.append(queue)
        return self._read_queue(queue)

    async def _read_queue(self, queue: deque[Any]) -> AsyncGenerator[Any, None]:
        try:
            while True:
                if not queue and not await self._read_source(queue):
                    return
                yield queue.popleft()
        finally:
            # Store no more items for a reader that stopped early.
            self._queues = [other for other in self._queues if other is not queue]

    async def _read_source(self, queue: deque[Any]) -> bool:
        """Read one item for every reader, unless another reader just did; return False at the end."""
        async with self._lock:
            if queue:
                return True
            if self._error is not None:
                raise self._error
            if self._is_finished:
                return False
            try:
                item = await anext(self._source)
            except StopAsyncIteration:
                self._is_finished = True
                return False
            except BaseException as error:
                self._error = error
                raise
            for other in self._queues:
                other.append(item)
            return True
