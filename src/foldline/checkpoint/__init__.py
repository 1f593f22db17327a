"""Checkpoint savers: the threads of agents, workflows and graphs, in memory, SQLite or PostgreSQL."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.checkpoint.base import BaseCheckpointSaver as BaseCheckpointSaver, Entry as Entry
    from foldline.checkpoint.memory import (
        InMemorySaver as InMemorySaver,
        MemorySaver as MemorySaver,
    )
    from foldline.checkpoint.postgres import (
        AsyncPostgresSaver as AsyncPostgresSaver,
        PostgresSaver as PostgresSaver,
    )
    from foldline.checkpoint.sqlite import (
        AsyncSqliteSaver as AsyncSqliteSaver,
        SqliteSaver as SqliteSaver,
    )
    from foldline.exceptions import (
        ThreadBusyError as ThreadBusyError,
        ThreadConflictError as ThreadConflictError,
    )
