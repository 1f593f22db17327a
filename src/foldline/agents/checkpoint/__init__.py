"""The savers of `foldline.checkpoint` under their earlier path, and the records of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.checkpoint.base import BaseCheckpointSaver, Entry
    from foldline.checkpoint.memory import InMemorySaver, MemorySaver
    from foldline.checkpoint.postgres import PostgresSaver
    from foldline.checkpoint.sqlite import SqliteSaver
    from foldline.exceptions import ThreadBusyError, ThreadConflictError

__all__ = [
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
        "foldline.checkpoint.base": "BaseCheckpointSaver Entry",
        "foldline.checkpoint.memory": "InMemorySaver MemorySaver",
        "foldline.checkpoint.postgres": "PostgresSaver",
        "foldline.checkpoint.sqlite": "SqliteSaver",
        "foldline.exceptions": "ThreadBusyError ThreadConflictError",
    },
)
