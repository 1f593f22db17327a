"""Values written as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foldline.utils._suggest import nearest

__all__ = [
    "comma_list",
    "sanitize_for_postgres",
    "stringify_dict",
    "stringify_value",
]

MAX_DEPTH = 200


def stringify_value(val: object, *, max_depth: int = MAX_DEPTH) -> str:
    """Return a value as text: lists and dicts with a line per item, others by `str`."""
    if max_depth <= 0:
        return "..."
    if isinstance(val, Mapping):
        return "\n" + stringify_dict(val, max_depth=max_depth)
    if isinstance(val, list):
        return "\n".join(stringify_value(item, max_depth=max_depth - 1) for item in val)
    return val if isinstance(val, str) else str(val)


def stringify_dict(data: Mapping[Any, Any], *, max_depth: int = MAX_DEPTH) -> str:
    """Return a dict as text, with a line per key."""
    lines = (
        f"{key}: {stringify_value(item, max_depth=max_depth - 1)}\n" for key, item in data.items()
    )
    return "".join(lines)


def comma_list(items: Iterable[Any]) -> str:
    """Join with commas."""
    return ", ".join(str(item) for item in items)


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun: `1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def sanitize_for_postgres(text: str, replacement: str = "") -> str:
    """Replace the NUL characters that PostgreSQL does not store."""
    return text.replace("\x00", replacement)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for a word at most two letters away from a known one, else an empty text."""
    match = nearest(word, known)
    return f" (did you mean {match!r}?)" if match else ""
