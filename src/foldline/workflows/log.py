"""`Log`: entries appended to one namespace of a thread. Entries added while the store is busy are written together.

Two processes never both continue a thread: an append names the last entry its writer has read, and the store rejects
any other. A log inside another run (a sub-agent's, the steps of a tool) stores in each entry the outer record at that
time: a fork of the outer thread sees the entries before the fork, and not those of another branch.
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

__all__ = [
    "Lineage",
    "Log",
    "PendingEntry",
    "check_durability",
    "ends_run",
    "thread_of",
]


@dataclass(slots=True)
class PendingEntry:
    """An entry that will be written."""

    entry: Entry
    is_written: bool = False


@dataclass(slots=True)
class Lineage:
    """The position of the outer run of a log: its records since its last step."""

    log: Log
    chain: set[str]

    def select(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries under a record of this branch, and later changes from outside."""
        selected: dict[str | None, Entry] = {}
        for entry in entries:
            body = from_text(entry.body, f"record {entry.id}")
            is_ours = (
                body["under"] in self.chain
                if "under" in body
                else not entry.parent or entry.parent in selected
            )
            if is_ours:
                selected[entry.id] = entry
        return list(selected.values())


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
        """The position of the outer run; None if there is none."""
        self.last: str | None = None
        """The last entry of the log, by any writer."""
        self.durability = "sync"
        """When entries are written: before a run continues, concurrently (`async`), or at its end (`exit`)."""
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
        """The last entry: written, or to be written later."""
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
        """Wait until an entry, or everything added, is stored; unless entries are written later."""
        if pending is None:
            if not self._pending:
                return
            pending = self._pending[-1]
        if self.durability == "exit":
            return
        if self.durability == "async" and not self.saver.is_instant:
            self._start_writer(io)
        elif self.saver.is_instant or io.blocking:
            self._append(pending)
        else:
            # Shielded: the entry is written even if its task is cancelled.
            await shield(self._append_async(io, pending))

    def set_durability(self, durability: str | None) -> None:
        """Set when entries are written: before the run continues, during the next step, or when the run ends."""
        check_durability(durability)
        self.durability = durability or "sync"

    async def release(self, io: IO) -> None:
        """Write the remaining entries, and wait for those being written."""
        if self.durability == "sync":
            return
        writer, self._writer = self._writer, None
        if writer is not None:
            await (writer.result() if io.blocking else shield(writer.result()))
        self.durability = "sync"
        if self._failure is not None:
            raise self._failure
        await self.flush(io)

    def _start_writer(self, io: IO) -> None:
        """Start a background writer for the added entries; its failure ends the run at the next entry."""
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
            ):  # stored in `_failure`, and raised at the next entry or at the end
                await io.call(self._append, pending)

    async def _append_async(self, io: IO, pending: PendingEntry) -> None:
        # Only one thread waits for the store, however many tasks write.
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


def check_durability(durability: object) -> None:
    """Raise `UsageError` for a value of the option `durability` of a call that does not exist."""
    if durability not in (None, "sync", "async", "exit"):
        raise UsageError(
            f'durability={durability!r}: use "sync", "async" or "exit"; pass an engine, such as DbosDurability, '
            "to create_agent or @workflow"
        )


def ends_run(error: BaseException) -> bool:
    """Whether a run cannot continue after an error: its thread cannot be stored, or does not match the code.

    Such an error is neither retried nor sent to a model.
    """
    if isinstance(error, StoreError):
        return error.ends_run
    return isinstance(error, FlowChangedError)


def thread_of(configurable: Mapping[str, Any], name: str) -> str:
    """Return the thread id of a config; raise `UsageError` if it has none."""
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise UsageError(
            f'{name} has a checkpointer and needs a thread: config={{"configurable": {{"thread_id": "…"}}}}'
        )
    return str(thread_id)
