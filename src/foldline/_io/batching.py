"""`BatchQueue`: calls of one turn of the event loop, executed together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

__all__ = ["BatchQueue"]


class BatchQueue(Generic[Item]):
    """Collects the items of concurrent callers, and executes them in one call of `work`.

    A caller that is cancelled leaves the others alone; an error of `work` reaches all callers of that call.
    """

    def __init__(self, work: Callable[[list[Item]], Awaitable[list[Any]]]) -> None:
        self._work = work
        self._waiting: dict[asyncio.AbstractEventLoop, list[tuple[Item, asyncio.Future[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, item: Item) -> Any:  # noqa: ANN401  the result of the item
        """Execute an item together with those of other callers; return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((item, future))
        if len(waiting) == 1:
            loop.call_soon(self._begin, loop)
        return await future

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = [pair for pair in self._waiting.pop(loop, []) if not pair[1].done()]
        if waiting:
            task = loop.create_task(self._execute(waiting))
            self._tasks.add(task)  # the loop keeps only a weak reference
            task.add_done_callback(self._tasks.discard)

    async def _execute(self, waiting: list[tuple[Item, asyncio.Future[Any]]]) -> None:
        try:
            results = await self._work([item for item, _ in waiting])
        except BaseException as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(_for_caller(error))
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(waiting, results, strict=False):
            with suppress(asyncio.InvalidStateError):  # its caller was cancelled
                future.set_result(result)


def _for_caller(error: BaseException) -> BaseException:
    """Return the error of a batch for one of its callers; a cancelled batch is no cancellation of its callers."""
    if isinstance(error, asyncio.CancelledError):
        return RuntimeError("the batch of this call was cancelled: call again")
    return error
