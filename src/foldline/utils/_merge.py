"""Merge JSON-like dicts and lists that arrive in pieces, under LangChain's names; blocks have their own table.

Associative, which LangChain's are not: text is joined, identities keep their first value, other scalars take the
newest, dicts go key by key, list items with the same `index` are one item. `None` is neutral.
"""

from __future__ import annotations

from typing import Any

__all__ = ["merge_dicts", "merge_lists", "merge_obj"]

IDENTITIES = frozenset({"id", "index", "type", "output_version", "model_provider"})


def merge_dicts(left: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """Merge from left to right into a new dict."""
    merged = dict(left)
    for other in others:
        for key, item in other.items():
            current = merged.get(key)
            if current is None:
                merged[key] = item
            elif item is not None and key not in IDENTITIES:
                merged[key] = _merge(current, item, key)
    return merged


def merge_lists(left: list[Any] | None, *others: list[Any] | None) -> list[Any] | None:
    """Merge from left to right into a new list; no lists at all are None.

    A dict with an `index` continues the last one with that index, unless it names another `id`.
    """
    lists = [items for items in (left, *others) if items is not None]
    if not lists:
        return None
    merged: list[Any] = []
    last: dict[Any, int] = {}
    for item in (item for items in lists for item in items):
        index = item.get("index") if isinstance(item, dict) else None
        if index is None or isinstance(index, dict | list):
            merged.append(item)
        elif index in last and item.get("id") in (None, merged[last[index]].get("id")):
            merged[last[index]] = merge_dicts(merged[last[index]], item)
        else:
            last[index] = len(merged)
            merged.append(item)
    return merged


def merge_obj(left: object, right: object) -> Any:  # noqa: ANN401  the same kind of value as was given
    """Merge two values of the same kind; equal or single ones stay."""
    if left is None or right is None:
        return right if left is None else left
    return _merge(left, right, "")


def _merge(left: object, right: object, key: str) -> object:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, dict) and isinstance(right, dict):
        return merge_dicts(left, right)
    if isinstance(left, list) and isinstance(right, list):
        return merge_lists(left, right)
    if isinstance(left, str | dict | list) or isinstance(right, str | dict | list):
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        raise TypeError(f"cannot merge {kinds} under the name {key!r}")
    return right
