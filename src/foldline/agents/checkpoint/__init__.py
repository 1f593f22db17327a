"""The savers of `foldline.checkpoint` under their earlier path, and the records of agents."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.checkpoint.base import BaseCheckpointSaver as BaseCheckpointSaver, Entry as Entry
    from foldline.checkpoint.memory import (
        InMemorySaver as InMemorySaver,
        MemorySaver as MemorySaver,
    )
    from foldline.checkpoint.postgres import PostgresSaver as PostgresSaver
    from foldline.checkpoint.sqlite import SqliteSaver as SqliteSaver
    from foldline.exceptions import (
        ThreadBusyError as ThreadBusyError,
        ThreadConflictError as ThreadConflictError,
    )
