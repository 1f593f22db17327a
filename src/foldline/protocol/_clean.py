"""Copies values as JSON; values that are not JSON are converted."""

from __future__ import annotations

import math
from typing import Any, Final

from foldline.exceptions import LimitExceededError
from foldline.utils.json import MAX_DEPTH, mend_surrogates, to_jsonable

_SCALARS: Final = (bool, int, type(None))


def clean_json(value: object, depth: int = 0) -> Any:  # noqa: ANN401  the same JSON type as its argument
    """Copy a value as JSON: tuples become lists, objects their text, NaN its name; too deep is an error."""
    if isinstance(value, str):
        return mend_surrogates(str(value))
    if type(value) in _SCALARS or (type(value) is float and math.isfinite(value)):
        return value
    if depth > MAX_DEPTH:
        raise LimitExceededError(
            f"a value is nested deeper than {MAX_DEPTH} levels (or contains itself)"
        )
    if isinstance(value, dict):
        return {_key(key): clean_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean_json(item, depth + 1) for item in value]
    return to_jsonable(value, max_depth=max(1, MAX_DEPTH - depth))


def _key(key: object) -> str:
    return mend_surrogates(key) if isinstance(key, str) else str(key)
