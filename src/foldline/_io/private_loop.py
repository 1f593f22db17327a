"""An event loop in its own thread, for async clients that outlast a call."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from foldline._io.waiting import OutOfTime, cancel_all

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("foldline")
LEAVE_SECONDS: Final = 5.0
"""How long the resident may take to exit, also if no caller waits for it."""


class PrivateLoop:
    """An event loop in its own thread, for an async client that outlasts a call (an MCP session): the resident.

    Sync and async callers, in any thread and on any loop, run coroutines there.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._resident: asyncio.Task[Any] | None = None
        self._stay_task: asyncio.Task[None] | None = None
        self._calls: set[Future[Any]] = set()
        self._patience = 5.0
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run_thread, name="foldline-loop", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether coroutines can be run; a forked child has none of its parent's threads."""
        return self._process == os.getpid() and not self._closing and self._thread.is_alive()

    def _run_thread(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._shut_down())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _shut_down(self) -> None:
        """Cancel the calls, then exit the resident's context manager, then cancel the other tasks."""
        for call in list(self._calls):
            call.cancel()
        if self._stay_task is not None:
            self._leave()
            await asyncio.wait([self._stay_task], timeout=max(self._patience, LEAVE_SECONDS))
        await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})

    def _leave(self) -> None:
        """Make the resident exit; once, because a second cancellation would break its exit."""
        if self._stay_task is not None and not self._stay_task.cancelling():
            self._stay_task.cancel()

    async def run(self, body: Coroutine[Any, Any, T], *, blocking: bool) -> T:
        """Run a coroutine to its end on this loop; a caller that stops waiting cancels it."""
        with (
            self._lock
        ):  # a body that is submitted before `stop` is cancelled by the loop, not lost
            if self._closing:
                body.close()
                raise ConnectionAbortedError("closed")
            future = asyncio.run_coroutine_threadsafe(body, self._loop)
            self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        try:
            return future.result() if blocking else await asyncio.wrap_future(future)
        except BaseException as error:
            future.cancel()
            cancelled = isinstance(error, asyncio.CancelledError | CancelledError)
            if self._closing and cancelled and (blocking or not _is_cancelled()):
                raise ConnectionAbortedError("closed while in use") from None
            raise

    async def use(
        self,
        make: Callable[[], AbstractAsyncContextManager[Any]],
        body: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        blocking: bool,
        enter_seconds: float | None = None,
    ) -> T:
        """Run a body with the resident: `make` creates it for the first caller, and it stays until `close`.

        A caller waits `enter_seconds` for the resident and then raises `OutOfTime`. What was begun is cancelled, and
        nobody waits for its end.
        """

        async def with_resident() -> T:
            if self._resident is None:
                self._resident = asyncio.ensure_future(self._enter(make))
                # Read its error: every caller may have left by then.
                self._resident.add_done_callback(lambda task: task.cancelled() or task.exception())
            try:
                async with asyncio.timeout(enter_seconds) as limit:
                    resident = await asyncio.shield(self._resident)
            except Exception as error:
                self._resident = None  # the next caller tries again
                if enter_seconds is None or not limit.expired():
                    raise
                self._leave()
                raise OutOfTime(enter_seconds) from error
            return await body(resident)

        return await self.run(with_resident(), blocking=blocking)

    async def _enter(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> object:
        resident_future: asyncio.Future[Any] = self._loop.create_future()

        async def stay() -> (
            None
        ):  # the same task enters and exits: some context managers require it
            try:
                async with make() as resident:
                    resident_future.set_result(resident)
                    await self._loop.create_future()
            except BaseException as error:
                if not resident_future.done():
                    is_cancelled = isinstance(error, asyncio.CancelledError)
                    resident_future.set_exception(
                        ConnectionAbortedError("given up") if is_cancelled else error
                    )
                elif isinstance(error, asyncio.CancelledError):
                    raise
                else:
                    logger.debug("the resident of a private loop ended with %r", error)

        self._stay_task = asyncio.ensure_future(stay())
        return await resident_future

    def close(self, patience: float = 5.0) -> None:
        """Cancel the running tasks, end the loop and its thread; wait `patience` seconds for that."""
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._closing:  # a second stop would interrupt the cleanup
                self._closing = True
                self._patience = patience
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(patience)


def _is_cancelled() -> bool:
    """Return whether the running task was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def run_loop(body: Coroutine[Any, Any, T]) -> T:
    """Run a server's coroutine to its end in this thread, with a new loop."""
    return asyncio.run(body)
