"""Where agents keep their threads, so that a run can stop for a person, or be killed, and go on later elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.agents.checkpoint.base import BaseCheckpointSaver, Entry, ThreadConflictError
    from weft.agents.checkpoint.memory import InMemorySaver, MemorySaver
    from weft.agents.checkpoint.postgres import PostgresSaver
    from weft.agents.checkpoint.sqlite import SqliteSaver

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
