"""`Collection`: the size of the vectors of one collection, in the tables of either database."""

from __future__ import annotations

from typing import Final

from foldline._storage.database import Connection, Database
from foldline.exceptions import UsageError

__all__ = ["Collection"]

SELECT_DIMENSION: Final = """
SELECT dimension FROM foldline_vector_collections WHERE name = ?
AND EXISTS (SELECT 1 FROM foldline_vectors WHERE collection = name)
"""


class Collection:
    """One collection of a database; `key` is its name as it is stored."""

    def __init__(self, database: Database, name: str, key: str | bytes) -> None:
        self._database = database
        self._name = name
        self._key = key

    def dimension(self) -> int | None:
        """Return how many numbers a vector has; None where the collection is empty."""
        rows = self._database.rows(SELECT_DIMENSION, (self._key,))
        return int(rows[0][0]) if rows else None

    def check_dimension(self, connection: Connection, dimension: int) -> None:
        """Raise `UsageError` where the collection holds vectors of another size."""
        row = connection.row(SELECT_DIMENSION, (self._key,))
        if row and row[0] != dimension:
            raise UsageError(
                f"{self._database.where}: the collection {self._name!r} holds vectors of {row[0]} numbers, got one of "
                f"{dimension}: use the embedding model that it was filled with"
            )
