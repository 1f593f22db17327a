"""The most used part of jq's language: keys, indexes, `[]` and `|`. Other expressions need the `jq` package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from foldline.exceptions import MissingExtraError, UsageError

__all__ = ["select"]

PathStep: TypeAlias = str | int | None
"""A key, an index, or None for all items of a list."""
STEP = re.compile(
    r"""\.?\[(?P<place>-?\d+)\]|\.?\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\.?(?P<each>\[\])"""
    r"""|\.(?P<key>[A-Za-z_]\w*)|\.(?P<quoted_key>"(?:[^"\\]|\\.)*")"""
)


def select(expression: str, value: Any) -> Iterator[Any]:  # noqa: ANN401  JSON
    """Yield the values that an expression selects."""
    steps = _steps(expression)
    if steps is None:
        yield from _by_jq(expression, value)
        return
    values = iter([value])
    for step in steps:
        values = _follow(values, step, expression)
    yield from values


def _steps(expression: str) -> list[PathStep] | None:
    """Return the steps of an expression; None where it needs the `jq` package."""
    steps: list[PathStep] = []
    for part in expression.split("|"):
        text = part.strip()
        at = 0
        while at < len(text) and text != ".":
            match = STEP.match(text, at)
            if match is None or (at == 0 and not text.startswith(".")):
                return None
            steps.append(_step(match))
            at = match.end()
        if not text:
            return None
    return steps


def _step(match: re.Match[str]) -> PathStep:
    if match["each"]:
        return None
    if match["place"]:
        return int(match["place"])
    quoted = match["quoted"] or match["quoted_key"]
    return str(json.loads(quoted)) if quoted else match["key"]


def _follow(values: Iterator[Any], step: PathStep, expression: str) -> Iterator[Any]:
    for value in values:
        if step is None:
            if not isinstance(value, list | dict):
                raise ValueError(f"{expression}: [] needs a list, not {_kind(value)}")
            yield from value.values() if isinstance(value, dict) else value
        elif isinstance(step, str):
            if value is not None and not isinstance(value, dict):
                raise ValueError(f"{expression}: .{step} needs an object, not {_kind(value)}")
            yield (value or {}).get(step)
        else:
            if value is not None and not isinstance(value, list):
                raise ValueError(f"{expression}: [{step}] needs a list, not {_kind(value)}")
            length = len(value or ())
            yield (value or ())[step] if -length <= step < length else None


def _kind(value: Any) -> str:  # noqa: ANN401  JSON
    kinds = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _by_jq(expression: str, value: Any) -> Iterator[Any]:  # noqa: ANN401  JSON
    try:
        import jq  # noqa: PLC0415  optional
    except ImportError:
        raise MissingExtraError(
            f"{expression!r} has more than keys, indexes, [] and |, and needs the jq package: pip install jq"
        ) from None
    try:
        yield from jq.compile(expression).input_value(value)
    except ValueError as error:
        raise UsageError(f"jq does not take {expression!r}: {error}") from error
