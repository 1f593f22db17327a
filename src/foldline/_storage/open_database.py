"""`open_database`: the tables of one kind of store, in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

from foldline._storage.database import Database
from foldline._storage.postgres import PostgresServer
from foldline._storage.postgres_database import PostgresDatabase
from foldline._storage.schema import Schema
from foldline._storage.sqlite_database import PATIENCE, SqliteDatabase
from foldline.utils._data_places import is_url

__all__ = ["open_database"]


def open_database(
    place: str | Path | PostgresServer,
    schema: Schema,
    *,
    is_durable: bool = True,
    cache_kib: int | None = None,
    patience: float = PATIENCE,
    follows_file: bool = False,
) -> Database:
    """Open the tables of one kind of store; they are created, or brought to the newest version.

    With `is_durable=False` a SQLite file does not wait for the disk: a loss of power may undo the last writes.
    `cache_kib` is the memory of each of its connections, `patience` the seconds to wait for other writers. With
    `follows_file=True` a file that was removed or replaced is opened anew, which is an error otherwise.
    """
    if isinstance(place, PostgresServer):
        return PostgresDatabase(place, schema)
    if is_url(place):
        return PostgresDatabase(PostgresServer(str(place)), schema)
    return SqliteDatabase(
        place,
        schema,
        is_durable=is_durable,
        cache_kib=cache_kib,
        patience=patience,
        follows_file=follows_file,
    )
