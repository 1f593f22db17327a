"""`ThreadOwner`: the run that owns a thread. One run at a time continues a thread; nested runs write under its claim.

The claim comes first: before the run reads the thread. So what it has read is still the last when it writes, and a run
that was taken for dead and lost its thread is refused by the store, whatever it still tries to write.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from foldline._io import IO, shield
from foldline.checkpoint.base import BaseCheckpointSaver, Entry, append_as_owner
from foldline.exceptions import StoreError
from foldline.utils.uuid import new_id

__all__ = ["ThreadOwner"]


class ThreadOwner:
    """The claim of one run on one thread."""

    def __init__(self, saver: BaseCheckpointSaver, thread_id: str) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.name = new_id()
        self._epoch: int | None = None

    async def claim(self, io: IO) -> None:
        """Own the thread; raise `ThreadBusyError` if another run does."""
        self._epoch = await self._call(io, self.saver.claim, self.thread_id, self.name)

    async def check(self, io: IO) -> None:
        """Raise `ThreadConflictError` if the run must not have its next effect: it has lost its thread."""
        if self._epoch is not None:
            await self._call(io, self.saver.check_owner, self.thread_id, self._epoch)

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
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            body = self._call(io, self.saver.release, self.thread_id, epoch)
            await (body if io.blocking or self.saver.is_instant else shield(body))

    @asynccontextmanager
    async def owned(self, io: IO) -> AsyncGenerator[None, None]:
        """Own the thread for the duration of a block."""
        await self.claim(io)
        try:
            yield
        finally:
            await self.release(io)

    async def _call(self, io: IO, method: Any, *args: object) -> Any:  # noqa: ANN401  a method of the saver
        try:
            if self.saver.is_instant:
                return method(*args)
            return await io.call(method, *args)
        except StoreError as error:
            error.ends_run = True
            raise
