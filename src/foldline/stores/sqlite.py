"""`SQLiteStore`: bytes by key in one SQLite file, shared by the processes of a machine."""

from __future__ import annotations

from pathlib import Path

from foldline.stores._table import TableByteStore

__all__ = ["SQLiteStore"]


class SQLiteStore(TableByteStore):
    """Stores bytes in a SQLite file; one `mset` is written completely or not at all.

    ```python
    import tempfile
    from foldline.stores import SQLiteStore

    store = SQLiteStore(tempfile.mkdtemp() + "/store.db")
    store.mset([("a", b"1")])
    print(store.mget(["a", "b"]))
    #> [b'1', None]
    ```
    """

    def __init__(self, path: str | Path) -> None:
        """Open or make the file."""
        super().__init__(path)
