"""How blocks, metadata and usage grow: one rule per field, in one table.

Everything that adds two pieces of a message reads this table: the fold of events, the writer of events and the
addition of v1 chunks. `None` is the neutral element of every rule, an absent field too; each rule is associative, so it
does not matter in which order neighbours are added up (as long as a field keeps its type, and but for a tool's name in
pieces, see `grow_name`). Nothing here raises on odd values: what cannot be combined is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from foldline.exceptions import LimitExceededError

Rule: TypeAlias = Callable[[Any, Any], Any]
"""(what is there, what comes) -> what is there then. Neither is None, and neither is changed."""


LEAVES = frozenset({str, int, float, bool, type(None)})
"""The classes of most values, which are never copied."""


def copy_json(value: object) -> Any:  # noqa: ANN401  the same kind of JSON as was given
    """Copy the dicts and lists of a value, so that two owners never share one."""
    if type(value) in LEAVES or not isinstance(value, (dict, list)):
        return value
    if type(value) is dict and LEAVES.issuperset(map(type, value.values())):
        return value.copy()  # flat, as most are
    try:
        return _copy(value)
    except RecursionError:
        raise LimitExceededError(
            "a value is nested too deep (or contains itself) to be part of a message"
        ) from None


def _copy(value: dict[str, Any] | list[Any]) -> object:
    # Most items are leaves: a copy of all, in which the others are replaced, costs half.
    if type(value) is dict:
        copied = value.copy()
        for key, item in value.items():
            if type(item) not in LEAVES and isinstance(item, (dict, list)):
                copied[key] = _copy(item)
        return copied
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    return [item if type(item) in LEAVES else copy_json(item) for item in value]


def append(old: object, new: object) -> object:
    """Join slices of text, and items that are dicts (a `reasoning` of OpenAI's); anything else is replaced."""
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return merge_dicts(old, new)
    return copy_json(new)


def extend(old: object, new: object) -> object:
    """Add the items of one list to another; items with the same integer `index` are one item."""
    if isinstance(old, list) and isinstance(new, list):
        return merge_lists(old, new)
    return copy_json(new)


def first(old: object, new: object) -> object:
    """Keep the first that says something: an empty string never stands in the way of a later one."""
    return old if old != "" else copy_json(new)


def last(old: object, new: object) -> object:
    """Take the newest; an empty string never overwrites."""
    return old if new == "" else copy_json(new)


def deep(old: object, new: object) -> object:
    """Merge dicts key by key, extend lists, join slices of text, replace the rest."""
    if isinstance(old, dict) and isinstance(new, dict):
        return merge_dicts(old, new)
    if isinstance(old, list):
        return extend(old, new)
    return append(old, new)


def whole(old: object, new: object) -> object:
    """As `deep`, but text is replaced and never joined: names of models, reasons, statuses."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge(old, new, lambda _key: whole)
    if isinstance(old, list):
        return extend(old, new)
    return last(old, new)


RULES: dict[str, Rule] = {
    "type": first,
    "index": first,
    "id": first,
    "name": first,
    "tool_call_id": first,
    "text": append,
    "reasoning": append,
    "args": append,
    "base64": append,
    "annotations": extend,
    "extras": deep,
    "value": deep,
    "output": deep,
    "url": last,
    "file_id": last,
    "mime_type": last,
    "title": last,
    "context": append,
    "status": last,
    "error": last,
}
"""The rule of each field of a block. A field that is not here grows by the rule of its name: see `leaf_rule`."""

WHOLE_LEAVES = frozenset(
    {
        "created",
        "encoding",
        "finish_reason",
        "format",
        "language",
        "model",
        "model_name",
        "model_provider",
        "model_version",
        "object",
        "output_version",
        "phase",
        "provider",
        "role",
        "service_tier",
        "stop_reason",
        "stop_sequence",
        "system_fingerprint",
    }
)
"""Names, inside extras and the like, of text that comes whole each time it comes."""

_WHOLE_ENDINGS = ("_id", "_type", "_at", "_url", "_reason", "_name")


def leaf_rule(key: str) -> Rule:
    """Return the rule of a field by its name: ids and the like come whole, other text comes in slices."""
    rule = RULES.get(key)
    if rule is not None:
        return rule
    if key in WHOLE_LEAVES or str(key).endswith(_WHOLE_ENDINGS):
        return whole
    return deep


def merge_dicts(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return the deep merge of two dicts as a new dict: extras, additional_kwargs."""
    return _merge(left, right, leaf_rule)


def merge_metadata(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return the merge of response metadata as a new dict, see `grow_metadata`."""
    merged: dict[str, Any] = copy_json(left)
    grow_metadata(merged, copy_json(right))
    return merged


def grow_metadata(into: dict[str, Any], news: dict[str, Any]) -> None:
    """Grow response metadata in place by news that nobody else holds.

    Text is replaced by the last that says something, never joined (T63, T64).
    """
    for key, new in news.items():
        old = into.get(key)
        if new is None:
            into.setdefault(key, None)
        else:
            into[key] = new if old is None else whole(old, new)


def merge_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """Put one list after another; dicts that carry the same integer `index` become one."""
    merged = [copy_json(item) for item in left]
    places: dict[int, int] = {}
    for place, item in enumerate(merged):
        if (index := _item_index(item)) is not None:
            places.setdefault(index, place)
    for item in right:
        index = _item_index(item)
        if index is not None and index in places:
            merged[places[index]] = merge_dicts(merged[places[index]], item)
            continue
        if index is not None:
            places[index] = len(merged)
        merged.append(copy_json(item))
    return merged


def merge_block(into: dict[str, Any], part: dict[str, Any]) -> None:
    """Grow a block in place by one more part of it; the part is left alone and shared with nobody."""
    for key, new in part.items():
        old = into.get(key)
        if new is None:
            into.setdefault(key, None)
        elif old is None:
            into[key] = copy_json(new)
        elif key == "name" and into.get("type") in GROWING_CALLS:
            into[key] = grow_name(old, new, has_args=bool(into.get("args")))
        else:
            into[key] = leaf_rule(key)(old, new)


GROWING_CALLS = frozenset({"tool_call_chunk", "server_tool_call_chunk"})


def grow_name(name: str | None, piece: str | None, *, has_args: bool) -> str | None:
    """Return a tool's name after one more piece of it.

    Pieces are joined only while no arguments were seen (T26); a name that is merely repeated stays one name (F-U06).
    """
    if not piece or piece == name:
        return name or piece
    if not name:
        return piece
    return name if has_args else name + piece


def add_usage(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    """Sum the usage of two parts of a message, details and unknown counters included."""
    return _merge(left or {}, right or {}, lambda _key: _sum)


def replace_usage(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    """Take the newest count of each counter: for providers that report running totals."""
    return _merge(left or {}, right or {}, lambda _key: _newest)


def _sum(old: object, new: object) -> object:
    if isinstance(old, dict) and isinstance(new, dict):
        return add_usage(old, new)
    return old + new if _is_number(old) and _is_number(new) else copy_json(new)


def _newest(old: object, new: object) -> object:
    if isinstance(old, dict) and isinstance(new, dict):
        return replace_usage(old, new)
    return copy_json(new)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _item_index(item: object) -> int | None:
    index = item.get("index") if isinstance(item, dict) else None
    return index if isinstance(index, int) and not isinstance(index, bool) else None


def _merge(
    left: dict[str, Any], right: dict[str, Any], rule_of: Callable[[str], Rule]
) -> dict[str, Any]:
    merged = {key: copy_json(value) for key, value in left.items()}
    for key, new in right.items():
        old = merged.get(key)
        if new is None:
            merged.setdefault(key, None)
        elif old is None:
            merged[key] = copy_json(new)
        else:
            merged[key] = rule_of(key)(old, new)
    return merged
