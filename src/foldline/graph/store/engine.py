"""Shared by all stores: filters, embedding, ranking, and `RowStore`, which implements the operations on rows."""

from __future__ import annotations

import json
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from foldline.exceptions import SchemaError, UsageError
from foldline.graph.store.base import (
    BaseStore,
    Embedder,
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
)

__all__ = ["Row", "RowStore", "join_namespace", "matches", "split_namespace"]

SEPARATOR = "\x1f"


@dataclass(slots=True)
class Row:
    """A stored value."""

    namespace: str
    key: str
    value: str
    created_at: str
    updated_at: str
    until: str | None = None
    vectors: str | None = None
    """The vectors of its texts, as JSON; None if it is not embedded."""


def join_namespace(namespace: Namespace) -> str:
    """Return a namespace as one text whose prefixes are those of the tuple."""
    return "".join(f"{part}{SEPARATOR}" for part in namespace)


def split_namespace(text: str) -> Namespace:
    """Return the namespace of its text form."""
    return tuple(text.split(SEPARATOR)[:-1])


class RowStore(BaseStore):
    """A store over rows; a subclass reads and writes them."""

    def __init__(self, index: IndexConfig | None = None) -> None:
        self.index_config = index
        self._embed = None if index is None else _embedder(index)
        self._fields = ["$"] if index is None else list(index.get("fields") or ["$"])

    @abstractmethod
    def _read(self, namespace: str, key: str) -> Row | None: ...

    @abstractmethod
    def _write(self, rows: list[Row], deleted: list[tuple[str, str]]) -> None: ...

    @abstractmethod
    def _under(self, prefix: str) -> Iterable[Row]: ...

    @abstractmethod
    def _namespaces(self) -> list[str]: ...

    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Execute operations; all reads happen before the writes."""
        operations = list(ops)
        results: list[Any] = [None] * len(operations)
        for index, op in enumerate(operations):
            if isinstance(op, GetOp):
                results[index] = self._get(op)
            elif isinstance(op, SearchOp):
                results[index] = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                results[index] = self._list(op)
        puts = {
            (op.namespace, op.key): op for op in operations if isinstance(op, PutOp)
        }  # of several puts of one key the last one is used
        if puts:
            self._put(list(puts.values()))
        return results

    def _get(self, op: GetOp) -> Item | None:
        row = self._read(join_namespace(op.namespace), op.key)
        return None if row is None or _is_expired(row) else _item(row)

    def _put(self, ops: list[PutOp]) -> None:
        now = datetime.now(UTC)
        rows, deleted = [], []
        stored = [op for op in ops if op.value is not None]
        vectors = self._vectors(stored)
        for op in ops:
            namespace = join_namespace(op.namespace)
            if op.value is None:
                deleted.append((namespace, op.key))
                continue
            expires_at = None if op.ttl is None else (now + timedelta(minutes=op.ttl)).isoformat()
            rows.append(
                Row(
                    namespace,
                    op.key,
                    _text(op),
                    now.isoformat(),
                    now.isoformat(),
                    expires_at,
                    vectors.get(id(op)),
                )
            )
        self._write(rows, deleted)

    def _vectors(self, ops: list[PutOp]) -> dict[int, str]:
        if self._embed is None:
            return {}
        texts: list[str] = []
        owners: list[int] = []
        for op in ops:
            if op.index is False:
                continue
            for path in op.index or self._fields:
                for text in texts_at(op.value or {}, path):
                    texts.append(text)
                    owners.append(id(op))
        if not texts:
            return {}
        vectors = self._embed.embed_documents(texts)
        vectors_by_op: dict[int, list[Any]] = {}
        for owner, vector in zip(owners, vectors, strict=True):
            vectors_by_op.setdefault(owner, []).append([float(number) for number in vector])
        return {owner: json.dumps(group) for owner, group in vectors_by_op.items()}

    def _search(self, op: SearchOp) -> list[SearchItem]:
        rows = [
            row for row in self._under(join_namespace(op.namespace_prefix)) if not _is_expired(row)
        ]
        matching = [(row, json.loads(row.value)) for row in rows]
        if op.filter:
            matching = [(row, value) for row, value in matching if matches(value, op.filter)]
        items = []
        if op.query and self._embed is not None:
            query = self._embed.embed_query(op.query)
            scored = [
                (max(_cosine(query, vector) for vector in json.loads(row.vectors)), row, value)
                for row, value in matching
                if row.vectors
            ]
            scored.sort(key=lambda entry: -entry[0])
            items = [_search_item(row, value, score) for score, row, value in scored]
        else:
            matching.sort(key=lambda entry: entry[0].updated_at, reverse=True)
            items = [_search_item(row, value, None) for row, value in matching]
        return items[op.offset : op.offset + op.limit]

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        namespaces = sorted(split_namespace(text) for text in self._namespaces())
        namespaces = [
            namespace
            for namespace in namespaces
            if all(_fits(namespace, condition) for condition in op.match_conditions)
        ]
        if op.max_depth is not None:
            namespaces = sorted({namespace[: op.max_depth] for namespace in namespaces})
        return namespaces[op.offset : op.offset + op.limit]


def _text(op: PutOp) -> str:
    try:
        return json.dumps(to_jsonable_python(dict(op.value or {})), ensure_ascii=True)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise SchemaError(f"the value of {op.key!r} cannot be stored: {error}") from error


def _item(row: Row) -> Item:
    return Item(
        json.loads(row.value),
        row.key,
        split_namespace(row.namespace),
        datetime.fromisoformat(row.created_at),
        datetime.fromisoformat(row.updated_at),
    )


def _search_item(row: Row, value: dict[str, Any], score: float | None) -> SearchItem:
    item = _item(row)
    return SearchItem(value, item.key, item.namespace, item.created_at, item.updated_at, score)


def _is_expired(row: Row) -> bool:
    return row.until is not None and row.until <= datetime.now(UTC).isoformat()


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(pattern in ("*", name) for pattern, name in zip(path, part, strict=True))


COMPARISONS = {
    "$eq": lambda value, operand: value == operand,
    "$ne": lambda value, operand: value != operand,
    "$gt": lambda value, operand: value > operand,
    "$gte": lambda value, operand: value >= operand,
    "$lt": lambda value, operand: value < operand,
    "$lte": lambda value, operand: value <= operand,
}


def matches(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Whether a value matches the fields of a filter."""
    return all(_matches(value.get(key), condition) for key, condition in filter.items())


def _matches(value: object, condition: object) -> bool:
    if isinstance(condition, Mapping) and any(str(key).startswith("$") for key in condition):
        for name, limit in condition.items():
            if name not in COMPARISONS:
                raise UsageError(f"a filter supports {', '.join(COMPARISONS)}, not {name!r}")
            try:
                if not COMPARISONS[name](value, limit):
                    return False
            except TypeError:
                return False
        return True
    if isinstance(condition, Mapping):
        return isinstance(value, Mapping) and all(
            _matches(value.get(key), inner) for key, inner in condition.items()
        )
    return bool(value == condition)


def texts_at(value: Mapping[str, Any], path: str) -> list[str]:
    """Return the texts of a value at a path: `$`, `text`, `facts[*].text`, `facts[0]`, `facts[-1]`."""
    if path == "$":
        return [json.dumps(to_jsonable_python(dict(value)), ensure_ascii=False, sort_keys=True)]
    values: list[Any] = [value]
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        values = [inner for outer in values for inner in _values_at(outer, part)]
    texts = [
        item if isinstance(item, str) else json.dumps(to_jsonable_python(item), ensure_ascii=False)
        for item in values
        if item is not None
    ]
    return [text for text in texts if text]


def _values_at(value: object, part: str) -> list[Any]:
    if part == "[*]":
        return (
            list(value)
            if isinstance(value, list)
            else list(value.values())
            if isinstance(value, Mapping)
            else []
        )
    if part.startswith("["):
        try:
            return [value[int(part[1:-1])]] if isinstance(value, list) else []
        except (ValueError, IndexError):
            return []
    return [value[part]] if isinstance(value, Mapping) and part in value else []


def _cosine(first: list[float], second: list[float]) -> float:
    product = sum(x * y for x, y in zip(first, second, strict=True))
    size = math.sqrt(sum(x * x for x in first)) * math.sqrt(sum(y * y for y in second))
    return product / size if size else 0.0


def _embedder(index: IndexConfig) -> Embedder:
    embed = index.get("embed")
    if embed is None:
        raise UsageError(
            "an index needs embed=: an Embeddings, or a function from texts to vectors"
        )
    if hasattr(embed, "embed_documents"):
        return cast("Embedder", embed)
    if callable(embed):
        return _FunctionEmbedder(embed)
    raise UsageError(
        f"embed={embed!r:.60} is neither an Embeddings nor a function from texts to vectors"
    )


class _FunctionEmbedder:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return list(self._function(texts))

    def embed_query(self, text: str) -> list[float]:
        return list(self._function([text])[0])
