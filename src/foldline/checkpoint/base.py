"""`BaseCheckpointSaver`: where the steps of a thread are kept, as a log that is only ever appended to.

A thread is named by `config["configurable"]["thread_id"]`; a sub-agent's part of it has a namespace of its own. Each
entry names the one before it, so a thread may fork and every earlier state can be read again. Whoever appends says
which entry was the last one it knew: if another process was faster, nothing is written and it is told so. Thus two
processes never both carry on with one step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple, Self

from foldline.exceptions import StoreError
from foldline.utils.short_repr import short_repr

__all__ = [
    "AsyncOpened",
    "BaseCheckpointSaver",
    "Entry",
    "StoredSaver",
    "ThreadConflictError",
    "check_head",
]


class ThreadConflictError(StoreError):
    """Another process carried on with this thread meanwhile; nothing was written."""


class Entry(NamedTuple):
    """One entry of a thread's log."""

    id: str
    parent: str | None
    body: str
    """JSON; each face has its kinds of records."""


class BaseCheckpointSaver(ABC):
    """Keeps the entries of threads."""

    __repr__ = short_repr

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class: `BaseCheckpointSaver[str]` is for checkers."""
        return cls

    is_instant: bool = False
    """Whether its methods never wait, so that they need no thread of their own under an event loop."""

    @abstractmethod
    def read(self, thread_id: str, namespace: str) -> list[Entry]:
        """Return all entries of one namespace of a thread, the oldest first."""

    @abstractmethod
    def append(
        self, thread_id: str, namespace: str, entries: list[Entry], *, after: str | None
    ) -> None:
        """Write entries, all or none, if the last entry is the one named (None: there is none yet)."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread, all namespaces of it."""

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Let go of connections."""

    def setup(self) -> None:  # noqa: B027  tables are made when a saver is opened
        """Do nothing: LangGraph's savers make their tables here, ours when they are opened."""


class StoredSaver(BaseCheckpointSaver):
    """A saver with a place outside this process, named by a text."""

    @abstractmethod
    def __init__(self, place: str) -> None: ...

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str) -> Generator[Self, None, None]:
        """Open it for the length of a block."""
        saver = cls(conn_string)
        try:
            yield saver
        finally:
            saver.close()


class AsyncOpened(StoredSaver):
    """A saver whose `from_conn_string` is an async block, as LangGraph's async savers have it."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(  # type: ignore[override]
        cls, conn_string: str
    ) -> AsyncGenerator[Self, None]:
        """Open it for the length of an async block."""
        saver = cls(conn_string)
        try:
            yield saver
        finally:
            saver.close()


def check_head(thread_id: str, found: str | None, after: str | None) -> None:
    """Raise if the last entry of a thread is not the one its writer knew."""
    if found != after:
        raise ThreadConflictError(
            f"thread {thread_id!r} was carried on by somebody else since this run read it: nothing was written. "
            "Read its state again (agent.get_state), and run one at a time per thread"
        )
