"""Paths into a stored value: the texts that an index embeds. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from foldline._lazy import publish

__all__ = ["get_text_at_path"]

PART = r"\{[^{}]*\}|\[[^\[\]]*\]|[^.\[\]{}]+"
PARTS = re.compile(PART)
PATH = re.compile(rf"(?:(?:{PART})\.?)+")
ALL = ("*", "[*]")


def get_text_at_path(obj: object, path: str) -> list[str]:
    """Return the texts of a value at a path; nothing for a path that does not exist or is malformed.

    Paths: `$` (the value as JSON), `text`, `person.name`, `facts[0]`, `facts[-1]`, `facts[*].text`, `person.*`,
    `{title,person.name}` for several fields.
    """
    if path in ("", "$"):
        return [_text(obj, sort_keys=True)]
    texts = [item if isinstance(item, str) else _text(item) for item in _values(obj, path)]
    return [text for text in texts if text]


def _text(value: object, *, sort_keys: bool = False) -> str:
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(to_jsonable_python(plain), ensure_ascii=False, sort_keys=sort_keys)


def _values(value: object, path: str) -> list[Any]:
    """Return the values at a path that are not None."""
    if PATH.fullmatch(path) is None:
        return []
    values: list[Any] = [value]
    for part in PARTS.findall(path):
        values = [found for item in values for found in _values_at(item, part)]
    return [item for item in values if item is not None]


def _values_at(value: object, part: str) -> list[Any]:
    if part in ALL:
        if isinstance(value, list | tuple):
            return list(value)
        return list(value.values()) if isinstance(value, Mapping) else []
    if part.startswith("{"):
        return [found for name in part[1:-1].split(",") for found in _values(value, name.strip())]
    if part.startswith("["):
        try:
            return [value[int(part[1:-1])]] if isinstance(value, list | tuple) else []
        except (ValueError, IndexError):
            return []
    return [value[part]] if isinstance(value, Mapping) and part in value else []


publish("foldline.graph.store.base", get_text_at_path)
