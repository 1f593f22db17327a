"""`InMemoryVectorStore`: documents and their vectors in this process, searched by one matrix product."""

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
from foldline.utils.private_files import make_private_folder, open_private
from foldline.vectorstores._embedded import EmbeddedVectorStore, Hit
from foldline.vectorstores.filters import Filter, predicate

if TYPE_CHECKING:
    from foldline.vectorstores._vectors import Floats, Rows

__all__ = ["InMemoryVectorStore"]


class InMemoryVectorStore(EmbeddedVectorStore):
    """Documents in this process, found by meaning.

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
    def _build(cls, embedding: Embeddings, given: dict[str, Any]) -> Self:
        # What other stores take (`collection_name`, `persist_directory`) says nothing to one in memory.
        is_plain = cls.__init__ is InMemoryVectorStore.__init__
        return cls(embedding) if is_plain else cls(embedding, **given)

    def __len__(self) -> int:
        return len(self._contents.places)

    @property
    def store(self) -> dict[str, dict[str, Any]]:
        """A copy of everything: id -> id, vector, text, metadata."""
        with self._lock:
            contents = self._contents
            named = list(contents.places.items())
            if contents.rows is None or not named:
                return {}
            vectors = contents.rows.vectors([place for _, place in named]).tolist()
        return {
            name: {
                "id": name,
                "vector": vector,
                "text": contents.documents[place].page_content,
                "metadata": contents.documents[place].metadata,
            }
            for (name, place), vector in zip(named, vectors, strict=True)
        }

    # -- the four operations

    def _dimension(self) -> int | None:
        rows = self._contents.rows
        return rows.dimension if rows is not None and len(self) else None

    def _keep(self, documents: Sequence[Document], vectors: Floats) -> None:
        from foldline.vectorstores._vectors import Rows, check_size  # noqa: PLC0415  NumPy is an extra

        with self._lock:
            contents, rows = self._contents, self._contents.rows
            if rows is None or not contents.places:
                rows = Rows(vectors.shape[1])
                contents = _Contents(rows, [], {})
            check_size(
                vectors, rows.dimension, what="the store"
            )  # another thread may have been first
            replaced = [
                contents.places[str(one.id)] for one in documents if one.id in contents.places
            ]
            contents.documents.extend(documents)
            for document, place in zip(documents, rows.append(vectors), strict=True):
                contents.places[str(document.id)] = place
            rows.kill(replaced)
            self._contents = contents.tidied()

    def _drop(self, ids: Sequence[str]) -> None:
        with self._lock:
            contents = self._contents
            places = [contents.places.pop(name) for name in ids if name in contents.places]
            if contents.rows is not None:
                contents.rows.kill(places)
                self._contents = contents.tidied()

    def _get(self, ids: Sequence[str]) -> list[Document]:
        with self._lock:
            contents = self._contents
            found = [
                contents.documents[contents.places[name]] for name in ids if name in contents.places
            ]
        return [_copy(document) for document in found]

    def _nearest(
        self, vector: Floats, k: int, filter: Filter | None, *, with_vectors: bool
    ) -> list[Hit]:
        passes = predicate(filter)
        contents = self._contents
        rows, documents = contents.rows, contents.documents
        if rows is None:
            return []
        found: list[tuple[int, float]] = []
        for place, score in rows.nearest(vector, k):
            if passes is None or passes(documents[place]):
                found.append((place, score))
                if len(found) == k:
                    break
        places = [place for place, _ in found]
        vectors = rows.vectors(places) if with_vectors else [None] * len(places)
        return [
            Hit(_copy(documents[place]), score, row)
            for (place, score), row in zip(found, vectors, strict=True)
        ]

    # -- files

    def dump(self, path: str | Path) -> None:
        """Write everything to a file, whole or not at all; folders on the way are made."""
        import numpy as np  # noqa: PLC0415  an extra

        with self._lock:
            contents = self._contents
            places = list(contents.places.values())
            documents = [contents.documents[place] for place in places]
            vectors = contents.rows.vectors(places) if contents.rows and places else None
        try:
            text = json.dumps(
                [
                    {"id": one.id, "text": one.page_content, "metadata": one.metadata}
                    for one in documents
                ],
                allow_nan=False,
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"metadata that is not JSON cannot be written: {error}") from error
        target = Path(path)
        make_private_folder(target.parent)
        beside = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            with open_private(beside, "wb") as file:
                rows = np.zeros((0, 1), dtype=np.float32) if vectors is None else vectors
                data = np.frombuffer(text.encode(), dtype=np.uint8)
                np.savez(file, vectors=rows, documents=data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path, embedding: Embeddings, **kwargs: object) -> Self:
        """Read a file that `dump` wrote, here or in LangChain; nothing in it is ever run."""
        from foldline.vectorstores._vectors import as_rows  # noqa: PLC0415  NumPy is an extra

        made = cls(embedding, **kwargs)
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
            made._keep(documents, rows)
        return made


class _Contents:
    """Documents by place, the places by id, and the matrix; replaced as a whole when it is tidied up."""

    def __init__(
        self, rows: Rows | None, documents: list[Document], places: dict[str, int]
    ) -> None:
        self.rows = rows
        self.documents = documents
        self.places = places

    def tidied(self) -> _Contents:
        """Return contents without dead rows once most of them are dead."""
        rows = self.rows
        if rows is None or rows.dead <= max(64, rows.alive):
            return self
        kept = list(self.places.items())
        places = [place for _, place in kept]
        return _Contents(
            rows.without_dead(places) if kept else None,
            [self.documents[place] for place in places],
            {name: place for place, (name, _) in enumerate(kept)},
        )


def _copy(document: Document) -> Document:
    """Return a document that its reader may change."""
    return document.model_copy(update={"metadata": dict(document.metadata)})


def _read(path: Path) -> tuple[list[Any], Any]:
    import numpy as np  # noqa: PLC0415  an extra

    with path.open("rb") as file:
        beginning = file.read(1)
    if beginning == b"{":
        entries = list(json.loads(path.read_bytes()).values())
        return entries, [entry["vector"] for entry in entries]
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return json.loads(archive["documents"].tobytes()), archive["vectors"]
