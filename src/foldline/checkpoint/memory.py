"""`InMemorySaver`: threads in this process, for tests and for programs that need no persistence."""

from __future__ import annotations

from collections.abc import Iterable

from foldline._io import mutex
from foldline.checkpoint._heads import heads_of
from foldline.checkpoint._local_writers import local_writers
from foldline.checkpoint.base import (
    BaseCheckpointSaver,
    Entry,
    check_copy,
    check_head,
    entries_after,
    left_behind,
)

__all__ = ["InMemorySaver", "MemorySaver"]


class InMemorySaver(BaseCheckpointSaver):
    """Stores threads in memory."""

    is_instant = True

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, list[Entry]]] = {}
        self._lock = mutex()

    def read(self, thread_id: str, namespace: str, *, after: str | None = None) -> list[Entry]:
        """Return the entries of one namespace of a thread, the oldest first; those after the entry `after`, or all."""
        with self._lock:
            entries = self._threads.get(thread_id, {}).get(namespace, [])
            return list(entries) if after is None else entries_after(entries, after)

    def head(self, thread_id: str, namespace: str) -> Entry | None:
        """Return the last entry of one namespace of a thread; None if it has none."""
        with self._lock:
            entries = self._threads.get(thread_id, {}).get(namespace)
            return entries[-1] if entries else None

    def append(
        self,
        thread_id: str,
        namespace: str,
        entries: list[Entry],
        *,
        after: str | None,
        epoch: int | None = None,
    ) -> None:
        """Write entries, all or none."""
        with self._lock:
            if epoch is not None:
                local_writers(self).check(thread_id, epoch)
            log = self._threads.setdefault(thread_id, {}).setdefault(namespace, [])
            check_head(thread_id, log[-1].id if log else None, after)
            log.extend(entries)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        with self._lock:
            self._threads.pop(thread_id, None)
            local_writers(self).delete(thread_id)
        heads_of(self).drop(thread_id)

    def copy_thread(self, source: str, target: str) -> None:
        """Copy all entries of a thread to another one, which has none."""
        with self._lock:
            check_copy(source, target, has_entries=any(self._threads.get(target, {}).values()))
            self._threads[target] = {
                namespace: list(log) for namespace, log in self._threads.get(source, {}).items()
            }

    def prune(self, thread_ids: Iterable[str], *, keep_last: int = 1) -> None:
        """Delete the branches of threads that were left, except the last `keep_last` ones; the state stays."""
        for thread_id in thread_ids:
            with self._lock:
                log = self._threads.get(thread_id, {}).get("", [])
                left = left_behind([(entry.id, entry.parent) for entry in log], keep_last)
                log[:] = [entry for entry in log if entry.id not in left]
            heads_of(self).drop(thread_id)


MemorySaver = InMemorySaver
