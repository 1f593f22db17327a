"""Checkpoint savers: the threads of agents, workflows and graphs, in memory, SQLite or PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.checkpoint.base import BaseCheckpointSaver, Entry
    from foldline.checkpoint.memory import InMemorySaver, MemorySaver
    from foldline.checkpoint.postgres import AsyncPostgresSaver, PostgresSaver
    from foldline.checkpoint.sqlite import AsyncSqliteSaver, SqliteSaver
    from foldline.exceptions import ThreadBusyError, ThreadConflictError

__all__ = [
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "Entry",
    "InMemorySaver",
    "MemorySaver",
    "PostgresSaver",
    "SqliteSaver",
    "ThreadBusyError",
    "ThreadConflictError",
]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".base": "BaseCheckpointSaver Entry",
        ".memory": "InMemorySaver MemorySaver",
        ".postgres": "AsyncPostgresSaver PostgresSaver",
        ".sqlite": "AsyncSqliteSaver SqliteSaver",
        "foldline.exceptions": "ThreadBusyError ThreadConflictError",
    },
)
