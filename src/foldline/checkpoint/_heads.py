"""`Heads`: the folded states of the last threads that a saver object has loaded, so that a turn costs what is new.

A head is the fold of a thread's entries up to one of them, made from the log alone and never from what a run has in
memory. The next load adds the entries that came since; it is used only if the log still ends with entries that follow
it (`workflows.fold`).
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from foldline._io import mutex
from foldline.checkpoint._per_saver import PerSaver
from foldline.checkpoint.base import Entry

__all__ = ["Head", "Heads", "heads_of"]

MAX_HEADS: Final = 256
MAX_SIZE: Final = 64 * 1024 * 1024
"""Characters of the entries of all heads of a saver; without a bound, 256 long threads would fill the memory."""
MAX_TAIL: Final = 1000
Key = tuple[str, str]
"""A thread and a namespace."""


@dataclass(slots=True)
class Head:
    """The state of one thread at one of its entries."""

    plan: object
    """The graph or agent by whose keys and reducers it was folded."""
    state: Any
    last: str | None
    """The last entry that it has; None for a thread without entries."""
    count: int
    """How many entries the log has up to that one, of all branches."""
    size: int = 0
    """Characters of the entries."""
    under: object = None
    """The position of the outer run, for a nested log."""
    tail: list[Entry] = field(default_factory=list)
    """What this process has written since."""
    guards: dict[str, Any] = field(default_factory=dict)
    """What shows whether a value was changed in place, by key of the state."""
    unsaved: int = 0
    """Characters of the entries since the last snapshot."""
    saved: int = 0
    """Characters of the last snapshot."""


class Heads:
    """The heads of one saver."""

    def __init__(self) -> None:
        self._heads: OrderedDict[Key, Head] = OrderedDict()
        self._size = 0
        self._lock = mutex()

    def take(self, thread_id: str, namespace: str) -> Head | None:
        """Return a head that only the caller has now, until it puts it back."""
        with self._lock:
            head = self._heads.pop((thread_id, namespace), None)
            if head is not None:
                self._size -= head.size
            return head

    def put(self, thread_id: str, namespace: str, head: Head) -> None:
        """Keep a head; the oldest ones make room."""
        key = thread_id, namespace
        with self._lock:
            earlier = self._heads.pop(key, None)
            self._size += head.size - (0 if earlier is None else earlier.size)
            self._heads[key] = head
            while self._heads and (len(self._heads) > MAX_HEADS or self._size > MAX_SIZE):
                _, oldest = self._heads.popitem(last=False)
                self._size -= oldest.size

    def note(self, thread_id: str, namespace: str, entries: list[Entry], after: str | None) -> None:
        """Note entries that were written after the entry `after`, so that they need not be read again."""
        with self._lock:
            head = self._heads.get((thread_id, namespace))
            if head is None:
                return
            tip = head.tail[-1].id if head.tail else head.last
            if tip == after and len(head.tail) + len(entries) <= MAX_TAIL:
                head.tail.extend(entries)

    def drop(self, thread_id: str) -> None:
        """Forget a thread."""
        with self._lock:
            for key in [key for key in self._heads if key[0] == thread_id]:
                self._size -= self._heads.pop(key).size

    def __len__(self) -> int:
        return len(self._heads)


_HEADS: Final = PerSaver(Heads)
heads_of = _HEADS.of
"""Returns the heads of a saver."""


if hasattr(os, "register_at_fork"):  # another thread may have held a lock during the fork
    os.register_at_fork(after_in_child=_HEADS.known.clear)
