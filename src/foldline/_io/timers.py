"""`Timers`: many waits that rarely run out, with one timer of the event loop for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final

__all__ = ["Timers"]

STEP: Final = 0.25
"""Seconds between two looks: a callback may come so much later than asked for."""


class Timers:
    """Adding and removing a wait costs an entry of a dictionary, not a timer."""

    __slots__ = ("_context", "_is_armed", "_number", "_waits")

    def __init__(self) -> None:
        self._waits: dict[int, tuple[float, Callable[[], object]]] = {}
        self._number = 0
        self._is_armed = False
        self._context = Context()
        """Its own: the timer of the first request goes on after it."""

    def add(self, seconds: float, callback: Callable[[], object]) -> int:
        """Call back once after some seconds; return the number of the wait."""
        loop = asyncio.get_running_loop()
        self._number += 1
        self._waits[self._number] = (loop.time() + seconds, callback)
        if not self._is_armed:
            self._is_armed = True
            loop.call_later(STEP, self._look, loop, context=self._context)
        return self._number

    def remove(self, number: int) -> None:
        """End a wait, if it has not run out."""
        self._waits.pop(number, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = bool(self._waits)
        if not self._is_armed:
            return
        now = loop.time()
        over = [number for number, (end, _) in self._waits.items() if end <= now]
        for number in over:
            self._waits.pop(number)[1]()
        loop.call_later(STEP, self._look, loop, context=self._context)
