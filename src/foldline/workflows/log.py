"""`Log`: entries appended to one namespace of a thread. Whoever comes while the store is busy is written with the next.

Two processes never both carry on: an append names the last entry its writer knew, and the store refuses another one.
"""

from __future__ import annotations

from dataclasses import dataclass

from foldline._io import IO, mutex, shield
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.utils.uuid import new_id
from foldline.workflows.values import Json, to_text

__all__ = ["Log", "PendingEntry"]


@dataclass(slots=True)
class PendingEntry:
    """An entry that will be written."""

    entry: Entry
    is_written: bool = False


class Log:
    """Appends entries to one namespace of a thread."""

    def __init__(self, saver: BaseCheckpointSaver, thread_id: str, namespace: str) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.namespace = namespace
        self.last: str | None = None
        """The last entry of the log, by whomever."""
        self.holds_back = False
        """Whether nothing is written before `release`."""
        self._failure: BaseException | None = None
        self._pending: list[PendingEntry] = []
        self._adding = mutex()
        self._writing = mutex()
        self._turn: object = None

    async def read(self, io: IO) -> list[Entry]:
        """Return all entries, the oldest first."""
        if self.saver.is_instant:
            entries = self.saver.read(self.thread_id, self.namespace)
        else:
            entries = await io.call(self.saver.read, self.thread_id, self.namespace)
        self.last = entries[-1].id if entries else None
        return entries

    def add(self, body: dict[str, Json], parent: str | None) -> PendingEntry:
        """Add an entry that the next `flush` writes."""
        pending = PendingEntry(Entry(new_id(), parent, to_text(body)))
        with self._adding:
            self._pending.append(pending)
        return pending

    async def flush(self, io: IO, pending: PendingEntry | None = None) -> None:
        """Wait until an entry, or everything added, is safe."""
        if pending is None:
            if not self._pending:
                return
            pending = self._pending[-1]
        if self.holds_back:
            return
        if self.saver.is_instant or io.blocking:
            self._append(pending)
        else:
            # What was done is written down although its task is cancelled now.
            await shield(self._append_async(io, pending))

    async def release(self, io: IO) -> None:
        """Write what was held back."""
        self.holds_back = False
        await self.flush(io)

    async def _append_async(self, io: IO, pending: PendingEntry) -> None:
        # One thread at a time waits for the store, however many tasks have something to write.
        if self._turn is None:
            self._turn = io.lock()
        async with self._turn:  # type: ignore[attr-defined]
            if not pending.is_written:
                await io.call(self._append, pending)

    def _append(self, pending: PendingEntry) -> None:
        with self._writing:
            if pending.is_written:
                return
            if self._failure is not None:
                raise self._failure
            with self._adding:
                batch, self._pending = self._pending, []
            entries = [item.entry for item in batch]
            try:
                self.saver.append(self.thread_id, self.namespace, entries, after=self.last)
            except BaseException as error:
                self._failure = error
                raise
            self.last = entries[-1].id
            for item in batch:
                item.is_written = True
