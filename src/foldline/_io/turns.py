"""`Turns`: a budget of events for each turn of the event loop, which all who produce or send events share.

Whoever has many events ready would otherwise work through them while everybody else waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

__all__ = ["SLICE", "Turns"]

BUDGET: Final = 32
"""Events of one turn."""
SLICE: Final = 16
"""Events for which a run spends at once."""


class Turns:
    """Who finds the budget of a turn spent waits in line for one of the next turns."""

    __slots__ = ("_is_armed", "_left", "_line")

    def __init__(self) -> None:
        self._left = BUDGET
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_armed = False

    async def spend(self, count: int) -> None:
        """Return when this turn, or a later one, has events left."""
        loop = asyncio.get_running_loop()
        self._arm(loop)
        if self._left > 0 and not self._line:
            self._left -= count
            return
        waiter: asyncio.Future[None] = loop.create_future()
        self._line.append((count, waiter))
        await waiter

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_armed:
            self._is_armed = True
            loop.call_soon(self._renew, loop)

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a turn."""
        self._is_armed = False
        self._left = BUDGET
        while self._line and self._left > 0:
            count, waiter = self._line.popleft()
            if not waiter.done():  # it may have been cancelled
                self._left -= count
                waiter.set_result(None)
        if self._left < BUDGET:
            self._arm(loop)
