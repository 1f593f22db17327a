"""Folds the log of a thread to its state. A state that was folded before is kept, and only new entries are added to it.

What is kept is made from the log alone, and a run gets a copy: plain values are copied, messages are shared, because
copying a long chat would cost as much as reading it. So that a node which changes a message in place does not change
later runs, the fields of shared messages are compared with a copy before they are used again; if one differs, the log
is folded anew.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any, Final, Generic, TypeVar, cast

from foldline._io import IO
from foldline.checkpoint._heads import Head, heads_of
from foldline.checkpoint.base import Entry, Snapshot
from foldline.exceptions import FoldlineError
from foldline.load._compact import copy_fields, copy_message
from foldline.workflows._snapshots import MIN_SIZE, read_snapshot, write_snapshot
from foldline.workflows._thread_log import Log
from foldline.workflows.values import from_text

__all__ = ["Fold", "isolate"]

StateT = TypeVar("StateT")
ATOMS: Final = frozenset({str, int, float, bool, bytes, complex, type(None)})
NOT_COPIED: Final = frozenset({"keys", "values", "indexes"})
"""Fields of a state that are shared, or made anew."""
FIELDS: Final = attrgetter("__dict__")
EXTRA: Final = attrgetter("__pydantic_extra__")


class Guard:
    """The messages of a list, and copies of their fields."""

    __slots__ = ("extras", "fields", "messages")

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.fields: list[Any] = []
        self.extras: list[Any] = []

    def add(self, message: object, copied: tuple[Any, Any]) -> None:
        """Add a message with a copy of its fields."""
        self.messages.append(message)
        self.fields.append(copied[0])
        self.extras.append(copied[1])

    def holds(self) -> bool:
        """Whether no message was changed."""
        # Two comparisons: pairs would be thousands of objects for the garbage collector.
        return (
            list(map(FIELDS, self.messages)) == self.fields
            and list(map(EXTRA, self.messages)) == self.extras
        )

    def copies(self) -> dict[int, tuple[Any, Any]]:
        """Return the copies by the identity of their messages."""
        pairs = zip(self.fields, self.extras, strict=True)
        return dict(zip(map(id, self.messages), pairs, strict=True))


class Fold(ABC, Generic[StateT]):
    """How the entries of a graph, an agent or a flow add up to a state."""

    plan: object
    """Whose keys and reducers are used; a state that was folded by others is not used."""

    @abstractmethod
    def begin(self) -> StateT:
        """Return the state before any entry."""

    @abstractmethod
    def take(self, state: StateT, entry: Entry, place: int) -> None:
        """Add an entry, which has this place in its log."""

    @abstractmethod
    def plain_values(self, state: StateT) -> dict[str, Any]:
        """Return the values of a state, with new lists of messages."""

    def indexes_of(self, state: StateT) -> dict[str, Any]:
        """Return what is known about the lists of a state."""
        return {}

    def share(self, head: Head) -> StateT:
        """Return a state that a run may change."""
        state: Any = head.state
        new = copy.copy(state)
        for name in _names(state.__class__):
            value = getattr(state, name)
            if type(value) not in ATOMS:
                setattr(new, name, isolate(value))
        new.values = {
            # A guard watches messages, and not the list that they are in: a run gets a list of its own.
            key: list(value) if key in head.guards else isolate(value)
            for key, value in self.plain_values(state).items()
        }
        new.indexes = self.indexes_of(state)
        return cast("StateT", new)

    async def load(self, log: Log, io: IO) -> StateT:
        """Return the state at the end of a log, or of the branch of its outer run."""
        heads = heads_of(log.saver)
        head = heads.take(log.thread_id, log.namespace)
        if head is None or not await self._continue(head, log, io):
            head = await self._read_snapshot(log, io) or await self._fold(log, io)
        if head.unsaved > max(MIN_SIZE, head.saved) and log.owner.is_claimed:
            await self._write_snapshot(head, log, io)
        state = self.share(head)
        if head.last is not None and head.last == log.last:
            heads.put(log.thread_id, log.namespace, head)
        return state

    async def _fold(self, log: Log, io: IO) -> Head:
        """Fold a log from its beginning."""
        entries = await log.read(io)
        chain = log.chain_of(entries)
        head = Head(self.plan, self.begin(), chain[-1].id if chain else None, len(entries))
        with _without_collector():
            places = {entry.id: place for place, entry in enumerate(entries)}
            for entry in chain:
                self._take(head, entry, places[entry.id])
            if log.lineage is not None:
                head.under = _mark_of(chain)
            self._watch(head)
        return head

    def _take(self, head: Head, entry: Entry, place: int) -> None:
        self.take(head.state, entry, place)
        head.size += len(entry.body)
        head.unsaved += len(entry.body)

    async def _continue(self, head: Head, log: Log, io: IO) -> bool:
        """Bring a kept state to the end of its log; return whether that is possible."""
        if head.plan is not self.plan or head.last is None:
            return False
        tail = await _read_tail(head, log, io)
        if tail is None or not all(guard.holds() for guard in head.guards.values()):
            return False
        if log.lineage is not None:
            mark = _mark_of(tail)
            head.under = head.under if mark is None else mark
            if head.under is not None and not log.lineage.covers(head.under):
                return False
        for place, entry in enumerate(tail, start=head.count):
            self._take(head, entry, place)
        if tail:
            head.last, head.count = tail[-1].id, head.count + len(tail)
            self._watch(head)
        return True

    # -- snapshots

    kind: str = ""
    """The kind of its snapshots; without one there are none."""

    def fingerprint(self) -> str:
        """Return a text that differs where the same entries would add up to another state."""
        return ""

    @abstractmethod
    def freeze(self, state: StateT) -> dict[str, Any] | None:
        """Return a state as JSON; None in the middle of a step."""

    @abstractmethod
    def thaw(self, packed: dict[str, Any]) -> StateT:
        """Return the state of its JSON form."""

    async def _read_snapshot(self, log: Log, io: IO) -> Head | None:
        """Return the state of the snapshot with the entries since; None if there is none that the log continues."""
        if not self.kind or log.lineage is not None:
            return None
        snapshot = await log.snapshot(io)
        head = None if snapshot is None else self._thaw(snapshot)
        if snapshot is None or head is None:
            return None
        entries = await log.read_after(io, snapshot.at)
        if not entries:
            tip = await log.head(io)
            return head if tip is not None and tip.id == snapshot.at else None
        chain = _chain_after(entries, snapshot.at)
        if chain is None:
            return None
        with _without_collector():
            places = {entry.id: place for place, entry in enumerate(entries, head.count)}
            for entry in chain:
                self._take(head, entry, places[entry.id])
            head.last, head.count = entries[-1].id, head.count + len(entries)
            self._watch(head)
        return head

    def _thaw(self, snapshot: Snapshot) -> Head | None:
        found = read_snapshot(snapshot.body, self.kind, self.fingerprint())
        if found is None:
            return None
        count, packed = found
        try:
            with _without_collector():
                state = self.thaw(packed)
        except (FoldlineError, KeyError, TypeError, ValueError, AttributeError):
            return None  # damaged, or of other types: the log has the truth
        size = len(snapshot.body)
        head = Head(self.plan, state, snapshot.at, count, size, saved=size)
        self._watch(head)
        return head

    async def _write_snapshot(self, head: Head, log: Log, io: IO) -> None:
        """Store the state; a failing store, or a state that cannot be written, does not matter to the run."""
        if not self.kind or log.lineage is not None or head.last is None:
            return
        try:
            packed = self.freeze(head.state)
            if packed is None:
                return  # after the next step
            body = write_snapshot(self.kind, self.fingerprint(), head.count, packed)
            restored = self._thaw(Snapshot(head.last, body))
            if restored is not None and restored.state == head.state:
                await log.put_snapshot(io, Snapshot(head.last, body))
            head.saved = len(body)
        except FoldlineError:
            head.saved = head.size  # not at each turn again
        head.unsaved = 0

    # -- changes in place

    def _watch(self, head: Head) -> None:
        """Copy the fields of messages that are new in a state; other lists than those of messages have no guard."""
        guards, values = head.guards, head.state.values
        head.guards = {
            key: guard
            for key, value in values.items()
            if isinstance(value, list) and (guard := _guard(value, guards.get(key))) is not None
        }


@contextmanager
def _without_collector() -> Generator[None, None, None]:
    """Let the garbage collector rest: it would search thousands of new messages, all of which are kept, many times."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _chain_after(entries: list[Entry], at: str) -> list[Entry] | None:
    """Return the entries between one of them and the last, the oldest first; None if that is on another branch."""
    by_id = {entry.id: entry for entry in entries}
    chain = [entries[-1]]
    while chain[-1].parent != at:
        parent = by_id.get(chain[-1].parent or "")
        if parent is None or len(chain) > len(entries):
            return None
        chain.append(parent)
    return chain[::-1]


async def _read_tail(head: Head, log: Log, io: IO) -> list[Entry] | None:
    """Return the entries that follow a kept state; None if the log does not continue it."""
    tip = await log.head(io)
    tail, head.tail = head.tail, []
    if tip is None or head.last is None:
        return None
    if tip.id == head.last:
        return []
    if not tail or tail[-1].id != tip.id:  # another process has written
        tail = await log.read_after(io, head.last)
    before = head.last
    for entry in tail:
        if entry.parent != before:
            return None  # a branch from an earlier entry
        before = entry.id
    return tail or None


def _mark_of(entries: list[Entry]) -> object:
    """Return the position of the outer run in the last entry that has one."""
    for entry in reversed(entries):
        body = from_text(entry.body, f"record {entry.id}")
        if "under" in body:
            return body["under"]
    return None


def _guard(messages: list[Any], earlier: Guard | None) -> Guard | None:
    """Return the guard of a list; None if it has other things than messages whose fields can be compared."""
    copies: dict[int, tuple[Any, Any]] = {}
    guard = Guard() if earlier is None else earlier
    if len(guard.messages) > len(messages) or not all(map(is_, guard.messages, messages)):
        copies, guard = guard.copies(), Guard()
    for message in messages[len(guard.messages) :]:
        copied = copies.get(id(message)) or copy_fields(message)
        if copied is None:
            return None
        guard.add(message, copied)
    return guard


def isolate(value: Any) -> Any:  # noqa: ANN401  a value of a state
    """Return a copy of a value that shares nothing with it that can be changed."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is dict:
        return {isolate(key): isolate(item) for key, item in value.items()} if value else {}
    if kind in (list, tuple, set, frozenset):
        return kind([isolate(item) for item in value]) if value else kind()
    message = copy_message(value)
    return copy.deepcopy(value) if message is None else message


@lru_cache(maxsize=64)
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind) if item.name not in NOT_COPIED)
