"""`SQLiteRecordManager`: records in a SQLite file, shared by the processes of a machine."""

from __future__ import annotations

import time
from pathlib import Path

from foldline.indexing._table import TableRecordManager

__all__ = ["SQLiteRecordManager"]


class SQLiteRecordManager(TableRecordManager):
    """Records in a SQLite file.

    ```python
    import tempfile
    from foldline.indexing import SQLiteRecordManager

    manager = SQLiteRecordManager("docs", tempfile.mkdtemp() + "/records.db")
    manager.update(["a"], group_ids=["page 1"])
    print(manager.exists(["a", "b"]))
    #> [True, False]
    ```
    """

    def __init__(self, namespace: str, path: str | Path) -> None:
        """Open or make the file."""
        super().__init__(namespace, path)

    def get_time(self) -> float:
        """Return the time: the file is on this machine, so its clock is this one."""
        return time.time()
