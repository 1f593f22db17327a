"""`BaseStore`: data across threads: JSON values by namespace and key, with search.

A namespace is a tuple of texts, `("memories", "user-1")`. With an index, texts of the values are embedded and `search`
ranks by similarity; without one it only filters. A subclass implements `batch`; all other methods call it.
"""

# No `from __future__ import annotations`: annotations that are text would be evaluated with the names of the module
# that the classes say, which is not this one.
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import EllipsisType
from typing import Any, Literal, Protocol, TypedDict

from foldline._io import ASYNC
from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.utils._short_repr import short_repr
from foldline.workflows._step_trace import note_value

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
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "label_problem",
    "validate_op_namespace",
]

Namespace = tuple[str, ...]
RESERVED_ROOT = "langgraph"
"""The root of what LangGraph's platform stores for itself."""
EXAMPLE = 'pass ("memories", "user-1")'


class InvalidNamespaceError(UsageError):
    """A namespace that is not valid."""


class Embedder(Protocol):
    """An object that embeds texts: any `Embeddings`."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...
    def embed_query(self, text: str) -> list[float]: ...


class IndexConfig(TypedDict, total=False):
    """How values are embedded for similarity search."""

    dims: int
    embed: Any
    """An `Embeddings`, or a function from a list of texts to vectors."""
    fields: list[str] | None
    """The fields that are embedded, as paths (`"text"`, `"facts[*].text"`); the whole value (`"$"`) by default."""


class TTLConfig(TypedDict, total=False):
    """How long values are kept; times are in minutes."""

    default_ttl: float | None
    """The time after which a value expires, unless `put` sets another; None (the default) for never."""
    refresh_on_read: bool
    """Whether reading a value starts its time again, unless the call sets `refresh_ttl`; True by default."""
    sweep_interval_minutes: float | None
    """How often a write also deletes what has expired; None (the default) for never: see `sweep_ttl`."""


@dataclass(slots=True)
class Item:
    """A stored value."""

    value: dict[str, Any]
    key: str
    namespace: Namespace
    created_at: datetime
    updated_at: datetime

    def dict(self) -> dict[str, Any]:
        """Return the item as plain data."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


@dataclass(slots=True)
class SearchItem(Item):
    """A search result; `score` is its similarity to the query, if there was one."""

    score: float | None = None


@dataclass(frozen=True, slots=True)
class GetOp:
    """Read a value."""

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


@dataclass(frozen=True, slots=True)
class PutOp:
    """Store a value; None deletes it."""

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
    """A prefix or suffix of a namespace; `*` matches any part."""

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
Result = Item | list[Item] | list[SearchItem] | list[tuple[str, ...]] | None
"""The result of an operation."""


class BaseStore(ABC):
    """JSON values by namespace and key, with search."""

    __repr__ = short_repr
    ttl_config: TTLConfig | None = None
    """How long values are kept."""

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Execute operations; return the results in order."""

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """Execute operations; return the results in order."""
        results: list[Any] = await ASYNC.call(self.batch, list(ops))
        return results

    def setup(self) -> None:  # noqa: B027  tables are created when a store is opened
        """Do nothing: LangGraph's stores create their tables here, foldline's when they are opened."""

    # -- single operations

    async def _arun(self, op: Op) -> Any:  # noqa: ANN401  the result of the operation
        """Execute one operation."""
        return (await self.abatch([op]))[0]

    def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return a value, or None; `refresh_ttl` sets whether its time starts again (see `TTLConfig`)."""
        item: Item | None = self.batch([self._get_operation(namespace, key, refresh_ttl)])[0]
        _note_get(namespace, key, item)
        return item

    async def aget(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return a value, or None."""
        operation = self._get_operation(namespace, key, refresh_ttl)
        item: Item | None = await self._arun(operation)
        _note_get(namespace, key, item)
        return item

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | EllipsisType | None = ...,
    ) -> None:
        """Store a value; `index=False` excludes it from similarity search.

        `ttl` is the time after which it expires, in minutes, or None for never; by default that of `TTLConfig`.
        """
        self.batch([_put_operation(namespace, key, value, index, self._ttl(ttl))])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | EllipsisType | None = ...,
    ) -> None:
        """Store a value; see `put`."""
        await self._arun(_put_operation(namespace, key, value, index, self._ttl(ttl)))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete a value."""
        self.batch([PutOp(_check_namespace(namespace), str(key), None)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """Delete a value."""
        await self._arun(PutOp(_check_namespace(namespace), str(key), None))

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

        `filter` compares fields (`{"kind": "fact"}`, `{"age": {"$gt": 3}}`); `query` ranks by similarity;
        `refresh_ttl` sets whether the time of the values found starts again.
        """
        refreshes = self._refreshes(refresh_ttl)
        op = SearchOp(_check_labels(namespace_prefix), filter, limit, offset, query, refreshes)
        items: list[SearchItem] = self.batch([op])[0]
        _note_search(op, items)
        return items

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
        refreshes = self._refreshes(refresh_ttl)
        op = SearchOp(_check_labels(namespace_prefix), filter, limit, offset, query, refreshes)
        items: list[SearchItem] = await self._arun(op)
        _note_search(op, items)
        return items

    def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that have values."""
        namespaces: list[Namespace] = self.batch(
            [_list_operation(prefix, suffix, max_depth, limit, offset)]
        )[0]
        return namespaces

    async def alist_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Return the namespaces that have values."""
        op = _list_operation(prefix, suffix, max_depth, limit, offset)
        namespaces: list[Namespace] = await self._arun(op)
        return namespaces

    # -- expiry

    def _get_operation(self, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:  # noqa: FBT001
        return GetOp(_check_namespace(namespace), str(key), self._refreshes(refresh_ttl))

    def _refreshes(self, refresh_ttl: bool | None) -> bool:  # noqa: FBT001
        if refresh_ttl is not None:
            return refresh_ttl
        return (self.ttl_config or {}).get("refresh_on_read", True)

    def _ttl(self, ttl: float | EllipsisType | None) -> float | None:
        return (self.ttl_config or {}).get("default_ttl") if ttl is ... else ttl


def _note_get(namespace: Namespace, key: str, item: Item | None) -> None:
    """Record what the current run read, as an event of it in the traces."""
    value = None if item is None else item.value
    note_value("store-get", {"namespace": list(namespace), "key": str(key), "value": value})


def _note_search(op: SearchOp, items: list[SearchItem]) -> None:
    found_items = [
        {"namespace": list(item.namespace), "key": item.key, "value": item.value} for item in items
    ]
    details = {"namespace": list(op.namespace_prefix), "query": op.query, "items": found_items}
    note_value("store-search", details)


def _list_operation(
    prefix: Namespace | None,
    suffix: Namespace | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> ListNamespacesOp:
    conditions = []
    if prefix:
        conditions.append(MatchCondition("prefix", _check_labels(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", _check_labels(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _put_operation(
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    index: Literal[False] | list[str] | None,
    ttl: float | None,
) -> PutOp:
    if not isinstance(value, Mapping):
        raise UsageError(
            f"a store holds dicts, not {type(value).__name__}: put(namespace, key, {{…}})"
        )
    labels = _check_namespace(namespace)
    _check_root(labels)
    return PutOp(labels, str(key), value, index, ttl)


def validate_op_namespace(op: Op) -> None:
    """Raise `InvalidNamespaceError` if the namespace of an operation is not valid; an empty prefix and `*` are."""
    if isinstance(op, SearchOp):
        _check_labels(op.namespace_prefix)
    elif isinstance(op, ListNamespacesOp):
        for condition in op.match_conditions:
            _check_labels(condition.path)
    else:
        _check_namespace(op.namespace)


def _check_namespace(namespace: Sequence[str]) -> Namespace:
    labels = _check_labels(namespace)
    if not labels:
        raise InvalidNamespaceError(f"a namespace cannot be empty: {EXAMPLE}")
    return labels


def _check_labels(namespace: Sequence[str]) -> Namespace:
    value: object = namespace
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidNamespaceError(
            f"a namespace must be a tuple of texts, not {namespace!r:.80}: {EXAMPLE}"
        )
    for label in namespace:
        problem = label_problem(label)
        if problem is not None:
            raise InvalidNamespaceError(
                f"the label {label!r:.80} of the namespace {namespace!r:.80} {problem}"
            )
    return tuple(namespace)


def label_problem(label: object) -> str | None:
    """Return what is wrong with a label of a namespace, or None."""
    if not isinstance(label, str):
        return f"must be a text, not a {type(label).__name__}"
    if not label:
        return "cannot be empty"
    if "." in label:
        return "cannot contain periods ('.')"
    return "contains a control character" if "\x00" in label or "\x1f" in label else None


def _check_root(namespace: Namespace) -> None:
    if namespace[0] == RESERVED_ROOT:
        raise InvalidNamespaceError(
            f"the root of a namespace cannot be {RESERVED_ROOT!r}, which is reserved: {EXAMPLE}"
        )


publish(
    "foldline.graph.store.base",
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
