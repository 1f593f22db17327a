"""What a trace holds of `configurable`, which may hold tokens: chosen keys with JSON values, bounded."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["RECORDED_KEYS", "record_config"]

RECORDED_KEYS = ("thread_id", "checkpoint_id", "checkpoint_ns")
MOST_BYTES = 4_096
"""Of the JSON of all recorded keys."""


def record_config(configurable: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return the values of chosen keys; one that is no JSON, or for which there is no room, is left out."""
    config: dict[str, Any] = {}
    size = 2
    for key in keys:
        value = configurable.get(key)
        if value is None or key in config:
            continue
        if type(value) is not str and key == "thread_id":
            value = str(value)  # as checkpointers know it: it may be a number or a UUID
        text = _json(value)
        if text is None:
            continue
        size += len(text) + len(json.dumps(key)) + 4
        if size > MOST_BYTES:
            break
        config[key] = value
    return config


def _json(value: object) -> str | None:
    """Return the JSON of a value that is equal to it when it is read; None where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        text = json.dumps(value, allow_nan=False)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None
