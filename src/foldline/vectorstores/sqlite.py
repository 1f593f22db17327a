"""`SQLiteVectorStore`: documents and vectors in one SQLite file, searched in memory.

The file is the truth: a change is in it before it is acknowledged. Each process keeps the vectors of its collection in
one matrix and, before a search, asks the collection's counter whether others have changed anything; only the rows
that are new are read. Places never come back, so what has gone is known by its place alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, Self

from foldline._io import mutex
from foldline._storage.sqlite import Database
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.vectorstores._embedded import EmbeddedVectorStore, Hit
from foldline.vectorstores._rows import logger, pack, unpack
from foldline.vectorstores.filters import Filter, predicate

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats, Rows

__all__ = ["SQLiteVectorStore"]

MIGRATIONS = [
    """
    CREATE TABLE collections (
        name BLOB PRIMARY KEY, dimension INTEGER NOT NULL, changes INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE vectors (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        collection BLOB NOT NULL, id BLOB NOT NULL, document BLOB NOT NULL, vector BLOB NOT NULL,
        UNIQUE (collection, id)
    ) STRICT;
    CREATE INDEX vectors_by_place ON vectors (collection, place)
    """
]
BATCH = 4096
"""Rows read at once when the matrix is filled."""


class SQLiteVectorStore(EmbeddedVectorStore):
    """Documents in a SQLite file, found by meaning; processes may share it.

    ```python
    import tempfile
    from foldline.embeddings import DeterministicFakeEmbedding
    from foldline.vectorstores import SQLiteVectorStore

    path = tempfile.mkdtemp() + "/documents.db"
    store = SQLiteVectorStore(DeterministicFakeEmbedding(size=8), path)
    store.add_texts(["a cat", "a dog"])
    print(store.similarity_search("a dog", k=1)[0].page_content)
    #> a dog
    ```
    """

    def __init__(
        self, embedding: Embeddings, path: str | Path, *, collection: str = "documents"
    ) -> None:
        """Open or make the file; collections in one file know nothing of each other."""
        self.embedding = embedding
        self.collection = collection
        self._name = _bytes(collection)
        self._database = Database(path, "vectors", MIGRATIONS)
        self._lock = mutex()
        self._cache = _Cache()

    @classmethod
    def _build(cls, embedding: Embeddings, given: dict[str, Any]) -> Self:
        return cls(embedding, **given)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # -- the four operations

    def _dimension(self) -> int | None:
        rows = self._database.rows(
            "SELECT dimension FROM collections WHERE name = ? "
            "AND EXISTS (SELECT 1 FROM vectors WHERE collection = name)",
            (self._name,),
        )
        return int(rows[0][0]) if rows else None

    def _keep(self, documents: Sequence[Document], vectors: Floats) -> None:
        packed = [
            (self._name, _bytes(str(document.id)), pack(document), vector.astype("<f4").tobytes())
            for document, vector in zip(documents, vectors, strict=True)
        ]
        with self._database.write() as connection:
            self._changed(connection, int(vectors.shape[1]))
            # REPLACE gives a row a new place, by which others see that it is new.
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (collection, id, document, vector) VALUES (?, ?, ?, ?)",
                packed,
            )

    def _changed(self, connection: Connection, dimension: int) -> None:
        known = connection.execute(
            "SELECT dimension, EXISTS (SELECT 1 FROM vectors WHERE collection = name) "
            "FROM collections WHERE name = ?",
            (self._name,),
        ).fetchone()
        if known and known[1] and known[0] != dimension:
            raise UsageError(
                f"{self._database.path}: the collection {self.collection!r} holds vectors of {known[0]} numbers, "
                f"got one of {dimension}: use the embedding model that it was filled with"
            )
        connection.execute(
            "INSERT INTO collections (name, dimension, changes) VALUES (?, ?, 1) "
            "ON CONFLICT (name) DO UPDATE SET changes = changes + 1, dimension = excluded.dimension",
            (self._name, dimension),
        )

    def _drop(self, ids: Sequence[str]) -> None:
        with self._database.write() as connection:
            connection.executemany(
                "DELETE FROM vectors WHERE collection = ? AND id = ?",
                [(self._name, _bytes(name)) for name in ids],
            )
            connection.execute(
                "UPDATE collections SET changes = changes + 1 WHERE name = ?", (self._name,)
            )

    def _get(self, ids: Sequence[str]) -> list[Document]:
        found = []
        with self._database.read() as connection:
            for name in ids:
                row = connection.execute(
                    "SELECT document FROM vectors WHERE collection = ? AND id = ?",
                    (self._name, _bytes(name)),
                ).fetchone()
                document = unpack(row[0], name, self._database.path) if row else None
                found += [document] if document is not None else []
        return found

    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        passes = predicate(filter)
        cache = self._fresh()
        if cache.rows is None or cache.rows.dimension != len(vector):
            return []
        hits: list[Hit] = []
        candidates = cache.rows.nearest(vector, k)
        wanted = k
        while len(hits) < k and (batch := list(islice(candidates, wanted))):
            documents = self._documents([cache.places[row] for row, _ in batch])
            for row, score in batch:
                document = documents.get(cache.places[row])
                if document is None or not (passes is None or passes(document)):
                    continue
                hits.append(
                    Hit(document, score, cache.rows.vectors([row])[0] if with_vectors else None)
                )
                if len(hits) == k:
                    break
            wanted *= 4
        return hits

    def _documents(self, places: list[int]) -> dict[int, Document]:
        found: dict[int, Document] = {}
        with self._database.read() as connection:
            for place in places:
                row = connection.execute(
                    "SELECT id, document FROM vectors WHERE place = ?", (place,)
                ).fetchone()
                document = unpack(row[1], _text(row[0]), self._database.path) if row else None
                if document is not None:
                    found[place] = document
        return found

    # -- the matrix

    def _fresh(self) -> _Cache:
        """Return the matrix as the file has it now."""
        with self._lock, self._database.read() as connection:
            row = connection.execute(
                "SELECT changes, dimension FROM collections WHERE name = ?", (self._name,)
            ).fetchone()
            changes, dimension = row or (0, 0)
            if changes != self._cache.changes:
                self._cache = self._cache.usable_for(dimension)
                self._read_new(connection, dimension)
                self._forget_deleted(connection)
                # Rows that came meanwhile are read already or come next time: the counter is the older one.
                self._cache.changes = changes
            return self._cache

    def _read_new(self, connection: Connection, dimension: int) -> None:
        rows = connection.execute(
            "SELECT place, id, vector FROM vectors WHERE collection = ? AND place > ? ORDER BY place",
            (self._name, self._cache.last),
        )
        while batch := rows.fetchmany(BATCH):
            self._cache.append(self._decode_batch(batch, dimension), dimension)

    def _decode_batch(
        self, batch: list[tuple[int, bytes, bytes]], dimension: int
    ) -> Iterator[tuple[int, bytes]]:
        for place, name, vector in batch:
            if len(vector) == 4 * dimension:
                yield place, vector
            else:
                logger.warning(
                    "%s: the vector of document %r is damaged and left out",
                    self._database.path,
                    _text(name),
                )

    def _forget_deleted(self, connection: Connection) -> None:
        count = connection.execute(
            "SELECT count(*) FROM vectors WHERE collection = ?", (self._name,)
        ).fetchone()[0]
        if self._cache.rows is None or count == self._cache.rows.alive:
            return
        rows = connection.execute("SELECT place FROM vectors WHERE collection = ?", (self._name,))
        there = {place for (place,) in rows}
        self._cache.rows.kill(
            row for row, place in enumerate(self._cache.places) if place not in there
        )


class _Cache:
    """The matrix of a collection, the place in the file of each of its rows, and how new it is."""

    def __init__(self) -> None:
        self.rows: Rows | None = None
        self.places: list[int] = []
        self.changes = 0

    @property
    def last(self) -> int:
        return self.places[-1] if self.places else 0

    def usable_for(self, dimension: int) -> _Cache:
        """Return this one, or an empty one where most rows are dead or of another length."""
        rows = self.rows
        if rows is None or (rows.dimension == dimension and rows.dead <= max(64, rows.alive)):
            return self
        return _Cache()

    def append(self, rows: Iterator[tuple[int, bytes]], dimension: int) -> None:
        import numpy as np  # noqa: PLC0415  an extra

        from foldline.vectorstores._vectors import Rows  # noqa: PLC0415  NumPy is an extra

        pairs = list(rows)
        if not pairs:
            return
        if self.rows is None:
            self.rows = Rows(dimension)
        matrix = np.frombuffer(b"".join(vector for _, vector in pairs), dtype="<f4")
        finite = np.nan_to_num(matrix.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
        # The places first: a search never sees a row that it cannot name.
        self.places.extend(place for place, _ in pairs)
        self.rows.append(finite.reshape(len(pairs), dimension))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
