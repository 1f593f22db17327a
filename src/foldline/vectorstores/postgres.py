"""`PostgresVectorStore`: documents and vectors in PostgreSQL (extras `postgres` and `vectors`).

With the pgvector extension the distance operator is `<=>`, and `create_index` makes searches approximate and fast.
Without it vectors are plain `real[]` and the search is exact SQL, which is slow beyond some ten thousand documents. The
store detects the extension when it creates its table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Self

from foldline._storage.database import Connection, Row
from foldline._storage.open_database import open_database
from foldline._storage.postgres import PostgresServer
from foldline._storage.postgres_database import PostgresStatements
from foldline._storage.schema import LockNumber, Schema
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import UsageError
from foldline.vectorstores._collection import Collection
from foldline.vectorstores._embedded import EmbeddedVectorStore, Hit
from foldline.vectorstores._filters import Filter, parse_filter
from foldline.vectorstores._rows import metadata_json
from foldline.vectorstores._sql_filter import compile_filter, fits

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats

__all__ = ["PostgresVectorStore"]

CREATE: Final = """
CREATE TABLE foldline_vector_collections (name TEXT PRIMARY KEY, dimension INTEGER NOT NULL);
CREATE TABLE foldline_vectors (
    place BIGINT GENERATED ALWAYS AS IDENTITY,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    content TEXT NOT NULL,
    metadata JSONB NOT NULL,
    norm DOUBLE PRECISION NOT NULL,
    embedding {vector} NOT NULL,
    PRIMARY KEY (collection, id)
)
"""
SCHEMAS: Final = {
    vector_type: Schema(
        kind="vectors",
        tables=("foldline_vectors", "foldline_vector_collections"),
        create=CREATE.replace("{vector}", vector_type),
    )
    for vector_type in ("vector", "real[]")
}
"""The tables for a server with pgvector, and for one without."""
COLUMN_TYPE: Final = """
SELECT format_type(atttypid, NULL) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relname = 'foldline_vectors' AND relnamespace = current_schema()::regnamespace
AND attname = 'embedding' AND NOT attisdropped
"""
UPSERT: Final = """
INSERT INTO foldline_vectors (collection, id, content, metadata, norm, embedding)
VALUES (?, ?, ?, ?::jsonb, ?, {vector})
ON CONFLICT (collection, id) DO UPDATE SET content = excluded.content, metadata = excluded.metadata,
    norm = excluded.norm, embedding = excluded.embedding
"""
SET_DIMENSION: Final = (
    "INSERT INTO foldline_vector_collections (name, dimension) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET dimension = excluded.dimension"
)
COSINE: Final = """
(SELECT sum(a::float8 * b::float8) FROM unnest(embedding, ?::real[]) AS pair(a, b)) / NULLIF(norm * ?::float8, 0)
"""
PAGE = 200
"""Rows fetched at a time for a filter that is a Python function."""


class PostgresVectorStore(EmbeddedVectorStore):
    """Documents in PostgreSQL, searched by vector."""

    def __init__(
        self,
        embedding: Embeddings,
        conninfo: str | PostgresServer = "postgresql://127.0.0.1/postgres",
        *,
        collection: str = "documents",
        pgvector: bool | None = None,
    ) -> None:
        """Open a collection; create the tables if they do not exist.

        `pgvector`: whether to use that extension; None uses it if the server has it.
        """
        if not fits(collection) or not collection:
            raise UsageError(
                f"the name of a collection must be text that PostgreSQL can store, not {collection!r}"
            )
        self.embedding = embedding
        self.collection = collection
        server = conninfo if isinstance(conninfo, PostgresServer) else PostgresServer(conninfo)
        vector_type = server.run(
            lambda connection: _choose_type(PostgresStatements(connection), pgvector)
        )
        self._database = open_database(server, SCHEMAS[vector_type])
        self._rows = Collection(self._database, collection, collection)
        self.has_pgvector: bool = _has_pgvector(self._database.rows(COLUMN_TYPE), pgvector)
        """Whether vectors are stored as pgvector's type, else as plain arrays."""

    @classmethod
    def _build(cls, embedding: Embeddings, options: dict[str, Any]) -> Self:
        if "connection" in options:  # the name of LangChain's PGVector
            options = {"conninfo": options["connection"], **options}
            del options["connection"]
        return cls(embedding, **options)

    def close(self) -> None:
        """Close connections."""
        self._database.close()

    # -- the four operations

    def _dimension(self) -> int | None:
        return self._rows.dimension()

    def _upsert(self, documents: Sequence[Document], vectors: Floats) -> None:
        from foldline.vectorstores._vectors import lengths  # noqa: PLC0415  NumPy is an extra

        rows = [
            (self.collection, *_columns(document), float(norm), self._encode_vector(vector))
            for document, vector, norm in zip(documents, vectors, lengths(vectors), strict=True)
        ]
        statement = UPSERT.format(vector="?::vector" if self.has_pgvector else "?::real[]")
        dimension = int(vectors.shape[1])

        def write(connection: Connection) -> None:
            # One writer at a time per collection: two could deadlock on each other's rows.
            connection.lock(LockNumber.VECTORS, self.collection)
            self._rows.check_dimension(connection, dimension)
            connection.run(SET_DIMENSION, (self.collection, dimension))
            connection.each(statement, rows)

        self._database.write(write)

    def _remove(self, ids: Sequence[str]) -> None:
        storable_ids = [id_ for id_ in ids if fits(id_)]
        self._database.write(
            lambda connection: connection.run(
                "DELETE FROM foldline_vectors WHERE collection = ? AND id = ANY(?::text[])",
                (self.collection, storable_ids),
            )
        )

    def _get(self, ids: Sequence[str]) -> list[Document]:
        storable_ids = [id_ for id_ in ids if fits(id_)]
        rows = self._database.rows(
            "SELECT id, content, metadata FROM foldline_vectors WHERE collection = ? AND id = ANY(?::text[])",
            (self.collection, storable_ids),
        )
        documents = {
            id_: Document(content, metadata=metadata, id=id_) for id_, content, metadata in rows
        }
        return [documents[id_] for id_ in ids if id_ in documents]

    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        nearest, values = self._query(vector, filter, with_vectors=with_vectors)

        def read(connection: Connection) -> list[Hit]:
            # Equal scores in the order of addition, which the index does not support.
            statement = nearest + ("" if self._tune(connection, k, len(vector)) else ", place")
            if not callable(filter):
                return [_hit(row) for row in connection.rows(statement + " LIMIT ?", [*values, k])]
            hits: list[Hit] = []
            with closing(connection.pages(statement, values, size=max(PAGE, k))) as pages:
                for hit in (_hit(row) for page in pages for row in page):
                    hits += [hit] if filter(hit.document) else []
                    if len(hits) == k:
                        break
            return hits

        return self._database.read(read)

    def _query(
        self, vector: Floats, filter: Filter | None, *, with_vectors: bool
    ) -> tuple[str, list[Any]]:
        size = len(vector)
        if self.has_pgvector:
            # The size is an integer from our code; with it the statement matches the index of `create_index`.
            same_size = f"vector_dims(embedding) = {size}"
            order, vector_values = (
                f"embedding::vector({size}) <=> ?::vector({size})",
                [self._encode_vector(vector)],
            )
            score = f"1 - ({order})"
        else:
            score, vector_values = (
                COSINE,
                [self._encode_vector(vector), math.sqrt(sum(float(x) ** 2 for x in vector))],
            )
            same_size = "TRUE"
            order = f"COALESCE(({score}), 0) * -1"
        condition, filter_values = (
            compile_filter(parse_filter(filter))
            if filter is not None and not callable(filter)
            else ("TRUE", [])
        )
        vector_column = "embedding::real[]" if with_vectors else "NULL"
        statement = (
            f"SELECT id, content, metadata, {score}, {vector_column} FROM foldline_vectors "
            f"WHERE {same_size} AND collection = ? AND ({condition}) ORDER BY {order}"
        )
        return statement, [*vector_values, self.collection, *filter_values, *vector_values]

    def _tune(self, connection: Connection, k: int, size: int) -> bool:
        """Configure the index for this search; return whether there is one for vectors of this size."""
        if not self.has_pgvector:
            return False
        index = f"foldline_vectors_hnsw_{size}"
        if connection.rows("SELECT to_regclass(?)", (index,)) == [(None,)]:
            return False
        connection.run(f"SET LOCAL hnsw.ef_search = {min(1000, max(100, 2 * k))}")
        # Without it, a filter could leave fewer than k rows.
        connection.run("SET LOCAL hnsw.iterative_scan = 'strict_order'")
        return True

    # -- the index

    def create_index(self) -> None:
        """Create an HNSW index: searches become fast and approximate. Needs pgvector 0.8.

        All collections whose vectors have the same size use it.
        """
        if not self.has_pgvector:
            raise UsageError(
                "an index needs the pgvector extension, which this server does not have"
            )
        dimension = self._dimension()
        if dimension is None:
            raise UsageError(f"the collection {self.collection!r} is empty: add documents first")
        size = int(dimension)

        def make(connection: Connection) -> None:
            connection.run(
                f"CREATE INDEX IF NOT EXISTS foldline_vectors_hnsw_{size} ON foldline_vectors USING hnsw "
                f"((embedding::vector({size})) vector_cosine_ops) WHERE vector_dims(embedding) = {size}"
            )
            connection.run("ANALYZE foldline_vectors")  # else the planner may not use the index

        self._database.write(make)

    def _encode_vector(self, vector: Floats) -> object:
        numbers = vector.tolist()
        return f"[{','.join(map(repr, numbers))}]" if self.has_pgvector else numbers


def _choose_type(connection: Connection, pgvector: bool | None) -> str:  # noqa: FBT001  a choice of three
    """Return the type of the vectors of the tables, which may have to be created."""
    connection.run("SELECT pg_advisory_xact_lock(?)", (int(LockNumber.SCHEMA),))
    rows = connection.rows(COLUMN_TYPE)
    if rows:
        return "vector" if _has_pgvector(rows, pgvector) else "real[]"
    return "vector" if pgvector is not False and _enable_extension(connection) else "real[]"


def _has_pgvector(column_type: list[Row], pgvector: bool | None) -> bool:  # noqa: FBT001  a choice of three
    has_pgvector = "vector" in str(column_type)
    if pgvector is not None and has_pgvector is not pgvector:
        storage = "pgvector's vectors" if has_pgvector else "plain arrays"
        hint = "" if has_pgvector else ", or the server has no pgvector extension"
        raise UsageError(
            f"pgvector={pgvector}, but the table foldline_vectors holds {storage}{hint}"
        )
    return has_pgvector


def _enable_extension(connection: Connection) -> bool:
    if connection.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'"):
        return True
    is_available = (
        "SELECT 1 FROM pg_available_extension_versions WHERE name = 'vector' AND (trusted OR "
        "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user))"
    )
    if not connection.rows(is_available):
        return False
    connection.run("CREATE EXTENSION vector")
    return True


def _columns(document: Document) -> tuple[str, str, str]:
    for part in (document.id, document.page_content, document.metadata):
        if not fits(part):
            raise UsageError(
                f"document {document.id!r} has a NUL or half a surrogate pair, which PostgreSQL cannot store: remove it"
            )
    return str(document.id), document.page_content, metadata_json(document)


def _hit(row: Row) -> Hit:
    name, content, metadata, score, vector = row
    # A vector of zeros has no direction: pgvector returns NaN, our SQL returns NULL.
    similarity = 0.0 if score is None or math.isnan(score) else float(score)
    return Hit(Document(content, metadata=metadata, id=name), similarity, vector)
