"""`BaseCheckpointSaver`: stores the steps of a thread as an append-only log.

A thread is named by `config["configurable"]["thread_id"]`; a sub-agent's part of it has its own namespace. Each entry
names the one before it, so a thread may fork and every earlier state can be read again. A writer passes the last entry
that it read: if another process was faster, nothing is written and `ThreadConflictError` is raised. So two processes
never both continue the same step.

A run may claim its thread. Until it gives the thread back or its process dies, others get `ThreadBusyError`. A claim
has an `epoch`, and what is written with an older one is refused: a run that was taken for dead writes nothing any more.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Self

from foldline._io import ASYNC
from foldline.checkpoint._local_writers import local_writers
from foldline.exceptions import ThreadConflictError, UsageError
from foldline.utils._short_repr import short_repr

__all__ = [
    "BaseCheckpointSaver",
    "Entry",
    "ThreadConflictError",
]


class Entry(NamedTuple):
    """One entry of a thread's log."""

    id: str
    parent: str | None
    body: str
    """JSON; agents, workflows and graphs have their own kinds of records."""


class Snapshot(NamedTuple):
    """The state of a thread after one of its entries: derived from the log, and may be deleted at any time."""

    at: str
    """The id of the entry."""
    body: str
    """JSON."""


class BaseCheckpointSaver(ABC):
    """Stores the entries of threads."""

    __repr__ = short_repr

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class: `BaseCheckpointSaver[str]` is for checkers."""
        return cls

    is_instant: bool = False
    """Whether its methods never block, so that async calls need no thread."""

    @abstractmethod
    def read(self, thread_id: str, namespace: str, *, after: str | None = None) -> list[Entry]:
        """Return the entries of one namespace of a thread, the oldest first; those after the entry `after`, or all.

        There are none after an entry that the thread does not have.
        """

    def head(self, thread_id: str, namespace: str) -> Entry | None:
        """Return the last entry of one namespace of a thread; None if it has none."""
        entries = self.read(thread_id, namespace)
        return entries[-1] if entries else None

    def snapshot(self, thread_id: str, namespace: str) -> Snapshot | None:
        """Return the newest snapshot of one namespace of a thread; None if there is none.

        Savers that store no snapshots have none; their threads are read from the first entry.
        """
        return None

    def put_snapshot(self, thread_id: str, namespace: str, snapshot: Snapshot) -> None:  # noqa: B027  nothing is lost
        """Store a snapshot; do nothing where the thread has no such entry, or snapshots are not stored."""

    @abstractmethod
    def append(
        self,
        thread_id: str,
        namespace: str,
        entries: list[Entry],
        *,
        after: str | None,
        epoch: int | None = None,
    ) -> None:
        """Write entries, all or none, if the last entry is `after` (None: the thread is empty).

        With an `epoch`, only if the thread was not claimed again since that claim; else raise `ThreadConflictError`.
        """

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its namespaces."""

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its namespaces."""
        await ASYNC.call(self.delete_thread, thread_id)

    def copy_thread(self, source: str, target: str) -> None:
        """Copy all entries of a thread to another one, which has none; each goes on by itself then.

        Raise `ThreadConflictError` if the target has entries. A question that is open is asked again in the copy.
        """
        raise UsageError(f"{type(self).__name__} cannot copy threads: use one of foldline's savers")

    async def acopy_thread(self, source: str, target: str) -> None:
        """Copy all entries of a thread to another one, which has none."""
        await ASYNC.call(self.copy_thread, source, target)

    def prune(self, thread_ids: Iterable[str], *, keep_last: int = 1) -> None:
        """Delete the branches of threads that were left, except the last `keep_last` ones; the state stays.

        A state is the sum of the entries of its branch, so these stay, and so do the logs of nested graphs and agents.
        """
        raise UsageError(
            f"{type(self).__name__} cannot prune threads: use one of foldline's savers"
        )

    async def aprune(self, thread_ids: Iterable[str], *, keep_last: int = 1) -> None:
        """Delete the branches of threads that were left, except the last `keep_last` ones; the state stays."""
        await ASYNC.call(self.prune, thread_ids, keep_last=keep_last)

    def claim(self, thread_id: str, owner: str) -> int:
        """Make a run the owner of a thread; return the epoch for its writes.

        Raise `ThreadBusyError` if another owner is alive. The same owner may claim again; its older epoch is void then.
        Savers that do not store owners know those of this process only.
        """
        return local_writers(self).claim(thread_id, owner)

    def is_surely_owner(self, thread_id: str, epoch: int) -> bool:
        """Whether `check_owner` would find nothing; answered at once, without the store. False: ask `check_owner`."""
        return False

    def check_owner(self, thread_id: str, epoch: int) -> None:
        """Raise `ThreadConflictError` if a run must not have its next effect: it owns its thread no more.

        Or it may lose the thread: its process could not renew its ownership for too long.
        """
        local_writers(self).check(thread_id, epoch)

    def release(self, thread_id: str, epoch: int) -> None:
        """Give a thread back; nothing happens where another run has taken it over."""
        local_writers(self).release(thread_id, epoch)

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Close connections."""

    def setup(self) -> None:  # noqa: B027  tables are created when a saver is opened
        """Do nothing: LangGraph's savers create their tables here, ours when they are opened."""


def check_head(thread_id: str, head: str | None, after: str | None) -> None:
    """Raise `ThreadConflictError` if the last entry of a thread is not the one that its writer read."""
    if head != after:
        raise ThreadConflictError(
            f"thread {thread_id!r} was continued by another process since this run read it: nothing was written. "
            "Read its state again (agent.get_state), and run one at a time per thread"
        )


def check_copy(source: str, target: str, *, has_entries: bool) -> None:
    """Raise if a thread cannot be copied to another one."""
    if source == target:
        raise UsageError(f"copy_thread: {source!r:.200} cannot be copied to itself")
    if has_entries:
        raise ThreadConflictError(
            f"thread {target!r:.200} has entries already, so {source!r:.200} was not copied to it: choose another id, "
            "or delete it first"
        )


def left_behind(entries: Sequence[tuple[str, str | None]], keep_last: int) -> set[str]:
    """Return the ids of entries, given with their parents, that none of the last `keep_last` branches has."""
    if keep_last < 1:
        raise UsageError(
            f"prune(keep_last={keep_last!r}): at least one branch stays; see delete_thread"
        )
    parents = dict(entries)
    continued = set(parents.values())
    ends = [id for id, _ in entries if id not in continued]
    kept: set[str] = set()
    for end in ends[-keep_last:]:
        current: str | None = end
        while current is not None and current not in kept:
            kept.add(current)
            current = parents.get(current)
    return parents.keys() - kept


def append_as_owner(
    saver: BaseCheckpointSaver,
    thread_id: str,
    namespace: str,
    entries: list[Entry],
    *,
    after: str | None,
    epoch: int,
) -> None:
    """Write entries of a run that has claimed its thread, also by a saver whose `append` does not take an epoch."""
    append = saver.append
    if _takes("epoch", getattr(append, "__func__", append)):
        append(thread_id, namespace, entries, after=after, epoch=epoch)
        return
    saver.check_owner(thread_id, epoch)
    append(thread_id, namespace, entries, after=after)


def read_after(
    saver: BaseCheckpointSaver, thread_id: str, namespace: str, after: str
) -> list[Entry]:
    """Return the entries after one of them, also of a saver whose `read` always returns all."""
    read = saver.read
    if _takes("after", getattr(read, "__func__", read)):
        return read(thread_id, namespace, after=after)
    return entries_after(read(thread_id, namespace), after)


def entries_after(entries: list[Entry], after: str) -> list[Entry]:
    """Return the entries after one of them; none if it is not there."""
    for number in range(len(entries) - 1, -1, -1):
        if entries[number].id == after:
            return entries[number + 1 :]
    return []


@lru_cache(maxsize=256)
def _takes(name: str, method: Callable[..., object]) -> bool:
    # Not `**kwargs`: a saver that passes them on to another one has not the epochs of that one.
    return name in inspect.signature(method).parameters
