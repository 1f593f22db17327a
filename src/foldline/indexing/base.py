"""`RecordManager`: records which documents are in a store, and when they were last seen. `DocumentIndex`: a store.

An author writes the blocking methods; async calls run them in a thread unless the async methods are written too.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from foldline._io import ASYNC, mutex
from foldline.documents.base import Document
from foldline.exceptions import UsageError
from foldline.retrievers.base import BaseRetriever
from foldline.utils._short_repr import short_repr

__all__ = [
    "DeleteResponse",
    "DocumentIndex",
    "InMemoryRecordManager",
    "RecordManager",
    "UpsertResponse",
]

Groups = Sequence[str | None] | None


class RecordManager(ABC):
    """Records the keys of documents, with their group (the source) and when they were last seen."""

    __repr__ = short_repr

    def __init__(self, namespace: str) -> None:
        """Keep records of different namespaces apart."""
        self.namespace = namespace

    @abstractmethod
    def create_schema(self) -> None:
        """Create the storage of the records, where it does not exist."""

    async def acreate_schema(self) -> None:
        """Create the storage of the records, where it does not exist."""
        await ASYNC.call(self.create_schema)

    @abstractmethod
    def get_time(self) -> float:
        """Return the time by the store's own clock, in seconds."""

    async def aget_time(self) -> float:
        """Return the time by the store's own clock, in seconds."""
        time: float = await ASYNC.call(self.get_time)
        return time

    @abstractmethod
    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Groups = None,
        time_at_least: float | None = None,
    ) -> None:
        """Record that keys were seen now; raise if the clock is before `time_at_least`."""

    async def aupdate(
        self,
        keys: Sequence[str],
        *,
        group_ids: Groups = None,
        time_at_least: float | None = None,
    ) -> None:
        """Record that keys were seen now; raise if the clock is before `time_at_least`."""
        await ASYNC.call(self.update, keys, group_ids=group_ids, time_at_least=time_at_least)

    @abstractmethod
    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return for each key whether it has a record."""

    async def aexists(self, keys: Sequence[str]) -> list[bool]:
        """Return for each key whether it has a record."""
        flags: list[bool] = await ASYNC.call(self.exists, keys)
        return flags

    @abstractmethod
    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys last seen before or after a time, of some groups."""

    async def alist_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys last seen before or after a time, of some groups."""
        keys: list[str] = await ASYNC.call(
            self.list_keys, before=before, after=after, group_ids=group_ids, limit=limit
        )
        return keys

    @abstractmethod
    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of keys."""

    async def adelete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of keys."""
        await ASYNC.call(self.delete_keys, keys)


def check_update(
    keys: Sequence[str], group_ids: Groups, time_at_least: float | None, now: float
) -> Sequence[str | None]:
    """Check the arguments of `update`; return one group for each key."""
    if group_ids is not None and len(group_ids) != len(keys):
        raise UsageError(f"one group per key: got {len(keys)} keys and {len(group_ids)} groups")
    if time_at_least is not None and now < time_at_least:
        raise UsageError(
            f"the clock of the records is at {now}, before {time_at_least}: it must not go backwards"
        )
    return group_ids if group_ids is not None else [None] * len(keys)


class InMemoryRecordManager(RecordManager):
    """Records in this process, for tests and in-memory stores."""

    def __init__(self, namespace: str) -> None:
        """Keep records of different namespaces apart."""
        super().__init__(namespace)
        self.records: dict[str, tuple[str | None, float]] = {}
        """Key -> its group and when it was last seen."""
        self._lock = mutex()
        self._last = 0.0

    def create_schema(self) -> None:
        """Do nothing."""

    def get_time(self) -> float:
        """Return a time that no record has yet."""
        with self._lock:
            self._last = max(time.time(), self._last + 1e-6)
            return self._last

    def update(
        self,
        keys: Sequence[str],
        *,
        group_ids: Groups = None,
        time_at_least: float | None = None,
    ) -> None:
        """Record that keys were seen now; raise if the clock is before `time_at_least`."""
        now = self.get_time()
        groups = check_update(keys, group_ids, time_at_least, now)
        with self._lock:
            for key, group in zip(keys, groups, strict=True):
                group_id = self.records[key][0] if group is None and key in self.records else group
                self.records[key] = (group_id, now)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return for each key whether it has a record."""
        return [key in self.records for key in keys]

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys last seen before or after a time, of some groups."""
        groups = None if group_ids is None else set(group_ids)
        with self._lock:
            keys_of_groups = [
                key
                for key, (group, last_seen) in self.records.items()
                if (before is None or last_seen < before)
                and (after is None or last_seen > after)
                and (groups is None or group in groups)
            ]
        return keys_of_groups if limit is None else keys_of_groups[:limit]

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of keys."""
        with self._lock:
            for key in keys:
                self.records.pop(key, None)


class UpsertResponse(TypedDict):
    """The ids that were written and those that could not be."""

    succeeded: list[str]
    failed: list[str]


class DeleteResponse(TypedDict, total=False):
    """The deleted ids, as far as the backend reports them."""

    num_deleted: int
    succeeded: Sequence[str]
    failed: Sequence[str]
    num_failed: int


class DocumentIndex(BaseRetriever):
    """A store of documents that is a retriever."""

    @abstractmethod
    def upsert(self, items: Sequence[Document], /, **kwargs: object) -> UpsertResponse:
        """Add documents, or replace those with the same id."""

    async def aupsert(self, items: Sequence[Document], /, **kwargs: object) -> UpsertResponse:
        """Add documents, or replace those with the same id."""
        response: UpsertResponse = await ASYNC.call(self.upsert, items, **kwargs)
        return response

    @abstractmethod
    def delete(self, ids: list[str] | None = None, **kwargs: object) -> DeleteResponse:
        """Delete documents."""

    async def adelete(self, ids: list[str] | None = None, **kwargs: object) -> DeleteResponse:
        """Delete documents."""
        response: DeleteResponse = await ASYNC.call(self.delete, ids, **kwargs)
        return response

    @abstractmethod
    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return the documents with these ids that exist."""

    async def aget(self, ids: Sequence[str], /, **kwargs: object) -> list[Document]:
        """Return the documents with these ids that exist."""
        documents: list[Document] = await ASYNC.call(self.get, ids, **kwargs)
        return documents
