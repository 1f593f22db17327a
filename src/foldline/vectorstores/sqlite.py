"""`SQLiteVectorStore`: documents and vectors in one SQLite file, searched in memory.

Every change is committed to the file before the call returns. Each process caches the vectors of its collection in one
matrix. Before a search it compares the collection's change counter, and reads only the new rows. A place (row number)
is never used twice, so a missing place means a deleted row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from foldline._io import mutex
from foldline._storage.database import Connection, Row
from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema, Upgrade
from foldline._traceback import entry_point
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.utils._data_places import is_url, place_name
from foldline.vectorstores._collection import Collection
from foldline.vectorstores._embedded import EmbeddedVectorStore, Hit
from foldline.vectorstores._filters import Filter, predicate
from foldline.vectorstores._rows import logger, pack, unpack

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats, Rows

__all__ = ["SQLiteVectorStore"]

SCHEMA = Schema(
    kind="vectors",
    tables=("foldline_vector_collections", "foldline_vectors"),
    create="""
    CREATE TABLE foldline_vector_collections (
        name {blob} PRIMARY KEY, dimension INTEGER NOT NULL, changes INTEGER NOT NULL
    ){strict_keyed};
    CREATE TABLE foldline_vectors (
        place {number},
        collection {blob} NOT NULL, id {blob} NOT NULL, document {blob} NOT NULL, vector {blob} NOT NULL,
        UNIQUE (collection, id)
    ){strict};
    CREATE INDEX foldline_vectors_by_place ON foldline_vectors (collection, place)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE collections RENAME TO foldline_vector_collections;
            ALTER TABLE vectors RENAME TO foldline_vectors;
            DROP INDEX vectors_by_place;
            CREATE INDEX foldline_vectors_by_place ON foldline_vectors (collection, place)
            """
        ),
    ),
)
READ_BY_ID: Final = "SELECT document FROM foldline_vectors WHERE collection = ? AND id = ?"
READ_BY_PLACE: Final = "SELECT id, document FROM foldline_vectors WHERE place = ?"
BATCH = 4096
"""Rows read at once when the matrix is filled."""


class SQLiteVectorStore(EmbeddedVectorStore):
    """Documents in an SQLite file, searched by vector; several processes may share the file.

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

    @entry_point
    def __init__(
        self, embedding: Embeddings, path: str | Path, *, collection: str = "documents"
    ) -> None:
        """Open or create the file; it can hold several independent collections."""
        self.embedding = embedding
        self.collection = collection
        self._name = _bytes(collection)
        if is_url(path):
            raise UsageError(
                f"SQLiteVectorStore stores in a file, not in {place_name(path)}: use PostgresVectorStore"
            )
        self._database = open_database(path, SCHEMA)
        self._rows = Collection(self._database, collection, self._name)
        self._lock = mutex()
        self._cache = _Cache()

    @classmethod
    def _build(cls, embedding: Embeddings, options: dict[str, Any]) -> Self:
        return cls(embedding, **options)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # -- the four operations

    def _dimension(self) -> int | None:
        return self._rows.dimension()

    def _upsert(self, documents: Sequence[Document], vectors: Floats) -> None:
        rows = [
            (self._name, _bytes(str(document.id)), pack(document), vector.astype("<f4").tobytes())
            for document, vector in zip(documents, vectors, strict=True)
        ]

        def write(connection: Connection) -> None:
            self._record_change(connection, int(vectors.shape[1]))
            # REPLACE assigns a new place, which tells other processes that the row is new.
            connection.each(
                "INSERT OR REPLACE INTO foldline_vectors (collection, id, document, vector) VALUES (?, ?, ?, ?)",
                rows,
            )

        self._database.write(write)

    def _record_change(self, connection: Connection, dimension: int) -> None:
        self._rows.check_dimension(connection, dimension)
        connection.run(
            "INSERT INTO foldline_vector_collections (name, dimension, changes) VALUES (?, ?, 1) "
            "ON CONFLICT (name) DO UPDATE SET changes = changes + 1, dimension = excluded.dimension",
            (self._name, dimension),
        )

    def _remove(self, ids: Sequence[str]) -> None:
        def write(connection: Connection) -> None:
            connection.each(
                "DELETE FROM foldline_vectors WHERE collection = ? AND id = ?",
                [(self._name, _bytes(id_)) for id_ in ids],
            )
            connection.run(
                "UPDATE foldline_vector_collections SET changes = changes + 1 WHERE name = ?",
                (self._name,),
            )

        self._database.write(write)

    def _get(self, ids: Sequence[str]) -> list[Document]:
        def read(connection: Connection) -> list[Row | None]:
            return [connection.row(READ_BY_ID, (self._name, _bytes(id_))) for id_ in ids]

        rows = zip(ids, self._database.read(read), strict=True)
        documents = [unpack(row[0], id_, self._database.where) for id_, row in rows if row]
        return [document for document in documents if document is not None]

    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        accepts = predicate(filter)
        cache = self._refresh_cache()
        if cache.rows is None or cache.rows.dimension != len(vector):
            return []
        hits: list[Hit] = []
        candidates = cache.rows.nearest(vector, k)
        batch_size = k
        while len(hits) < k and (batch := list(islice(candidates, batch_size))):
            documents = self._documents([cache.places[row] for row, _ in batch])
            for row, score in batch:
                document = documents.get(cache.places[row])
                if document is None or not (accepts is None or accepts(document)):
                    continue
                hits.append(
                    Hit(document, score, cache.rows.vectors([row])[0] if with_vectors else None)
                )
                if len(hits) == k:
                    break
            batch_size *= 4
        return hits

    def _documents(self, places: list[int]) -> dict[int, Document]:
        def read(connection: Connection) -> list[Row | None]:
            return [connection.row(READ_BY_PLACE, (place,)) for place in places]

        documents: dict[int, Document] = {}
        for place, row in zip(places, self._database.read(read), strict=True):
            document = unpack(row[1], _text(row[0]), self._database.where) if row else None
            if document is not None:
                documents[place] = document
        return documents

    # -- the matrix

    def _refresh_cache(self) -> _Cache:
        """Return the cache after reading the changes in the file."""
        with self._lock:
            self._database.read(self._read_changes)
            return self._cache

    def _read_changes(self, connection: Connection) -> None:
        row = connection.row(
            "SELECT changes, dimension FROM foldline_vector_collections WHERE name = ?",
            (self._name,),
        )
        changes, dimension = row or (0, 0)
        if changes != self._cache.changes:
            self._cache = self._cache.usable_for(dimension)
            self._read_new(connection, dimension)
            self._remove_deleted(connection)
            self._cache.changes = changes

    def _read_new(self, connection: Connection, dimension: int) -> None:
        pages = connection.pages(
            "SELECT place, id, vector FROM foldline_vectors WHERE collection = ? AND place > ? ORDER BY place",
            (self._name, self._cache.last),
            size=BATCH,
        )
        for page in pages:
            self._cache.append(self._decode_batch(page, dimension), dimension)

    def _decode_batch(self, batch: list[Row], dimension: int) -> Iterator[tuple[int, bytes]]:
        for place, name, vector in batch:
            if len(vector) == 4 * dimension:
                yield place, vector
            else:
                logger.warning(
                    "%s: the vector of document %r is damaged and left out",
                    self._database.where,
                    _text(name),
                )

    def _remove_deleted(self, connection: Connection) -> None:
        ((count,),) = connection.rows(
            "SELECT count(*) FROM foldline_vectors WHERE collection = ?", (self._name,)
        )
        if self._cache.rows is None or count == self._cache.rows.active_count:
            return
        rows = connection.rows(
            "SELECT place FROM foldline_vectors WHERE collection = ?", (self._name,)
        )
        existing = {place for (place,) in rows}
        self._cache.rows.remove(
            row for row, place in enumerate(self._cache.places) if place not in existing
        )


class _Cache:
    """The matrix of a collection, the place in the file of each row, and the change counter it was read at."""

    def __init__(self) -> None:
        self.rows: Rows | None = None
        self.places: list[int] = []
        self.changes = 0

    @property
    def last(self) -> int:
        return self.places[-1] if self.places else 0

    def usable_for(self, dimension: int) -> _Cache:
        """Return this cache, or an empty one if most rows are removed or vectors have another size."""
        rows = self.rows
        if rows is None or (
            rows.dimension == dimension and rows.removed_count <= max(64, rows.active_count)
        ):
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
        # The places first: a concurrent search must find a place for every row.
        self.places.extend(place for place, _ in pairs)
        self.rows.append(finite.reshape(len(pairs), dimension))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogatepass")
