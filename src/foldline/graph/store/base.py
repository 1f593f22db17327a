"""`BaseStore`: what programs remember across threads: JSON values by namespace and key, with search.

A namespace is a tuple of texts, `("memories", "user-1")`. With an index, texts of the values are embedded and `search`
ranks by meaning; without one it filters only. An author writes `batch`; everything else is made of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict

from foldline._io import ASYNC
from foldline.exceptions import UsageError
from foldline.utils.short_repr import short_repr

__all__ = [
    "BaseStore",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "SearchItem",
    "SearchOp",
]

Namespace = tuple[str, ...]


class InvalidNamespaceError(UsageError):
    """A namespace that no store can hold."""


class Embedder(Protocol):
    """What turns texts into vectors: any `Embeddings`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...
    def embed_query(self, text: str) -> list[float]: ...


class IndexConfig(TypedDict, total=False):
    """How values are searched by meaning."""

    dims: int
    embed: Any
    """An `Embeddings`, or a function from a list of texts to vectors."""
    fields: list[str] | None
    """The fields that are embedded, as paths (`"text"`, `"facts[*].text"`); the whole value (`"$"`) by default."""


@dataclass(slots=True)
class Item:
    """A value that is kept."""

    value: dict[str, Any]
    key: str
    namespace: Namespace
    created_at: datetime
    updated_at: datetime

    def dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


@dataclass(slots=True)
class SearchItem(Item):
    """A value that was found, with how near it is where meaning was asked for."""

    score: float | None = None


@dataclass(frozen=True, slots=True)
class GetOp:
    """Read a value."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class PutOp:
    """Keep a value; None forgets it."""

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None
    ttl: float | None = None


@dataclass(frozen=True, slots=True)
class SearchOp:
    """Find values under a namespace."""

    namespace_prefix: Namespace
    filter: Mapping[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """How a namespace begins or ends; `*` stands for any part."""

    match_type: Literal["prefix", "suffix"]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListNamespacesOp:
    """List namespaces."""

    match_conditions: tuple[MatchCondition, ...] = field(default=())
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op = GetOp | PutOp | SearchOp | ListNamespacesOp


class BaseStore(ABC):
    """JSON values by namespace and key, with search."""

    __repr__ = short_repr

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Do several things; results in their order."""

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """Do several things; results in their order."""
        found: list[Any] = await ASYNC.call(self.batch, list(ops))
        return found

    def setup(self) -> None:  # noqa: B027  tables are made when a store is opened
        """Do nothing: LangGraph's stores make their tables here, ours when they are opened."""

    # -- one thing at a time

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return a value, or None."""
        found: Item | None = self.batch([GetOp(_checked(namespace), str(key))])[0]
        return found

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return a value, or None."""
        found: Item | None = (await self.abatch([GetOp(_checked(namespace), str(key))]))[0]
        return found

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Keep a value; `index=False` keeps it out of the search by meaning, `ttl` are minutes."""
        self.batch([_put(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None = None,
    ) -> None:
        """Keep a value."""
        await self.abatch([_put(namespace, key, value, index, ttl)])

    def delete(self, namespace: Namespace, key: str) -> None:
        """Forget a value."""
        self.batch([PutOp(_checked(namespace), str(key), None)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """Forget a value."""
        await self.abatch([PutOp(_checked(namespace), str(key), None)])

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Find values under a namespace.

        `filter` compares fields (`{"kind": "fact"}`, `{"age": {"$gt": 3}}`); `query` ranks by meaning, with an index.
        """
        op = SearchOp(tuple(namespace_prefix), filter, limit, offset, query)
        found: list[SearchItem] = self.batch([op])[0]
        return found

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Find values under a namespace."""
        op = SearchOp(tuple(namespace_prefix), filter, limit, offset, query)
        found: list[SearchItem] = (await self.abatch([op]))[0]
        return found

    def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that hold something."""
        found: list[Namespace] = self.batch([_list(prefix, suffix, max_depth, limit, offset)])[0]
        return found

    async def alist_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that hold something."""
        found: list[Namespace] = (
            await self.abatch([_list(prefix, suffix, max_depth, limit, offset)])
        )[0]
        return found


def _list(
    prefix: Namespace | None,
    suffix: Namespace | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> ListNamespacesOp:
    conditions = []
    if prefix:
        conditions.append(MatchCondition("prefix", tuple(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", tuple(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _put(
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    index: Literal[False] | list[str] | None,
    ttl: float | None,
) -> PutOp:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"a store keeps dicts, not {type(value).__name__}: put(namespace, key, {{…}})"
        )
    return PutOp(_checked(namespace), str(key), value, index, ttl)


def _checked(namespace: Sequence[str]) -> Namespace:
    given: object = namespace
    if not namespace or isinstance(given, str):
        raise InvalidNamespaceError(
            f'a namespace is a tuple of texts, not {namespace!r}: ("memories", "user-1")'
        )
    for part in namespace:
        if not _is_name(part):
            raise InvalidNamespaceError(
                f"a part of a namespace is a text without dots, not {part!r}"
            )
    return tuple(namespace)


def _is_name(part: object) -> bool:
    return isinstance(part, str) and part != "" and "." not in part and "\x1f" not in part
