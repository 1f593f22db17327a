"""`BaseCheckpointSaver`: stores the steps of a thread as an append-only log.

A thread is named by `config["configurable"]["thread_id"]`; a sub-agent's part of it has its own namespace. Each entry
names the one before it, so a thread may fork and every earlier state can be read again. A writer passes the last entry
that it read: if another process was faster, nothing is written and `ThreadConflictError` is raised. So two processes
never both continue the same step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

from foldline.exceptions import StoreError
from foldline.utils.short_repr import short_repr

__all__ = [
    "BaseCheckpointSaver",
    "Entry",
    "ThreadConflictError",
    "check_head",
]


class ThreadConflictError(StoreError):
    """Another process has continued this thread meanwhile; nothing was written."""


class Entry(NamedTuple):
    """One entry of a thread's log."""

    id: str
    parent: str | None
    body: str
    """JSON; agents, workflows and graphs have their own kinds of records."""


class BaseCheckpointSaver(ABC):
    """Stores the entries of threads."""

    __repr__ = short_repr

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class: `BaseCheckpointSaver[str]` is for checkers."""
        return cls

    is_instant: bool = False
    """Whether its methods never block, so that async calls need no thread."""

    @abstractmethod
    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        """Return all entries of one namespace of a thread, the oldest first."""

    @abstractmethod
    def append(
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        """Write entries, all or none, if the last entry is `after` (None: the thread is empty)."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with all its namespaces."""

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
