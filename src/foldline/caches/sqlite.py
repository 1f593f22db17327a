"""`SQLiteCache`: answers in one file, shared by the processes of a machine."""

from __future__ import annotations

from pathlib import Path

from foldline.caches._table import TableCache

__all__ = ["SQLiteCache"]


class SQLiteCache(TableCache):
    """Stores answers in a SQLite file.

    ```python
    import tempfile
    from foldline.caches import SQLiteCache
    from foldline.outputs import Generation

    cache = SQLiteCache(tempfile.mkdtemp() + "/answers.db")
    cache.update("prompt", "model", [Generation(text="hello")])
    print(cache.lookup("prompt", "model")[0].text)
    #> hello
    ```
    """

    def __init__(
        self, database_path: str | Path = ".foldline.db", *, ttl: float | None = None
    ) -> None:
        """Open or create the file; answers older than `ttl` seconds are ignored."""
        super().__init__(database_path, ttl=ttl)
