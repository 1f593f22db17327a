"""One thing per (process, event loop), closed when its loop ends.

`asyncio.run` closes every asynchronous generator that was started on its loop; a generator that waits at its `yield`
is therefore told when the loop is about to end, while the loop still runs.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, TypeVar

from foldline.exceptions import UsageError

T = TypeVar("T")


class PerLoop(Generic[T]):
    """Makes a thing for each loop that asks; in a forked child it starts afresh."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._kept: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]
        ] = weakref.WeakKeyDictionary()

    async def get(self) -> T:
        """Return the thing of the running loop."""
        if self._process != os.getpid():
            self._forget()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise UsageError(
                "an async call needs asyncio, and another library's loop runs here (trio?): call the sync method in "
                "a thread of that library, such as `trio.to_thread.run_sync(model.invoke, ...)`"
            ) from error
        kept = self._kept.get(loop)
        if kept is None:
            thing = self._make()
            watch = self._watch(loop, thing)
            self._kept[loop] = kept = (thing, watch)
            await anext(watch)
        return kept[0]

    async def drop(self) -> None:
        """Close the thing of the running loop."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept[1].aclose()

    async def _watch(self, loop: asyncio.AbstractEventLoop, thing: T) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._kept.pop(loop, None)
            await self._close(thing)
