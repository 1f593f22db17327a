"""One stream, several readers: each sees every piece, and whoever is ahead pulls the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from foldline._io import IO


class Tee:
    """Gives several readers of one stream, which may be read at different speeds and in different threads."""

    def __init__(self, source: AsyncGenerator[Any, None], io: IO) -> None:
        self._source = source
        self._lock = io.lock()
        self._waiting: list[deque[Any]] = []
        self._ended = False
        self._error: BaseException | None = None

    def reader(self) -> AsyncGenerator[Any, None]:
        """Return one more reader; make all of them before the first one reads."""
        pieces: deque[Any] = deque()
        self._waiting.append(pieces)
        return self._read(pieces)

    async def _read(self, pieces: deque[Any]) -> AsyncGenerator[Any, None]:
        try:
            while True:
                if not pieces and not await self._pull(pieces):
                    return
                yield pieces.popleft()
        finally:
            # A reader that stopped early must not have pieces kept for it.
            self._waiting = [other for other in self._waiting if other is not pieces]

    async def _pull(self, pieces: deque[Any]) -> bool:
        """Take one piece from the source for every reader, unless another reader just did; False at the end."""
        async with self._lock:
            if pieces:
                return True
            if self._error is not None:
                raise self._error
            if self._ended:
                return False
            try:
                piece = await anext(self._source)
            except StopAsyncIteration:
                self._ended = True
                return False
            except BaseException as error:
                self._error = error
                raise
            for other in self._waiting:
                other.append(piece)
            return True
