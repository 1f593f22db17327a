"""What all stores share: filters, the texts that are embedded, ranking, and `RowStore`, the operations over rows."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline._items.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Namespace,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from foldline._items.embedder import StoreEmbedder, store_embedder
from foldline._items.paths import get_text_at_path
from foldline.exceptions import SchemaError, StoreError, UsageError

__all__ = ["FIELDS", "Row", "RowStore", "join_namespace", "matches", "split_namespace"]

SEPARATOR = "\x1f"
Vectors = dict[int, list[list[float]]]
"""The id of an operation -> the vectors of its texts."""


@dataclass(slots=True)
class Row:
    """A value as it is kept."""

    namespace: str
    key: str
    value: str
    created_at: str
    updated_at: str
    until: str | None = None
    vectors: str | None = None
    """The vectors of its texts, as JSON; None where it is not searched by meaning."""
    ttl: float | None = None
    """The minutes after which it expires, counted from its last write or refreshing read."""


FIELDS = ", ".join(field.name for field in fields(Row))
"""The columns of a row, in the order of its fields."""


def join_namespace(namespace: Namespace) -> str:
    """Return a namespace as one text whose prefixes are those of the tuple."""
    return "".join(f"{part}{SEPARATOR}" for part in namespace)


def split_namespace(text: str) -> Namespace:
    """Return the namespace that a text says."""
    return tuple(text.split(SEPARATOR)[:-1])


class RowStore(BaseStore):
    """A store over rows; a subclass reads and writes them."""

    _place: str = "the store"
    """How errors name it."""

    def __init__(self, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self.index_config = index
        self.ttl_config = ttl
        self._next_sweep: datetime | None = None
        self._embed = None if index is None else store_embedder(index)
        self._fields = ["$"] if index is None else list(index.get("fields") or ["$"])

    @abstractmethod
    def _read(self, namespace: str, key: str) -> Row | None: ...

    @abstractmethod
    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None: ...

    @abstractmethod
    def _renew(self, untils: list[tuple[Row, str]]) -> None:
        """Set when rows expire; not of those that were written again since they were read."""

    @abstractmethod
    def _sweep(self, now: str) -> int:
        """Delete what has expired; return how many rows it was."""

    @abstractmethod
    def _under(self, prefix: str) -> Iterable[Row]: ...

    @abstractmethod
    def _namespaces(self, now: str) -> list[str]:
        """Return the namespaces that have a value which has not expired."""

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Execute operations; all reads happen before the writes."""
        return drive(self._batch(list(ops), BLOCKING))

    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """Execute operations; all reads happen before the writes."""
        return await self._batch(list(ops), ASYNC)

    async def _batch(self, ops: list[Op], io: IO) -> list[Any]:
        for op in ops:
            validate_op_namespace(op)
        vectors = {} if self._embed is None else await self._vectors(ops, self._embed, io)
        results: list[Any] = await io.call(self._results, ops, vectors)
        return results

    def _results(self, operations: list[Op], vectors: Vectors) -> list[Any]:
        results: list[Any] = [None] * len(operations)
        for index, op in enumerate(operations):
            if isinstance(op, GetOp):
                results[index] = self._get(op)
            elif isinstance(op, SearchOp):
                results[index] = self._search(op, vectors.get(id(op)))
            elif isinstance(op, ListNamespacesOp):
                results[index] = self._list(op)
        puts = {
            (op.namespace, op.key): op for op in operations if isinstance(op, PutOp)
        }  # the last one counts
        if puts:
            self._put(list(puts.values()), vectors)
        return results

    def _get(self, op: GetOp) -> Item | None:
        row = self._read(join_namespace(op.namespace), op.key)
        if row is None or _is_expired(row):
            return None
        if op.refresh_ttl:
            self._refresh([row])
        return self._item(row)

    def _refresh(self, rows: list[Row]) -> None:
        """Start the time of rows again, of those that expire."""
        now = datetime.now(UTC)
        untils = [(row, _after(now, row.ttl)) for row in rows if row.ttl is not None]
        if untils:
            self._renew(untils)

    def sweep_ttl(self) -> int:
        """Delete the values that have expired, which are no longer found; return how many they were."""
        return self._sweep(_now())

    async def asweep_ttl(self) -> int:
        """Delete the values that have expired; see `sweep_ttl`."""
        count: int = await ASYNC.call(self.sweep_ttl)
        return count

    def _sweep_in_time(self, now: datetime) -> None:
        """Delete what has expired, if the configured time since the last deletion has passed."""
        interval = (self.ttl_config or {}).get("sweep_interval_minutes")
        if interval is None or (self._next_sweep is not None and now < self._next_sweep):
            return
        self._next_sweep = now + timedelta(minutes=interval)
        self._sweep(now.isoformat())

    def _put(self, ops: list[PutOp], vectors: Vectors) -> None:
        now = datetime.now(UTC)
        rows, deleted = [], []
        for op in ops:
            namespace = join_namespace(op.namespace)
            if op.value is None:
                deleted.append((namespace, op.key))
                continue
            rows.append(
                Row(
                    namespace,
                    op.key,
                    _text(op),
                    now.isoformat(),
                    now.isoformat(),
                    None if op.ttl is None else _after(now, op.ttl),
                    json.dumps(vectors[id(op)]) if id(op) in vectors else None,
                    op.ttl,
                )
            )
        self._write(rows, deleted)
        self._sweep_in_time(now)

    async def _vectors(self, ops: list[Op], embed: StoreEmbedder, io: IO) -> Vectors:
        """Embed the values to store and the queries; return the vectors of each operation."""
        texts: list[str] = []
        owners: list[int] = []
        last = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for op in last.values():
            if op.index is False or op.value is None:
                continue
            for path in op.index or self._fields:
                for text in get_text_at_path(op.value, path):
                    texts.append(text)
                    owners.append(id(op))
        vectors: Vectors = {}
        embedded = await embed.documents(texts, io) if texts else []
        for owner, vector in zip(owners, embedded, strict=True):
            vectors.setdefault(owner, []).append([float(number) for number in vector])
        for search in ops:
            if isinstance(search, SearchOp) and search.query:
                vectors[id(search)] = [await embed.query(search.query, io)]
        return vectors

    def _search(self, op: SearchOp, vectors: list[list[float]] | None) -> list[SearchItem]:
        rows = [
            row for row in self._under(join_namespace(op.namespace_prefix)) if not _is_expired(row)
        ]
        candidates = [(row, self._parsed(row, row.value)) for row in rows]
        if op.filter:
            candidates = [(row, value) for row, value in candidates if matches(value, op.filter)]
        scored: list[tuple[float | None, Row, dict[str, Any]]]
        if vectors:
            (query,) = vectors
            ranked = [
                (
                    max(_cosine(query, vector) for vector in self._parsed(row, row.vectors)),
                    row,
                    value,
                )
                for row, value in candidates
                if row.vectors
            ]
            ranked.sort(key=lambda match: -match[0])
            scored = [*ranked]
        else:
            candidates.sort(key=lambda candidate: candidate[0].updated_at, reverse=True)
            scored = [(None, row, value) for row, value in candidates]
        found = scored[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh([row for _, row, _ in found])
        return [self._search_item(row, value, score) for score, row, value in found]

    def _item(self, row: Row) -> Item:
        value, namespace = self._parsed(row, row.value), split_namespace(row.namespace)
        return Item(value, row.key, namespace, *self._times(row))

    def _search_item(self, row: Row, value: dict[str, Any], score: float | None) -> SearchItem:
        namespace = split_namespace(row.namespace)
        return SearchItem(value, row.key, namespace, *self._times(row), score)

    def _times(self, row: Row) -> tuple[datetime, datetime]:
        try:
            return datetime.fromisoformat(row.created_at), datetime.fromisoformat(row.updated_at)
        except (TypeError, ValueError) as error:
            raise self._damaged(row) from error

    def _parsed(self, row: Row, text: str) -> Any:  # noqa: ANN401  any JSON
        try:
            return json.loads(text)
        except (TypeError, ValueError) as error:
            raise self._damaged(row) from error

    def _damaged(self, row: Row) -> StoreError:
        return StoreError(
            f"{self._place}: the item {row.key!r:.80} in {row.namespace!r:.80} is damaged: restore it from a "
            "backup, or put it again"
        )

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        names = sorted(split_namespace(name) for name in self._namespaces(_now()))
        names = [
            name
            for name in names
            if all(_fits(name, condition) for condition in op.match_conditions)
        ]
        if op.max_depth is not None:
            names = sorted({name[: op.max_depth] for name in names})
        return names[op.offset : op.offset + op.limit]


def _text(op: PutOp) -> str:
    try:
        return json.dumps(to_jsonable_python(dict(op.value or {})), ensure_ascii=True)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise SchemaError(f"the value of {op.key!r} cannot be stored: {error}") from error


def _is_expired(row: Row) -> bool:
    return row.until is not None and row.until <= _now()


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _after(now: datetime, ttl: float) -> str:
    return (now + timedelta(minutes=ttl)).isoformat()


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(expected in ("*", actual) for expected, actual in zip(path, part, strict=True))


COMPARE = {
    "$eq": lambda actual, expected: actual == expected,
    "$ne": lambda actual, expected: actual != expected,
    "$gt": lambda actual, expected: actual > expected,
    "$gte": lambda actual, expected: actual >= expected,
    "$lt": lambda actual, expected: actual < expected,
    "$lte": lambda actual, expected: actual <= expected,
}


def matches(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a value has the fields that a filter names."""
    return all(_matches(value.get(key), expected) for key, expected in filter.items())


def _matches(actual: object, expected: object) -> bool:
    if isinstance(expected, Mapping) and any(str(key).startswith("$") for key in expected):
        for name, limit in expected.items():
            if name not in COMPARE:
                raise UsageError(f"a filter supports {', '.join(COMPARE)}, not {name!r}")
            try:
                if not COMPARE[name](actual, limit):
                    return False
            except TypeError:
                return False
        return True
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(
            _matches(actual.get(key), item) for key, item in expected.items()
        )
    return bool(actual == expected)


def _cosine(first: list[float], second: list[float]) -> float:
    product = sum(left * right for left, right in zip(first, second, strict=True))
    size = math.sqrt(sum(left * left for left in first)) * math.sqrt(
        sum(left * left for left in second)
    )
    return product / size if size else 0.0
