"""`ThreadOwner`: the run that owns a thread. One run at a time continues a thread; nested runs write under its claim.

The claim comes first: before the run reads the thread. So what it has read is still the last when it writes, and a run
that was taken for dead and lost its thread is refused by the store, whatever it still tries to write.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any

from foldline._io import IO, mutex, shield
from foldline._storage.workers import answer_wait
from foldline.checkpoint.base import BaseCheckpointSaver, Entry, append_as_owner
from foldline.exceptions import StoreError, ThreadBusyError
from foldline.utils.uuid import new_id

__all__ = ["ThreadOwner"]

PAUSES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between tries to own a thread whose owner may be about to write the answer that it was given."""


class ThreadOwner:
    """The claim of one run on one thread."""

    def __init__(self, saver: BaseCheckpointSaver, thread_id: str) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.name = new_id()
        self._epoch: int | None = None
        self._is_over = False
        self._lock = mutex()

    @property
    def is_claimed(self) -> bool:
        """Whether the run owns the thread now."""
        return self._epoch is not None

    async def claim(self, io: IO) -> None:
        """Own the thread; raise `ThreadBusyError` if another run does."""
        self._is_over = False
        await self._call(io, self._claim)

    def _claim(self) -> None:
        epoch = self.saver.claim(self.thread_id, self.name)
        with self._lock:
            if not self._is_over:
                self._epoch = epoch
                return
        self.saver.release(self.thread_id, epoch)  # the run was cancelled while it waited

    async def claim_to_answer(self, io: IO, check: Callable[[], Awaitable[bool]]) -> None:
        """Own the thread to answer its question.

        While another run owns it, `check` raises if that one has an answer already; it returns whether nothing was
        written since the question: then the owner is about to write, or to give the thread back.
        """
        waited = 0.0
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            try:
                return await self.claim(io)
            except ThreadBusyError:
                is_open = await check()
                # A machine may be busy, or a disk slow.
                if waited >= (answer_wait() if is_open else sum(PAUSES)):
                    raise
            await io.sleep(pause)
            waited += pause
        return None

    async def check(self, io: IO) -> None:
        """Raise `ThreadConflictError` if the run must not have its next effect: it has lost its thread."""
        epoch = self._epoch
        if epoch is not None and not self.saver.is_surely_owner(self.thread_id, epoch):
            await self._call(io, self.saver.check_owner, self.thread_id, epoch)

    def append(self, namespace: str, entries: list[Entry], after: str | None) -> None:
        """Write entries under the claim."""
        if self._epoch is None:
            self.saver.append(self.thread_id, namespace, entries, after=after)
        else:
            append_as_owner(
                self.saver, self.thread_id, namespace, entries, after=after, epoch=self._epoch
            )

    async def release(self, io: IO) -> None:
        """Give the thread back; a cancelled call waits until that is written."""
        with self._lock:
            self._is_over = True
            epoch, self._epoch = self._epoch, None
        if epoch is not None:
            await self._call(io, self.saver.release, self.thread_id, epoch)

    @asynccontextmanager
    async def owned(self, io: IO) -> AsyncGenerator[None, None]:
        """Own the thread for the duration of a block."""
        try:
            await self.claim(io)
            yield
        finally:
            await self.release(io)

    async def _call(self, io: IO, method: Any, *args: object) -> Any:  # noqa: ANN401  a method of the saver
        try:
            if self.saver.is_instant or io.blocking:
                return method(*args)
            return await shield(io.call(method, *args))
        except StoreError as error:
            error.ends_run = True
            raise
