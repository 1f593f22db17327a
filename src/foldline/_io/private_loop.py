"""An event loop in a thread of its own, for what is async and outlasts a call."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from foldline._io.waiting import cancel_all

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("foldline")
LEAVE_SECONDS: Final = 5.0
"""How long what lives on a loop may take to leave, also where nobody waits for it; a second cancel would break it."""


class PrivateLoop:
    """An event loop in a thread of its own, where a client lives that is async and outlasts a call (an MCP session).

    Sync and async callers, in any thread and on any loop, run coroutines there.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._resident: asyncio.Task[Any] | None = None
        self._stay: asyncio.Task[None] | None = None
        self._calls: set[Future[Any]] = set()
        self._patience = 5.0
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="foldline-loop", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether coroutines may be run; a forked child has none of its parent's threads."""
        return self._process == os.getpid() and not self._closing and self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._leave())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _leave(self) -> None:
        """End the calls; then what lives here, in the order its context manager wants; then whatever still runs."""
        for call in list(self._calls):
            call.cancel()
        if self._stay is not None:
            self._stay.cancel()
            await asyncio.wait([self._stay], timeout=max(self._patience, LEAVE_SECONDS))
        await cancel_all(asyncio.all_tasks() - {asyncio.current_task()})

    async def run(self, body: Coroutine[Any, Any, T], *, blocking: bool) -> T:
        """Run a coroutine to its end on this loop; whoever stops waiting cancels it."""
        with (
            self._lock
        ):  # what is submitted before the loop is told to stop is cancelled by it, not forgotten
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
    ) -> T:
        """Run a body with what lives here: `make` gives it to the first who asks, and it stays until `close`."""

        async def with_resident() -> T:
            if self._resident is None:
                self._resident = asyncio.ensure_future(self._enter(make))
            try:
                resident = await asyncio.shield(self._resident)
            except Exception:
                self._resident = None  # the next one tries again
                raise
            return await body(resident)

        return await self.run(with_resident(), blocking=blocking)

    async def _enter(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> object:
        entered: asyncio.Future[Any] = self._loop.create_future()

        async def stay() -> None:  # one task enters and leaves: some context managers insist on it
            try:
                async with make() as resident:
                    entered.set_result(resident)
                    await self._loop.create_future()
            except BaseException as error:
                if not entered.done():
                    entered.set_exception(error)
                elif isinstance(error, asyncio.CancelledError):
                    raise
                else:
                    logger.debug("what lived on a private loop ended with %r", error)

        self._stay = asyncio.ensure_future(stay())
        return await entered

    def close(self, patience: float = 5.0) -> None:
        """Cancel what runs there, end the loop and its thread; wait `patience` seconds for that."""
        if self._process != os.getpid():
            return
        with self._lock:
            if not self._closing:  # a second stop would interrupt the tidying up
                self._closing = True
                self._patience = patience
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(patience)


def _is_cancelled() -> bool:
    """Whether somebody asked the running task to stop."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def run_loop(body: Coroutine[Any, Any, T]) -> T:
    """Run a server's coroutine to its end in this thread, with a loop of its own."""
    return asyncio.run(body)
