"""`index` and `aindex`: bring documents into a store once, and take out what is no longer at its source.

Written once for sync and async. A document is known by the hash of its text and metadata, which is also its id in the
store. It is written to the store first and to the records after that, so a crash in between writes it again, under the
same id, and never forgets it. Deleting goes the other way: the store first, the record last.
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
    """The store could not take or delete documents."""


class IndexingResult(TypedDict):
    """What an indexing run did."""

    num_added: int
    num_updated: int
    """Documents that were there and written again, because `force_update` asked for it."""
    num_deleted: int
    num_skipped: int
    """Documents that were there already."""


class IndexOptions(TypedDict, total=False):
    """How `index` works."""

    batch_size: int
    """Documents that are looked up and written at once (100)."""
    cleanup: Cleanup
    """What else goes: "incremental", documents of the sources seen, each as soon as its new ones are in;
    "scoped_full", the same at the end; "full", everything that this run has not seen; None, nothing."""
    source_id_key: SourceKey
    """Where a document comes from: a key of its metadata, or a function."""
    cleanup_batch_size: int
    """Documents that are deleted at once (1000)."""
    force_update: bool
    """Whether documents that are there are written again."""
    key_encoder: KeyEncoder
    """How a document becomes its id: a hash ("sha256"), or a function."""
    upsert_kwargs: dict[str, Any] | None
    """Options for the store's writing."""
    progress: ProgressOption
    """Show how many documents are in: true, or a function of (done, total); it moves once a batch."""


def index(
    docs_source: Any,  # noqa: ANN401  a loader or an iterable of documents
    record_manager: RecordManager,
    vector_store: VectorStore | DocumentIndex,
    **options: Unpack[IndexOptions],
) -> IndexingResult:
    """Bring documents into a store, skipping those that are there; `IndexOptions` says what else can be asked."""
    work = _Indexing(record_manager, vector_store, _Options(**options), BLOCKING)
    return drive(work.run(docs_source))


async def aindex(
    docs_source: object,
    record_manager: RecordManager,
    vector_store: VectorStore | DocumentIndex,
    **options: Unpack[IndexOptions],
) -> IndexingResult:
    """Bring documents into a store, skipping those that are there; see `index`."""
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
    """One run: batches in, counts out."""

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
        self._begun = 0.0
        self._seen: dict[str, None] = {}
        """Sources seen and not cleaned yet."""
        self.result = IndexingResult(num_added=0, num_updated=0, num_deleted=0, num_skipped=0)

    async def run(self, source: Any) -> IndexingResult:  # noqa: ANN401
        cleanup = self._options.cleanup
        self._begun = await self._ask(self._records, "get_time")
        total = len(source) if isinstance(source, Sized) else None
        with show_progress(self._options.progress, total, "indexing") as progress:
            async with aclosing(self._batches(source)) as batches:
                async for documents in batches:
                    sources = await self._take(documents)
                    if cleanup == "incremental":
                        # A source is clean once a batch comes without it: its later documents are not here yet.
                        await self._clean([group for group in self._seen if group not in sources])
                    self._seen.update(dict.fromkeys(sources))
                    progress.advance(len(documents))
        if cleanup in ("incremental", "scoped_full"):
            await self._clean(list(self._seen))
        elif cleanup == "full":
            await self._clean(None)
        return self.result

    async def _ask(self, target: object, name: str, *args: object, **kwargs: object) -> Any:  # noqa: ANN401
        """Call a method as this run waits, sync or async."""
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

    async def _take(self, documents: list[Document]) -> list[str]:
        """Write what is new of a batch; gives the sources of the batch."""
        documents_by_key = {
            key: document for document in documents for key in [self._key(document)]
        }
        keys = list(documents_by_key)
        self.result["num_skipped"] += len(documents) - len(keys)
        sources = {
            key: self._options.source_of(document) for key, document in documents_by_key.items()
        }
        is_indexed = dict(zip(keys, await self._ask(self._records, "exists", keys), strict=True))
        again = [key for key in keys if is_indexed[key] and not self._options.force_update]
        write = [key for key in keys if key not in set(again)]
        if again:
            await self._note(again, sources)
            self.result["num_skipped"] += len(again)
        if write:
            await self._write([_with_id(documents_by_key[key], key) for key in write], write)
            await self._note(write, sources)
            updated = sum(is_indexed[key] for key in write)
            self.result["num_updated"] += updated
            self.result["num_added"] += len(write) - updated
        return [source for source in dict.fromkeys(sources.values()) if source is not None]

    async def _note(self, keys: list[str], sources: dict[str, str | None]) -> None:
        groups = [sources[key] for key in keys]
        await self._ask(self._records, "update", keys, group_ids=groups, time_at_least=self._begun)

    async def _write(self, documents: list[Document], keys: list[str]) -> None:
        options = self._options.upsert_kwargs or {}
        if isinstance(self._store, DocumentIndex):
            response = await self._ask(self._store, "upsert", documents, **options)
            if response.get("failed"):
                raise IndexingException(f"the index did not take {response['failed']!r}")
            return
        await self._ask(self._store, "add_documents", documents, ids=keys, **options)

    async def _clean(self, sources: list[str] | None) -> None:
        if sources == []:
            return
        while keys := await self._ask(
            self._records,
            "list_keys",
            group_ids=sources,
            before=self._begun,
            limit=self._options.cleanup_batch_size,
        ):
            await self._delete(keys)
            await self._ask(self._records, "delete_keys", keys)
            self.result["num_deleted"] += len(keys)
        for source in sources or ():
            self._seen.pop(source, None)

    async def _delete(self, keys: list[str]) -> None:
        response = await self._ask(self._store, "delete", keys)
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
            f"the metadata of {document.page_content[:60]!r} is not JSON ({error}): give a key_encoder of your own"
        ) from error
    # The length keeps text and metadata apart: no text can pretend to be both.
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
            f"{cls.__name__} cannot delete, and so cannot be kept in step: write `delete`"
        )
