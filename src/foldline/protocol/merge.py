"""How blocks, metadata and usage grow: one rule per field, in one table.

Everything that adds two parts of a message reads this table: the fold of events, the writer of events and the
addition of v1 chunks. `None` and an absent field are the neutral element of every rule. Each rule is associative, so
neighbours may be added in any order (as long as a field keeps its type, and except for a tool's name in slices, see
`grow_name`). Nothing here raises on unexpected values: a value that cannot be combined is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from foldline.exceptions import LimitExceededError

Rule: TypeAlias = Callable[[Any, Any], Any]
"""(current value, new value) -> combined value. Neither is None, and neither is changed."""


LEAVES = frozenset({str, int, float, bool, type(None)})
"""The classes of most values, which are never copied."""


def copy_json(value: object) -> Any:  # noqa: ANN401  the same JSON type as its argument
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
    # Most items are leaves: copying the dict and then replacing the others takes half the time.
    if type(value) is dict:
        copy = value.copy()
        for key, item in value.items():
            if type(item) not in LEAVES and isinstance(item, (dict, list)):
                copy[key] = _copy(item)
        return copy
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    return [item if type(item) in LEAVES else copy_json(item) for item in value]


def append(old: object, new: object) -> object:
    """Join slices of text, and items that are dicts (a `reasoning` of OpenAI's); replace anything else."""
    if isinstance(old, str) and isinstance(new, str):
        return old + new
    if isinstance(old, dict) and isinstance(new, dict):
        return merge_dicts(old, new)
    return copy_json(new)


def extend(old: object, new: object) -> object:
    """Add the items of one list to another; items with the same integer `index` are merged into one."""
    if isinstance(old, list) and isinstance(new, list):
        return merge_lists(old, new)
    return copy_json(new)


def first(old: object, new: object) -> object:
    """Keep the first value that is not an empty string."""
    return old if old != "" else copy_json(new)


def last(old: object, new: object) -> object:
    """Take the newest value that is not an empty string."""
    return old if new == "" else copy_json(new)


def merge_deep(old: object, new: object) -> object:
    """Merge dicts key by key, extend lists, join slices of text, replace anything else."""
    if isinstance(old, dict) and isinstance(new, dict):
        return merge_dicts(old, new)
    if isinstance(old, list):
        return extend(old, new)
    return append(old, new)


def replace_deep(old: object, new: object) -> object:
    """Merge like `merge_deep`, but replace text instead of joining it: model names, reasons, statuses."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge(old, new, lambda _key: replace_deep)
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
    "refusal": append,
    "args": append,
    "base64": append,
    "annotations": extend,
    "extras": merge_deep,
    "value": merge_deep,
    "output": merge_deep,
    "url": last,
    "file_id": last,
    "mime_type": last,
    "title": last,
    "context": append,
    "status": last,
    "error": last,
}
"""The rule of each field of a block. Other fields grow by a rule for their name: see `leaf_rule`."""

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
"""Fields inside extras and the like whose text is always sent complete."""

_WHOLE_ENDINGS = ("_id", "_type", "_at", "_url", "_reason", "_name")


def leaf_rule(key: str) -> Rule:
    """Return the rule of a field by its name: ids and the like are sent complete, other text in slices."""
    rule = RULES.get(key)
    if rule is not None:
        return rule
    if key in WHOLE_LEAVES or str(key).endswith(_WHOLE_ENDINGS):
        return replace_deep
    return merge_deep


def merge_dicts(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return the deep merge of two dicts (extras, additional_kwargs) as a new dict."""
    return _merge(left, right, leaf_rule)


def merge_metadata(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return the merge of response metadata as a new dict; see `grow_metadata`."""
    merged: dict[str, Any] = copy_json(left)
    grow_metadata(merged, copy_json(right))
    return merged


def grow_metadata(target: dict[str, Any], additions: dict[str, Any]) -> None:
    """Merge `additions`, which the caller does not use again, into response metadata in place.

    Text is replaced by the last that is not empty, never joined (T63, T64).
    """
    for key, new in additions.items():
        old = target.get(key)
        if new is None:
            target.setdefault(key, None)
        else:
            target[key] = new if old is None else replace_deep(old, new)


def merge_lists(left: list[Any], right: list[Any]) -> list[Any]:
    """Return two lists as one; dicts with the same integer `index` are merged."""
    merged = [copy_json(item) for item in left]
    positions: dict[int, int] = {}
    for position, item in enumerate(merged):
        if (index := _item_index(item)) is not None:
            positions.setdefault(index, position)
    for item in right:
        index = _item_index(item)
        if index is not None and index in positions:
            merged[positions[index]] = merge_dicts(merged[positions[index]], item)
            continue
        if index is not None:
            positions[index] = len(merged)
        merged.append(copy_json(item))
    return merged


def merge_block(into: dict[str, Any], part: dict[str, Any]) -> None:
    """Merge one more part into a block in place; the part is not changed, and shares nothing with the block."""
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
    """Return a tool's name after one more slice of it.

    Slices are joined only while there are no arguments (T26); a name that is only repeated stays as it is (F-U06).
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
    """Take the newest value of each counter: for providers that report running totals."""
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
