"""Delete rows from SQLite files of our stores, whatever else the files hold: for whoever must be forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from foldline.exceptions import StoreError

__all__ = ["delete_rows"]


def delete_rows(file: str | Path, table: str, column: str, values: Iterable[str]) -> int:
    """Delete the rows of a table whose column is one of the values; 0 where file, table or column are not there.

    What is deleted is overwritten, so that the file does not hold it any more.
    """
    wanted = sorted(set(values))
    if not wanted or not Path(file).exists():
        return 0
    try:
        with closing(sqlite3.connect(file, timeout=10, isolation_level=None)) as connection:
            columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
            if column not in columns:
                return 0
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            marks = ", ".join("?" for _ in wanted)
            statement = f'DELETE FROM "{table}" WHERE "{column}" IN ({marks})'
            count = connection.execute(statement, wanted).rowcount
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return int(count)
    except sqlite3.Error as error:
        raise StoreError(f"{file}: cannot delete from {table}: {error}") from error
