"""Where agents keep their threads, so that a run can stop for a person, or be killed, and go on later elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import lazily

if TYPE_CHECKING:
    from foldline.agents.checkpoint.base import BaseCheckpointSaver, Entry, ThreadConflictError
    from foldline.agents.checkpoint.memory import InMemorySaver, MemorySaver
    from foldline.agents.checkpoint.postgres import PostgresSaver
    from foldline.agents.checkpoint.sqlite import SqliteSaver

__all__ = [
    "BaseCheckpointSaver",
    "Entry",
    "InMemorySaver",
    "MemorySaver",
    "PostgresSaver",
    "SqliteSaver",
    "ThreadConflictError",
]

__getattr__ = lazily(
    __name__,
    {
        ".base": "BaseCheckpointSaver Entry ThreadConflictError",
        ".memory": "InMemorySaver MemorySaver",
        ".postgres": "PostgresSaver",
        ".sqlite": "SqliteSaver",
    },
)
