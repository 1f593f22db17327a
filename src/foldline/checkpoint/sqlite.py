"""`SqliteSaver`: threads in one SQLite file; several processes may share it."""

from __future__ import annotations

from pathlib import Path

from foldline.checkpoint._stored import AsyncOpened, StoredSaver

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]


class SqliteSaver(StoredSaver):
    """Stores threads in a SQLite file.

    ```python
    from foldline.checkpoint import SqliteSaver

    saver = SqliteSaver(":memory:")
    print(saver.read("thread-1", ""))
    #> []
    ```
    """

    def __init__(self, path: str | Path = "agents.db") -> None:
        """Open the file, or create it."""
        super().__init__(path)


class AsyncSqliteSaver(AsyncOpened, SqliteSaver):
    """`SqliteSaver` under LangGraph's name for async programs; one saver serves both here."""
