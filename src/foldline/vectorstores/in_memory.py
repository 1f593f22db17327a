"""`InMemoryVectorStore`: documents and vectors in memory, searched by one matrix product."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from foldline._io import mutex
from foldline.documents.base import Document
from foldline.embeddings.base import Embeddings
from foldline.exceptions import StoreError, UsageError
from foldline.utils._private_files import make_private_folder, open_private
from foldline.utils._short_repr import readable
from foldline.vectorstores._embedded import EmbeddedVectorStore, Hit
from foldline.vectorstores._filters import Filter, predicate

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats, Rows

__all__ = ["InMemoryVectorStore"]


class InMemoryVectorStore(EmbeddedVectorStore):
    """Documents in memory, searched by vector.

    ```python
    from foldline.embeddings import DeterministicFakeEmbedding
    from foldline.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_texts(["a cat", "a dog"], [{"legs": 4}, {"legs": 4}])
    print(store.similarity_search("a dog", k=1, filter={"legs": {"$gt": 2}})[0].page_content)
    #> a dog
    ```
    """

    def __init__(self, embedding: Embeddings) -> None:
        """Make an empty store."""
        self.embedding = embedding
        self._lock = mutex()
        self._contents = _Contents(None, [], {})

    @classmethod
    def _build(cls, embedding: Embeddings, options: dict[str, Any]) -> Self:
        # Options of other stores (`collection_name`, `persist_directory`) are ignored.
        is_plain = cls.__init__ is InMemoryVectorStore.__init__
        return cls(embedding) if is_plain else cls(embedding, **options)

    def __len__(self) -> int:
        return len(self._contents.places)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(embedding={readable(self.embedding)!r}, documents={len(self)})"
        )

    @property
    def store(self) -> dict[str, dict[str, Any]]:
        """A copy of the contents: id -> id, vector, text, metadata."""
        with self._lock:
            contents = self._contents
            entries = list(contents.places.items())
            if contents.rows is None or not entries:
                return {}
            vectors = contents.rows.vectors([place for _, place in entries]).tolist()
        return {
            id_: {
                "id": id_,
                "vector": vector,
                "text": contents.documents[place].page_content,
                "metadata": contents.documents[place].metadata,
            }
            for (id_, place), vector in zip(entries, vectors, strict=True)
        }

    # -- the four operations

    def _dimension(self) -> int | None:
        rows = self._contents.rows
        return rows.dimension if rows is not None and len(self) else None

    def _upsert(self, documents: Sequence[Document], vectors: Floats) -> None:
        from foldline.vectorstores._vectors import Rows, check_size  # noqa: PLC0415  NumPy is an extra

        with self._lock:
            contents, rows = self._contents, self._contents.rows
            if rows is None or not contents.places:
                rows = Rows(vectors.shape[1])
                contents = _Contents(rows, [], {})
            check_size(
                vectors, rows.dimension, what="the store"
            )  # another thread may have set the dimension
            replaced = [
                contents.places[str(document.id)]
                for document in documents
                if document.id in contents.places
            ]
            contents.documents.extend(documents)
            for document, place in zip(documents, rows.append(vectors), strict=True):
                contents.places[str(document.id)] = place
            rows.remove(replaced)
            self._contents = contents.compacted()

    def _remove(self, ids: Sequence[str]) -> None:
        with self._lock:
            contents = self._contents
            places = [contents.places.pop(id_) for id_ in ids if id_ in contents.places]
            if contents.rows is not None:
                contents.rows.remove(places)
                self._contents = contents.compacted()

    def _get(self, ids: Sequence[str]) -> list[Document]:
        with self._lock:
            contents = self._contents
            documents = [
                contents.documents[contents.places[id_]] for id_ in ids if id_ in contents.places
            ]
        return [_copy(document) for document in documents]

    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        accepts = predicate(filter)
        contents = self._contents
        rows, documents = contents.rows, contents.documents
        if rows is None:
            return []
        matches: list[tuple[int, float]] = []
        for place, score in rows.nearest(vector, k):
            if accepts is None or accepts(documents[place]):
                matches.append((place, score))
                if len(matches) == k:
                    break
        places = [place for place, _ in matches]
        vectors = rows.vectors(places) if with_vectors else [None] * len(places)
        return [
            Hit(_copy(documents[place]), score, row)
            for (place, score), row in zip(matches, vectors, strict=True)
        ]

    # -- files

    def dump(self, path: str | Path) -> None:
        """Write the contents to a file atomically; missing folders are created."""
        import numpy as np  # noqa: PLC0415  an extra

        with self._lock:
            contents = self._contents
            places = list(contents.places.values())
            documents = [contents.documents[place] for place in places]
            vectors = contents.rows.vectors(places) if contents.rows and places else None
        try:
            text = json.dumps(
                [
                    {
                        "id": document.id,
                        "text": document.page_content,
                        "metadata": document.metadata,
                    }
                    for document in documents
                ],
                allow_nan=False,
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"metadata that is not JSON cannot be written: {error}") from error
        target = Path(path)
        make_private_folder(target.parent)
        temporary = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            with open_private(temporary, "wb") as file:
                rows = np.zeros((0, 1), dtype=np.float32) if vectors is None else vectors
                data = np.frombuffer(text.encode(), dtype=np.uint8)
                np.savez(file, vectors=rows, documents=data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path, embedding: Embeddings, **kwargs: object) -> Self:
        """Load a file that `dump` wrote, here or in LangChain; no code in it is executed."""
        from foldline.vectorstores._vectors import as_rows  # noqa: PLC0415  NumPy is an extra

        store = cls(embedding, **kwargs)
        try:
            entries, vectors = _read(Path(path))
            documents = [
                Document(entry["text"], id=entry["id"], metadata=entry["metadata"])
                for entry in entries
            ]
            if len(documents) != len(vectors):
                raise ValueError(f"{len(documents)} documents and {len(vectors)} vectors")
            rows = as_rows(vectors, None, what=str(path)) if documents else None
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{path}: not a file that InMemoryVectorStore.dump wrote, or damaged ({error})"
            ) from error
        if rows is not None:
            store._upsert(documents, rows)
        return store


class _Contents:
    """Documents by place (row number), the places by id, and the matrix; compaction makes a new object."""

    def __init__(
        self, rows: Rows | None, documents: list[Document], places: dict[str, int]
    ) -> None:
        self.rows = rows
        self.documents = documents
        self.places = places

    def compacted(self) -> _Contents:
        """Return contents without removed rows once most rows are removed, else this object."""
        rows = self.rows
        if rows is None or rows.removed_count <= max(64, rows.active_count):
            return self
        entries = list(self.places.items())
        places = [place for _, place in entries]
        return _Contents(
            rows.copy_rows(places) if entries else None,
            [self.documents[place] for place in places],
            {id_: place for place, (id_, _) in enumerate(entries)},
        )


def _copy(document: Document) -> Document:
    """Return a copy that the caller may change."""
    return document.model_copy(update={"metadata": dict(document.metadata)})


def _read(path: Path) -> tuple[list[Any], Any]:
    import numpy as np  # noqa: PLC0415  an extra

    with path.open("rb") as file:
        first_byte = file.read(1)
    if first_byte == b"{":
        entries = list(json.loads(path.read_bytes()).values())
        return entries, [entry["vector"] for entry in entries]
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return json.loads(archive["documents"].tobytes()), archive["vectors"]
