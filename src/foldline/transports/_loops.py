"""One resource per process and event loop, closed when its loop ends.

`asyncio.run` closes every async generator that was started on its loop; a generator that waits at its `yield` is
therefore notified before the loop ends, while it still runs.
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
    """Creates a resource for each event loop; a forked child starts with none."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._resources: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[T, AsyncGenerator[None, None]]
        ] = weakref.WeakKeyDictionary()

    async def get(self) -> T:
        """Return the resource of the running loop."""
        if self._process != os.getpid():
            self._reset()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise UsageError(
                "an async call needs asyncio, and another library's loop runs here (trio?): call the sync method in "
                "a thread of that library, such as `trio.to_thread.run_sync(model.invoke, ...)`"
            ) from error
        entry = self._resources.get(loop)
        if entry is None:
            resource = self._make()
            watcher = self._watch(loop, resource)
            self._resources[loop] = entry = (resource, watcher)
            await anext(watcher)
        return entry[0]

    async def drop(self) -> None:
        """Close the resource of the running loop."""
        entry = self._resources.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()

    async def _watch(
        self, loop: asyncio.AbstractEventLoop, resource: T
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._resources.pop(loop, None)
            await self._close(resource)
