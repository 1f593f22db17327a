"""`Log`: entries appended to one namespace of a thread. Entries added while the store is busy are written together.

Two processes never both continue a thread: an append names the last entry its writer has read, and the store rejects
any other. A log inside another run (a sub-agent's, the steps of a tool) stores in each entry the position of the outer
run at that time: a fork of the outer thread sees the entries before the fork, and not those of another branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from foldline._io import IO, RunningBody, mutex, shield
from foldline.checkpoint._heads import heads_of
from foldline.checkpoint.base import BaseCheckpointSaver, Entry, Snapshot, read_after
from foldline.exceptions import (
    FlowChangedError,
    SchemaError,
    StoreError,
    UnknownCheckpointError,
    UsageError,
)
from foldline.utils.uuid import new_id
from foldline.workflows._thread_owner import ThreadOwner
from foldline.workflows.interrupts import is_invalid_resume
from foldline.workflows.values import from_text, to_text

__all__ = [
    "Lineage",
    "Log",
    "PendingEntry",
    "chain_of",
    "check_durability",
    "ends_run",
    "thread_of",
]


QUESTIONS = ("stop", "interrupt")
"""The kinds of records with which a run stops for an answer."""


@dataclass(slots=True)
class PendingEntry:
    """An entry that will be written."""

    entry: Entry
    is_written: bool = False


class Lineage(Protocol):
    """The outer run of a nested log: its position, and which positions were on its way there."""

    def mark(self) -> object:
        """Return the position of the run; each record of a nested log stores it as `under`."""

    def covers(self, mark: object) -> bool:
        """Whether a record with this mark belongs to the branch of the run."""


class Log:
    """Appends entries to one namespace of a thread."""

    def __init__(
        self,
        saver: BaseCheckpointSaver,
        thread_id: str,
        namespace: str,
        lineage: Lineage | None = None,
        owner: ThreadOwner | None = None,
    ) -> None:
        self.saver = saver
        self.owner = owner or ThreadOwner(saver, thread_id)
        """The run that owns the thread; without a claim, entries are written where nobody was faster."""
        self.thread_id = thread_id
        self.namespace = namespace
        self.old_namespace: str | None = None
        """The namespace that an earlier version gave this log, and in which its entries may be."""
        self.lineage = lineage
        """The position of the outer run; None if there is none."""
        self.last: str | None = None
        """The last entry of the log, by any writer."""
        self._last_read: Entry | None = None
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
        self.squeeze: Callable[[list[Entry]], list[Entry]] | None = None
        """Makes one entry of several, for `durability="exit"`."""

    async def chain(self, io: IO, at: str | None = None) -> list[Entry]:
        """Return the entries up to `at`, or up to the last one of the outer run's branch, the oldest first."""
        return self.chain_of(await self.read(io), at)

    def chain_of(self, entries: list[Entry], at: str | None = None) -> list[Entry]:
        """Return the same of entries that were read already."""
        if at is None and self.lineage is not None:
            at = _newest(entries, self.lineage)
            if at is None:
                return []
        return chain_of(entries, at)

    async def read(self, io: IO) -> list[Entry]:
        """Return the entries of all branches, the oldest first."""
        entries = await self._read(io, self.namespace)
        if not entries and self.old_namespace is not None:
            entries = await self._read(io, self.old_namespace)
            if entries:
                self.namespace = self.old_namespace
        self.last = entries[-1].id if entries else None
        self._last_read = entries[-1] if entries else None
        return entries

    async def _read(self, io: IO, namespace: str) -> list[Entry]:
        entries: list[Entry] = await self._call(io, self.saver.read, self.thread_id, namespace)
        return entries

    async def _call(self, io: IO, method: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401  a method of the saver
        try:
            return method(*args) if self.saver.is_instant else await io.call(method, *args)
        except StoreError as error:
            error.ends_run = True
            raise

    async def head(self, io: IO) -> Entry | None:
        """Return the last entry of all branches; None for an empty log."""
        entry: Entry | None = await self._call(io, self.saver.head, self.thread_id, self.namespace)
        self.last = None if entry is None else entry.id
        self._last_read = entry
        return entry

    async def read_after(self, io: IO, after: str) -> list[Entry]:
        """Return the entries of all branches that were written after one of them."""
        entries: list[Entry] = await self._call(
            io, read_after, self.saver, self.thread_id, self.namespace, after
        )
        if entries:
            self.last, self._last_read = entries[-1].id, entries[-1]
        return entries

    async def snapshot(self, io: IO) -> Snapshot | None:
        """Return the newest snapshot."""
        found: Snapshot | None = await self._call(
            io, self.saver.snapshot, self.thread_id, self.namespace
        )
        return found

    async def put_snapshot(self, io: IO, snapshot: Snapshot) -> None:
        """Store a snapshot."""
        await self._call(io, self.saver.put_snapshot, self.thread_id, self.namespace, snapshot)

    @property
    def ends_with_question(self) -> bool:
        """Whether the last entry that was read is a question."""
        if self._last_read is None:
            return False
        return from_text(self._last_read.body, "the last record")["kind"] in QUESTIONS

    @property
    def current(self) -> str | None:
        """The last entry: written, or to be written later."""
        return self.last if self.durability == "sync" else self._newest or self.last

    def add(self, body: dict[str, Any], parent: str | None) -> PendingEntry:
        """Add an entry that the next `flush` writes."""
        if self.lineage is not None:
            body = {**body, "under": self.lineage.mark()}
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
        if self.durability == "exit" and self.squeeze is not None:
            entries = self.squeeze([pending.entry for pending in self._pending])
            self._pending = [PendingEntry(entry) for entry in entries]
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
                self.owner.append(self.namespace, entries, self.last)
            except BaseException as error:
                self._failure = error
                if isinstance(error, StoreError):
                    error.ends_run = True
                raise
            heads_of(self.saver).note(self.thread_id, self.namespace, entries, self.last)
            self.last = entries[-1].id
            for item in batch:
                item.is_written = True


def chain_of(entries: list[Entry], at: str | None = None) -> list[Entry]:
    """Return the chain of entries that ends with `at` (default: the last one), the oldest first."""
    if not entries:
        if at is not None:
            raise UnknownCheckpointError(f"this thread has no checkpoint {at!r}")
        return []
    by_id = {entry.id: entry for entry in entries}
    if at is not None and at not in by_id:
        raise UnknownCheckpointError(f"this thread has no checkpoint {at!r}")
    chain: list[Entry] = []
    current: Entry | None = by_id[at] if at is not None else entries[-1]
    while current is not None:
        chain.append(current)
        if len(chain) > len(entries):
            raise SchemaError("the entries of this thread form a cycle: its log is damaged")
        if current.parent is not None and current.parent not in by_id:
            raise SchemaError(
                f"entry {current.id} follows {current.parent}, which does not exist: the log is damaged"
            )
        current = None if current.parent is None else by_id[current.parent]
    return chain[::-1]


def _newest(entries: list[Entry], lineage: Lineage) -> str | None:
    """Return the last entry of a nested log that belongs to the branch of the outer run.

    An entry without a mark is a change from outside, or older than marks: it belongs to the branch of its parent.
    """
    belongs: dict[str | None, bool] = {None: True}
    by_id = {entry.id: entry for entry in entries}

    def find(entry: Entry | None) -> bool:
        path: list[str] = []
        result = True
        while entry is not None:
            if entry.id in belongs:
                result = belongs[entry.id]
                break
            path.append(entry.id)
            body = from_text(entry.body, f"record {entry.id}")
            if "under" in body:
                result = lineage.covers(body["under"])
                break
            entry = by_id.get(entry.parent or "")
        belongs.update(dict.fromkeys(path, result))
        return result

    return next((entry.id for entry in reversed(entries) if find(entry)), None)


def check_durability(durability: object) -> None:
    """Raise `UsageError` for a value of the option `durability` of a call that does not exist."""
    if durability not in (None, "sync", "async", "exit"):
        raise UsageError(
            f'durability={durability!r}: use "sync", "async" or "exit"; pass an engine, such as DbosDurability, '
            "to create_agent or @workflow"
        )


def ends_run(error: BaseException) -> bool:
    """Whether a run cannot continue after an error: its thread cannot be stored, or does not match the code.

    So does an answer that does not fit its question. Such an error is neither retried nor sent to a model.
    """
    if isinstance(error, StoreError):
        return error.ends_run
    return isinstance(error, FlowChangedError) or is_invalid_resume(error)


def thread_of(configurable: Mapping[str, Any], name: str) -> str:
    """Return the thread id of a config; raise `UsageError` if it has none."""
    thread_id = configurable.get("thread_id")
    if thread_id is None:
        raise UsageError(
            f'{name} has a checkpointer and needs a thread: config={{"configurable": {{"thread_id": "…"}}}}'
        )
    return str(thread_id)
