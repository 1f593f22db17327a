"""`index` and `aindex`: add documents to a store once, and delete those that are no longer at their source.

Written once for sync and async. The hash of a document's text and metadata is its id in the store. A document is
written to the store first and to the records after that, so that after a crash it is written again under the same id.
Deleting also begins with the store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence, Sized
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from typing_extensions import TypedDict, Unpack

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.documents.base import Document
from foldline.exceptions import FoldlineError, UsageError
from foldline.indexing.base import DocumentIndex, RecordManager
from foldline.utils.progress import ProgressOption, show_progress
from foldline.vectorstores.base import VectorStore

__all__ = ["IndexingException", "IndexingResult", "aindex", "index"]

Cleanup: TypeAlias = Literal["incremental", "full", "scoped_full"] | None
SourceKey: TypeAlias = str | Callable[[Document], str] | None
KeyEncoder: TypeAlias = Literal["sha1", "sha256", "sha512", "blake2b"] | Callable[[Document], str]
NAMESPACE: UUID = uuid5(NAMESPACE_URL, "foldline.indexing")
HASHES = ("sha1", "sha256", "sha512", "blake2b")


class IndexingException(FoldlineError):
    """The store could not add or delete documents."""


class IndexingResult(TypedDict):
    """The counts of an indexing run."""

    num_added: int
    num_updated: int
    """Existing documents that were written again because of `force_update`."""
    num_deleted: int
    num_skipped: int
    """Existing documents."""


class IndexOptions(TypedDict, total=False):
    """The options of `index`."""

    batch_size: int
    """Documents that are looked up and written together (100)."""
    cleanup: Cleanup
    """What is deleted: "incremental", old documents of each source after its new ones are written;
    "scoped_full", the same at the end; "full", all documents that this run has not seen; None, nothing."""
    source_id_key: SourceKey
    """The source of a document: a key of its metadata, or a function."""
    cleanup_batch_size: int
    """Documents that are deleted together (1000)."""
    force_update: bool
    """Whether existing documents are written again."""
    key_encoder: KeyEncoder
    """How the id of a document is made: a hash ("sha256"), or a function."""
    upsert_kwargs: dict[str, Any] | None
    """Options for the store's writing."""
    progress: ProgressOption
    """Shows the progress after each batch: True, or a function of (done, total)."""


def index(
    docs_source: Any,  # noqa: ANN401  a loader or an iterable of documents
    record_manager: RecordManager,
    vector_store: VectorStore | DocumentIndex,
    **options: Unpack[IndexOptions],
) -> IndexingResult:
    """Add documents to a store, skipping existing ones; the options are those of `IndexOptions`."""
    work = _Indexing(record_manager, vector_store, _Options(**options), BLOCKING)
    return drive(work.run(docs_source))


async def aindex(
    docs_source: object,
    record_manager: RecordManager,
    vector_store: VectorStore | DocumentIndex,
    **options: Unpack[IndexOptions],
) -> IndexingResult:
    """Add documents to a store, skipping existing ones; see `index`."""
    work = _Indexing(record_manager, vector_store, _Options(**options), ASYNC)
    return await work.run(docs_source)


@dataclass(frozen=True, slots=True)
class _Options:
    batch_size: int = 100
    cleanup: Cleanup = None
    source_id_key: SourceKey = None
    cleanup_batch_size: int = 1000
    force_update: bool = False
    key_encoder: KeyEncoder = "sha256"
    upsert_kwargs: dict[str, Any] | None = None
    progress: ProgressOption = None

    def check(self) -> None:
        if self.cleanup not in ("incremental", "full", "scoped_full", None):
            raise UsageError(
                f"cleanup is 'incremental', 'full', 'scoped_full' or None, not {self.cleanup!r}"
            )
        if self.cleanup in ("incremental", "scoped_full") and self.source_id_key is None:
            raise UsageError(
                f"cleanup {self.cleanup!r} needs source_id_key: 'source', or a function"
            )
        if not (
            self.source_id_key is None
            or isinstance(self.source_id_key, str)
            or callable(self.source_id_key)
        ):
            raise UsageError(
                f"source_id_key is a key of the metadata or a function, not {self.source_id_key!r}"
            )
        if not callable(self.key_encoder) and self.key_encoder not in HASHES:
            raise UsageError(
                f"key_encoder is one of {', '.join(HASHES)} or a function, not {self.key_encoder!r}"
            )
        for name in ("batch_size", "cleanup_batch_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is at least 1, not {getattr(self, name)}")

    def source_of(self, document: Document) -> str | None:
        if self.source_id_key is None:
            return None
        source: Any = (
            self.source_id_key(document)
            if callable(self.source_id_key)
            else document.metadata.get(self.source_id_key)
        )
        if source is None and self.cleanup in ("incremental", "scoped_full"):
            raise UsageError(
                f"cleanup {self.cleanup!r} needs a source for every document, and there is none for "
                f"{document.page_content[:60]!r} with metadata {document.metadata!r}"
            )
        return None if source is None else str(source)


class _Indexing:
    """One indexing run."""

    def __init__(
        self,
        records: RecordManager,
        store: VectorStore | DocumentIndex,
        options: _Options,
        io: IO,
    ) -> None:
        options.check()
        _check_store(store)
        self._records = records
        self._store = store
        self._options = options
        self._io = io
        self._start_time = 0.0
        self._open_sources: dict[str, None] = {}
        """Sources of this run that are not cleaned yet."""
        self.result = IndexingResult(num_added=0, num_updated=0, num_deleted=0, num_skipped=0)

    async def run(self, source: Any) -> IndexingResult:  # noqa: ANN401
        cleanup = self._options.cleanup
        self._start_time = await self._call(self._records, "get_time")
        total = len(source) if isinstance(source, Sized) else None
        with show_progress(self._options.progress, total, "indexing") as progress:
            async with aclosing(self._batches(source)) as batches:
                async for documents in batches:
                    sources = await self._index_batch(documents)
                    if cleanup == "incremental":
                        # A source is cleaned at the first batch without it: until then, more of its documents may come.
                        await self._clean(
                            [group for group in self._open_sources if group not in sources]
                        )
                    self._open_sources.update(dict.fromkeys(sources))
                    progress.advance(len(documents))
        if cleanup in ("incremental", "scoped_full"):
            await self._clean(list(self._open_sources))
        elif cleanup == "full":
            await self._clean(None)
        return self.result

    async def _call(self, target: object, name: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        """Call the sync or the async method of a store."""
        method = getattr(target, name if self._io.blocking else f"a{name}")
        return await self._io.call(method, *args, **kwargs)

    async def _batches(self, source: object) -> AsyncGenerator[list[Document], None]:
        batch: list[Document] = []
        async with aclosing(self._io.each(_items(source, self._io))) as documents:
            async for document in documents:
                if not isinstance(document, Document):
                    raise UsageError(
                        f"index takes documents, not {type(document).__name__}: wrap a text in Document(text)"
                    )
                batch.append(document)
                if len(batch) >= self._options.batch_size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def _index_batch(self, documents: list[Document]) -> list[str]:
        """Write the new documents of a batch; return its sources."""
        documents_by_key = {
            key: document for document in documents for key in [self._key(document)]
        }
        keys = list(documents_by_key)
        self.result["num_skipped"] += len(documents) - len(keys)
        sources = {
            key: self._options.source_of(document) for key, document in documents_by_key.items()
        }
        is_indexed = dict(zip(keys, await self._call(self._records, "exists", keys), strict=True))
        existing = [key for key in keys if is_indexed[key] and not self._options.force_update]
        write = [key for key in keys if key not in set(existing)]
        if existing:
            await self._note(existing, sources)
            self.result["num_skipped"] += len(existing)
        if write:
            await self._write([_with_id(documents_by_key[key], key) for key in write], write)
            await self._note(write, sources)
            updated = sum(is_indexed[key] for key in write)
            self.result["num_updated"] += updated
            self.result["num_added"] += len(write) - updated
        return [source for source in dict.fromkeys(sources.values()) if source is not None]

    async def _note(self, keys: list[str], sources: dict[str, str | None]) -> None:
        groups = [sources[key] for key in keys]
        await self._call(
            self._records, "update", keys, group_ids=groups, time_at_least=self._start_time
        )

    async def _write(self, documents: list[Document], keys: list[str]) -> None:
        options = self._options.upsert_kwargs or {}
        if isinstance(self._store, DocumentIndex):
            response = await self._call(self._store, "upsert", documents, **options)
            if response.get("failed"):
                raise IndexingException(f"the index did not take {response['failed']!r}")
            return
        await self._call(self._store, "add_documents", documents, ids=keys, **options)

    async def _clean(self, sources: list[str] | None) -> None:
        if sources == []:
            return
        while keys := await self._call(
            self._records,
            "list_keys",
            group_ids=sources,
            before=self._start_time,
            limit=self._options.cleanup_batch_size,
        ):
            await self._delete(keys)
            await self._call(self._records, "delete_keys", keys)
            self.result["num_deleted"] += len(keys)
        for source in sources or ():
            self._open_sources.pop(source, None)

    async def _delete(self, keys: list[str]) -> None:
        response = await self._call(self._store, "delete", keys)
        failed = response is False or (isinstance(response, dict) and response.get("num_failed"))
        if failed:
            raise IndexingException(
                f"the store did not delete {len(keys)} documents, among them {keys[:3]!r}"
            )

    def _key(self, document: Document) -> str:
        encoder = self._options.key_encoder
        return encoder(document) if callable(encoder) else document_key(document, encoder)


def document_key(document: Document, algorithm: str) -> str:
    """Return the id of a document: a hash of its text and metadata."""
    try:
        metadata = json.dumps(document.metadata, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the metadata of {document.page_content[:60]!r} is not JSON ({error}): pass your own key_encoder"
        ) from error
    # The length separates text and metadata, so that no text can imitate both.
    spelled = f"{len(document.page_content)}:{document.page_content}{metadata}"
    digest = hashlib.new(algorithm, spelled.encode("utf-8", "surrogatepass"), usedforsecurity=False)
    return str(uuid5(NAMESPACE, digest.hexdigest())) if algorithm == "sha1" else digest.hexdigest()


def _with_id(document: Document, key: str) -> Document:
    return document.model_copy(update={"id": key})


def _items(source: object, io: IO) -> Iterable[Document] | AsyncIterator[Document]:
    """Return the documents of a loader, or of anything that can be iterated."""
    name = "lazy_load" if io.blocking else "alazy_load"
    if hasattr(source, name):
        return cast("Iterable[Document] | AsyncIterator[Document]", getattr(source, name)())
    if hasattr(source, "lazy_load"):
        return cast("Iterable[Document]", source.lazy_load())
    if hasattr(source, "__aiter__"):
        return cast("AsyncIterator[Document]", source.__aiter__())
    if isinstance(source, Sequence) or hasattr(source, "__iter__"):
        return cast("Iterable[Document]", source)
    raise UsageError(f"index takes a loader or documents, not {type(source).__name__}")


def _check_store(store: object) -> None:
    if isinstance(store, DocumentIndex):
        return
    if not isinstance(store, VectorStore):
        raise UsageError(
            f"vector_store is a VectorStore or a DocumentIndex, not {type(store).__name__}"
        )
    cls = type(store)
    if cls.delete is VectorStore.delete and cls.adelete is VectorStore.adelete:
        raise UsageError(
            f"{cls.__name__} cannot delete, and so cannot be kept in sync: write `delete`"
        )
