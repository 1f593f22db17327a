"""`Log`: entries appended to one namespace of a thread. Whoever comes while the store is busy is written with the next.

Two processes never both carry on: an append names the last entry its writer knew, and the store refuses another one.
A log inside another run (a sub-agent's, the steps of a tool) names in each entry the outer record it came under: a
fork of the outer thread sees what came before it, and not what another branch did.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from foldline._io import IO, RunningBody, mutex, shield
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.exceptions import FlowChangedError, StoreError, UsageError
from foldline.utils.uuid import new_id
from foldline.workflows.values import from_text, to_text

__all__ = ["Lineage", "Log", "PendingEntry", "ends_run", "thread_of"]


@dataclass(slots=True)
class PendingEntry:
    """An entry that will be written."""

    entry: Entry
    is_written: bool = False


@dataclass(slots=True)
class Lineage:
    """Where the run around a log stands: the records since its last step."""

    log: Log
    chain: set[str]

    def select(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries that came under a record of this branch, and what was changed from outside after them."""
        found: dict[str | None, Entry] = {}
        for entry in entries:
            body = from_text(entry.body, f"record {entry.id}")
            is_ours = (
                body["under"] in self.chain
                if "under" in body
                else not entry.parent or entry.parent in found
            )
            if is_ours:
                found[entry.id] = entry
        return list(found.values())


class Log:
    """Appends entries to one namespace of a thread."""

    def __init__(
        self,
        saver: BaseCheckpointSaver,
        thread_id: str,
        namespace: str,
        lineage: Lineage | None = None,
    ) -> None:
        self.saver = saver
        self.thread_id = thread_id
        self.namespace = namespace
        self.lineage = lineage
        """Where the run around this one stands; None where there is none."""
        self.last: str | None = None
        """The last entry of the log, by whomever."""
        self.durability = "sync"
        """When entries are written: before a run goes on, behind it (`async`), or at its end (`exit`)."""
        self._writer: RunningBody | None = None
        self._is_writing = False
        self._newest: str | None = None
        self._failure: BaseException | None = None
        self._pending: list[PendingEntry] = []
        self._adding = mutex()
        self._writing = mutex()
        self._turn: object = None

    async def read(self, io: IO) -> list[Entry]:
        """Return the entries of this branch, the oldest first."""
        try:
            if self.saver.is_instant:
                entries = self.saver.read(self.thread_id, self.namespace)
            else:
                entries = await io.call(self.saver.read, self.thread_id, self.namespace)
        except StoreError as error:
            error.ends_run = True
            raise
        self.last = entries[-1].id if entries else None
        if self.lineage is not None:
            entries = self.lineage.select(entries)
        return entries

    @property
    def current(self) -> str | None:
        """The last entry that counts: written, or to be written later with all others."""
        return self.last if self.durability == "sync" else self._newest or self.last

    def add(self, body: dict[str, Any], parent: str | None) -> PendingEntry:
        """Add an entry that the next `flush` writes."""
        if self.lineage is not None:
            body = {**body, "under": self.lineage.log.current}
        pending = PendingEntry(Entry(new_id(), parent, to_text(body)))
        with self._adding:
            self._pending.append(pending)
            self._newest = pending.entry.id
        return pending

    async def flush(self, io: IO, pending: PendingEntry | None = None) -> None:
        """Wait until an entry, or everything added, is safe; unless entries are written later."""
        if pending is None:
            if not self._pending:
                return
            pending = self._pending[-1]
        if self.durability == "exit":
            return
        if self.durability == "async" and not self.saver.is_instant:
            self._write_behind(io)
        elif self.saver.is_instant or io.blocking:
            self._append(pending)
        else:
            # What was done is written down although its task is cancelled now.
            await shield(self._append_async(io, pending))

    def set_durability(self, durability: str | None) -> None:
        """Choose when entries are written: before the run goes on, beside the next step, or when the run ends."""
        if durability not in (None, "sync", "async", "exit"):
            raise UsageError(
                f'durability={durability!r}: say "sync", "async" or "exit"; an engine, as DbosDurability, is given to '
                "create_agent or @workflow"
            )
        self.durability = durability or "sync"

    async def release(self, io: IO) -> None:
        """Write what was held back, and wait for what is being written."""
        if self.durability == "sync":
            return
        writer, self._writer = self._writer, None
        if writer is not None:
            await (writer.result() if io.blocking else shield(writer.result()))
        self.durability = "sync"
        if self._failure is not None:
            raise self._failure
        await self.flush(io)

    def _write_behind(self, io: IO) -> None:
        """Let a writer beside the run write what was added; what it could not write ends the run at the next entry."""
        if self._failure is not None:
            raise self._failure
        with self._adding:
            if self._is_writing:
                return
            self._is_writing = True
        self._writer = io.start(self._write_all(io))

    async def _write_all(self, io: IO) -> None:
        while True:
            with self._adding:
                if not self._pending or self._failure is not None:
                    self._is_writing = False
                    return
                pending = self._pending[-1]
            with suppress(
                Exception
            ):  # it is kept, and raised where the run adds its next entry or ends
                await io.call(self._append, pending)

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
                if isinstance(error, StoreError):
                    error.ends_run = True
                raise
            self.last = entries[-1].id
            for item in batch:
                item.is_written = True


def ends_run(error: BaseException) -> bool:
    """Return whether a run cannot go on after an error: its thread cannot be kept, or no longer fits the code.

    Nobody in between tries such a thing again, or tells it to a model.
    """
    if isinstance(error, StoreError):
        return error.ends_run
    return isinstance(error, FlowChangedError)


def thread_of(configurable: Mapping[str, Any], name: str) -> str:
    """Return the thread that a config names."""
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise UsageError(
            f'{name} has a checkpointer and needs a thread: config={{"configurable": {{"thread_id": "…"}}}}'
        )
    return str(thread_id)
