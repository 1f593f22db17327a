"""The shapes of events, deltas and blocks as tables, for the grammar check: which fields, of which types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeGuard, assert_never

from foldline.protocol.blocks import BLOCK_KINDS, BlockKind
from foldline.protocol.events import (
    DELTA_KINDS,
    EVENT_KINDS,
    FINISH_REASONS,
    ROLES,
    DeltaKind,
    EventKind,
)
from foldline.utils.json import has_surrogates

Test: TypeAlias = Callable[[Any], bool]
Shape: TypeAlias = dict[str, tuple[Test, str]]
"""Field -> (its test, a noun for the expected type). A name that ends in `?` is optional."""


def is_text(value: object) -> bool:
    """Return whether a value is text."""
    return isinstance(value, str)


def is_count(value: object) -> TypeGuard[int]:
    """Return whether a value is a count of something."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a dict."""
    return isinstance(value, dict)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_flat(value: object) -> bool:
    return isinstance(value, dict) and not any(
        isinstance(item, (dict, list, tuple)) for item in value.values()
    )


def _is_usage(value: object) -> bool:
    return isinstance(value, dict) and all(
        is_count(value[name]) for name in value if name.endswith("_tokens")
    )


def _is_anything(value: object) -> bool:
    return True


TEXT: Final = (is_text, "text")
TEXT_OR_NONE: Final = (_is_text_or_none, "text or null")
DICT: Final = (is_dict, "a dict")
DICT_OR_NONE: Final = (lambda value: value is None or isinstance(value, dict), "a dict or null")
LIST: Final = (lambda value: isinstance(value, list), "a list")


def _event_shape(kind: EventKind) -> Shape:
    match kind:
        case "message-start":
            return {
                "role": (lambda value: value in ROLES, f"one of {sorted(ROLES)}"),
                "id": TEXT,
                "metadata?": (_is_flat, "a dict of scalars"),
            }
        case "content-block-start" | "content-block-finish":
            return {"index": (_is_anything, "a number"), "content": DICT}
        case "content-block-delta":
            return {"index": (_is_anything, "a number"), "delta": DICT}
        case "message-finish":
            return {
                "usage?": (_is_usage, "a dict of counts"),
                "metadata?": DICT,
                "finish_reason?": (
                    lambda value: value in FINISH_REASONS,
                    f"one of {sorted(FINISH_REASONS)}",
                ),
                "additional_kwargs?": DICT,
            }
        case "message-reset":
            return {
                "id": TEXT,
                "attempt": (lambda value: type(value) is int, "a number"),
                "reason": TEXT,
            }
        case "error":
            return {
                "message": TEXT,
                "code?": TEXT,
                "retryable?": (lambda value: isinstance(value, bool), "true or false"),
            }
        case _:
            assert_never(kind)


def _delta_shape(kind: DeltaKind) -> Shape:
    match kind:
        case "text-delta":
            return {"text": TEXT}
        case "reasoning-delta":
            return {"reasoning": TEXT}
        case "refusal-delta":
            return {"refusal": TEXT}
        case "data-delta":
            return {"data": TEXT, "encoding?": TEXT}
        case "tool-call-delta":
            return {"args": TEXT}
        case "block-delta":
            return {"fields": DICT}
        case _:
            assert_never(kind)


COMMON: Final[Shape] = {"id?": TEXT_OR_NONE, "extras?": DICT_OR_NONE}
MEDIA: Final[Shape] = {"url?": TEXT, "base64?": TEXT, "file_id?": TEXT, "mime_type?": TEXT}


def _block_shape(kind: BlockKind) -> Shape:  # noqa: C901, PLR0911  one case per block
    match kind:
        case "text":
            return {"text": TEXT, "annotations?": LIST}
        case "reasoning":
            return {"reasoning?": TEXT}
        case "refusal":
            return {"refusal": TEXT}
        case "tool_call_chunk" | "server_tool_call_chunk":
            return {"name?": TEXT_OR_NONE, "args?": TEXT_OR_NONE}
        case "tool_call" | "server_tool_call":
            return {"id": TEXT_OR_NONE, "name": TEXT, "args": DICT}
        case "invalid_tool_call":
            return {"name?": TEXT_OR_NONE, "args?": TEXT_OR_NONE, "error?": TEXT_OR_NONE}
        case "server_tool_result":
            outcome = (lambda value: value in ("success", "error"), "'success' or 'error'")
            return {"tool_call_id": TEXT, "status": outcome}
        case "text-plain":
            return {**MEDIA, "text?": TEXT, "title?": TEXT, "context?": TEXT}
        case "image" | "audio" | "video" | "file":
            return MEDIA
        case "non_standard":
            return {"value": DICT}
        case _:
            assert_never(kind)


def _legal_deltas(kind: BlockKind) -> frozenset[str]:
    match kind:
        case "text" | "reasoning" | "refusal":
            return frozenset({f"{kind}-delta"})
        case "tool_call_chunk" | "server_tool_call_chunk":
            return frozenset({"tool-call-delta"})
        case "text-plain":
            return frozenset({"text-delta", "data-delta"})
        case "image" | "audio" | "video" | "file":
            return frozenset({"data-delta"})
        case (
            "tool_call"
            | "server_tool_call"
            | "invalid_tool_call"
            | "server_tool_result"
            | "non_standard"
        ):
            return frozenset()
        case _:
            assert_never(kind)


EVENT_SHAPES: Final[dict[str, Shape]] = {kind: _event_shape(kind) for kind in EVENT_KINDS}
DELTA_SHAPES: Final[dict[str, Shape]] = {kind: _delta_shape(kind) for kind in DELTA_KINDS}
BLOCK_SHAPES: Final[dict[str, Shape]] = {kind: _block_shape(kind) for kind in BLOCK_KINDS}
"""Blocks as a finish must have them; types that are not listed may have any fields."""

FINISH_FIELDS: Final = frozenset(
    {"args", "base64", "output", "value", "text", "refusal", "status", "id", "name"}
)
"""Fields that a start may leave to the finish."""

LEGAL_DELTAS: Final[dict[str, frozenset[str]]] = {kind: _legal_deltas(kind) for kind in BLOCK_KINDS}
"""The appending deltas that each type of block allows; `block-delta` is allowed for all."""

PROMOTIONS: Final[dict[str, frozenset[str]]] = {
    "tool_call_chunk": frozenset({"tool_call", "invalid_tool_call"}),
    "server_tool_call_chunk": frozenset({"server_tool_call", "invalid_tool_call"}),
}
"""The types a block may be finished as, where they differ from its own."""


def shape_problem(value: Mapping[str, Any], shape: Shape) -> str | None:
    """Return which field is missing or type_problem, if one is."""
    for name, (test, noun) in shape.items():
        field = name.rstrip("?")
        if field not in value:
            if name == field:
                return f"{field!r} is missing"
        elif not test(value[field]):
            return f"{field!r} is {value[field]!r:.60}, not {noun}"
    return None


def type_problem(block: Mapping[str, Any]) -> str | None:
    """Return which field of a block has the wrong type, if one does; missing and null fields pass."""
    shape = {**COMMON, **BLOCK_SHAPES.get(block["type"], {})}
    for name, (test, noun) in shape.items():
        value = block.get(name.rstrip("?"))
        if value is not None and not test(value):
            return f"{name.rstrip('?')!r} is {value!r:.60}, not {noun}"
    return None


def block_problem(block: Mapping[str, Any], *, is_start: bool) -> str | None:
    """Return what is wrong with a block's fields, if anything; a start may leave fields to the finish."""
    kind = block.get("type")
    if not isinstance(kind, str):
        return f"'type' is {kind!r:.60}, not text"
    shape = {**COMMON, **BLOCK_SHAPES.get(kind, {})}
    if is_start:
        shape = {
            f"{name}?" if name in FINISH_FIELDS else name: test for name, test in shape.items()
        }
    return shape_problem(block, shape)


def is_same_json(left: object, right: object) -> bool:
    """Return whether two values are the same JSON: `true` is not `1`, unlike in Python; `1.0` is `1`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        same_keys = left.keys() == right.keys()
        return same_keys and all(is_same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same_json, left, right))
    return bool(left == right)


def json_problem(value: object) -> str | None:
    """Return why a value is not JSON, if it is not."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if has_surrogates(text):
        return f"half a character in {text!r:.80}"
    pending: list[Any] = [value]
    while pending:  # json.dumps turns other keys into text, so they would not survive a round trip
        item = pending.pop()
        if isinstance(item, dict):
            bad_key = next((key for key in item if not isinstance(key, str)), None)
            if bad_key is not None:
                return f"a key that is not text: {bad_key!r:.60}"
            pending += item.values()
        elif isinstance(item, (list, tuple)):
            pending += item
    return None
