"""`CacheBackedEmbeddings`: a text is embedded once; then its vector is read from a store.

A store error or a damaged value is a cache miss and never fails the call. Keys are hashes in a namespace, so that the
vectors of different models are separate. Vectors are stored as float64, so they are unchanged when they are read. A
vector that LangChain stored is found under LangChain's key and read in its format.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sys
import uuid
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.embeddings.base import Embeddings
from foldline.exceptions import StoreError, UsageError
from foldline.stores.base import BaseStore, ByteStore
from foldline.utils.progress import ProgressOption, show_progress

__all__ = ["CacheBackedEmbeddings"]

logger: logging.Logger = logging.getLogger("foldline.embeddings")

Vector = list[float]
KeyEncoder = Callable[[str], str] | Literal["sha1", "sha256", "sha512", "blake2b"]
Vectors = BaseStore[str, Vector]
BATCH = 512
"""How many texts are embedded between two writes to the store; a later failure does not lose them."""
FORMAT_PREFIX = b"foldline-f8:"
LANGCHAIN_KEYS = uuid.UUID(int=1985)
"""The namespace of the UUIDs that are the keys of a LangChain cache with its default encoder, sha1."""


class CacheBackedEmbeddings(Embeddings):
    """Embeddings that are computed once.

    ```python
    from foldline.embeddings import CacheBackedEmbeddings, DeterministicFakeEmbedding
    from foldline.stores import InMemoryByteStore

    store = InMemoryByteStore()
    model = DeterministicFakeEmbedding(size=3)
    cached = CacheBackedEmbeddings.from_bytes_store(model, store, namespace="fake-3")
    cached.embed_documents(["hello", "hello"])
    print(len(list(store.yield_keys())))
    #> 1
    ```
    """

    def __init__(
        self,
        underlying_embeddings: Embeddings,
        document_embedding_store: Vectors,
        *,
        batch_size: int | None = None,
        query_embedding_store: Vectors | None = None,
    ) -> None:
        """Use texts as keys of the stores; `from_bytes_store` adds a namespace and hashing."""
        if batch_size is not None and batch_size < 1:
            raise UsageError(f"batch_size is at least 1, not {batch_size}")
        self.underlying_embeddings = underlying_embeddings
        self.document_embedding_store = document_embedding_store
        self.query_embedding_store = query_embedding_store
        self.batch_size = batch_size
        self.store_error: Exception | None = None
        """The last error of the store; the vectors were computed but not stored."""

    @classmethod
    def from_bytes_store(
        cls,
        underlying_embeddings: Embeddings,
        document_embedding_cache: ByteStore,
        *,
        namespace: str = "",
        batch_size: int | None = None,
        query_embedding_cache: bool | ByteStore = False,
        key_encoder: KeyEncoder | None = None,
    ) -> CacheBackedEmbeddings:
        """Store vectors in a byte store; the default namespace is the model's name, the default encoder sha256.

        Vectors that LangChain stored with the same namespace and encoder are found too.
        `query_embedding_cache=True` stores queries in the same store; pass another store to keep them separate.
        """
        full_namespace = namespace or _name_of(underlying_embeddings)
        encode = _encoder("sha256" if key_encoder is None else key_encoder)
        older_key = _langchain_key(key_encoder, namespace)
        documents = _PackedVectors(document_embedding_cache, full_namespace, encode, older_key)
        queries: Vectors | None = None
        if query_embedding_cache is True:
            queries = documents
        elif query_embedding_cache is not False:
            queries = _PackedVectors(query_embedding_cache, full_namespace, encode, older_key)
        return cls(
            underlying_embeddings, documents, batch_size=batch_size, query_embedding_store=queries
        )

    def embed_documents(self, texts: list[str], *, progress: ProgressOption = None) -> list[Vector]:
        """Embed texts that will be searched; `progress` shows a progress bar."""
        return drive(self._documents(texts, BLOCKING, progress))

    async def aembed_documents(
        self, texts: list[str], *, progress: ProgressOption = None
    ) -> list[Vector]:
        """Embed texts that will be searched; `progress` shows a progress bar."""
        return await self._documents(texts, ASYNC, progress)

    def embed_query(self, text: str) -> Vector:
        """Embed a search query."""
        return drive(self._query(text, BLOCKING))

    async def aembed_query(self, text: str) -> Vector:
        """Embed a search query."""
        return await self._query(text, ASYNC)

    async def _documents(self, texts: list[str], io: IO, progress: ProgressOption) -> list[Vector]:
        distinct = list(dict.fromkeys(texts))
        store = self.document_embedding_store
        vectors = await self._cached_vectors(store, distinct, io)
        missing = [text for text in distinct if text not in vectors]
        size = self.batch_size or BATCH
        model = self.underlying_embeddings
        embed = model.embed_documents if io.blocking else model.aembed_documents
        with show_progress(progress, len(distinct), "embedding") as progress_bar:
            progress_bar.advance(len(distinct) - len(missing))
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                computed = dict(zip(batch, await io.call(embed, batch), strict=True))
                await self._store_vectors(store, computed, io)
                vectors |= computed
                progress_bar.advance(len(batch))
        return [list(vectors[text]) for text in texts]

    async def _query(self, text: str, io: IO) -> Vector:
        model, store = self.underlying_embeddings, self.query_embedding_store
        if store is not None and (cached := await self._cached_vectors(store, [text], io)):
            return cached[text]
        vector: Vector = await io.call(
            model.embed_query if io.blocking else model.aembed_query, text
        )
        if store is not None:
            await self._store_vectors(store, {text: vector}, io)
        return vector

    async def _cached_vectors(self, store: Vectors, texts: list[str], io: IO) -> dict[str, Vector]:
        try:
            vectors = await io.call(store.mget if io.blocking else store.amget, texts)
        except (StoreError, OSError) as error:
            self.store_error = error
            logger.warning("the store of embeddings did not answer, computing them: %s", error)
            return {}
        pairs = zip(texts, vectors, strict=True)
        return {text: vector for text, vector in pairs if vector is not None}

    async def _store_vectors(self, store: Vectors, vectors: dict[str, Vector], io: IO) -> None:
        try:
            await io.call(store.mset if io.blocking else store.amset, list(vectors.items()))
        except (StoreError, OSError) as error:
            self.store_error = error
            logger.warning("embeddings could not be stored: %s", error)


class _PackedVectors(BaseStore[str, Vector]):
    """Vectors in a byte store, under hashed keys."""

    def __init__(
        self,
        store: ByteStore,
        namespace: str,
        encode: Callable[[str], str],
        older_key: Callable[[str], str] | None = None,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._encode = encode
        self._older_key = older_key
        """Returns the key under which LangChain stored a text, where it differs; it is only read."""

    def _key(self, text: str) -> str:
        return self._namespace + self._encode(text)

    def mget(self, keys: Sequence[str]) -> list[Vector | None]:
        vectors = [_unpack(value) for value in self._store.mget([self._key(key) for key in keys])]
        missing = [index for index, vector in enumerate(vectors) if vector is None]
        if self._older_key is not None and missing:
            older_keys = [self._older_key(keys[index]) for index in missing]
            for index, value in zip(missing, self._store.mget(older_keys), strict=True):
                vectors[index] = _unpack(value)
        return vectors

    def mset(self, key_value_pairs: Sequence[tuple[str, Vector]]) -> None:
        self._store.mset([(self._key(key), _pack(value)) for key, value in key_value_pairs])

    def mdelete(self, keys: Sequence[str]) -> None:
        older_keys = [] if self._older_key is None else [self._older_key(key) for key in keys]
        self._store.mdelete([*(self._key(key) for key in keys), *older_keys])

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """Yield the hashed keys: the texts themselves are not stored."""
        yield from self._store.yield_keys(prefix=self._namespace + (prefix or ""))


def _pack(vector: Vector) -> bytes:
    numbers = array("d", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return FORMAT_PREFIX + numbers.tobytes()


def _unpack(value: bytes | None) -> Vector | None:
    if value is None:
        return None
    try:
        if not value.startswith(FORMAT_PREFIX):
            return _numbers(json.loads(value))  # LangChain's format
        numbers = array("d", value[len(FORMAT_PREFIX) :])
    except ValueError:
        logger.warning("a stored embedding is damaged and is computed again")
        return None
    if sys.byteorder == "big":
        numbers.byteswap()
    return _numbers(numbers.tolist())


def _numbers(value: object) -> Vector | None:
    if not isinstance(value, list) or not value:
        return None
    is_vector = all(isinstance(number, int | float) and math.isfinite(number) for number in value)
    return [float(number) for number in value] if is_vector else None


def _name_of(model: Embeddings) -> str:
    name = getattr(model, "model", None) or getattr(model, "model_name", None)
    size = getattr(model, "dimensions", None) or getattr(model, "size", None)
    return ":".join(str(part) for part in (type(model).__name__, name, size) if part) + ":"


def _encoder(encoder: KeyEncoder) -> Callable[[str], str]:
    if callable(encoder):
        return encoder
    if encoder not in ("sha1", "sha256", "sha512", "blake2b"):
        raise UsageError(
            f"key_encoder is sha1, sha256, sha512, blake2b or a function, not {encoder!r}"
        )
    return lambda text: hashlib.new(
        encoder, text.encode("utf-8", "surrogatepass"), usedforsecurity=False
    ).hexdigest()


def _langchain_key(encoder: KeyEncoder | None, namespace: str) -> Callable[[str], str] | None:
    """Return the function that returns LangChain's key of a text; None if it is ours, or not known.

    Without a namespace the keys of LangChain do not name the model: the vector could be another model's.
    """
    if callable(encoder):
        return encoder if not namespace else None  # LangChain accepts no namespace here
    if not namespace or encoder not in (None, "sha1"):
        return None
    return lambda text: f"{namespace}{uuid.uuid5(LANGCHAIN_KEYS, _encoder('sha1')(text))}"
