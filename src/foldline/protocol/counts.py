"""Counts of tokens, as providers report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from foldline.protocol.blocks import Json
from foldline.protocol.shapes import is_count
from foldline.utils.json import to_jsonable

__all__ = ["counts_of"]

TOTALS: Final = frozenset({"input_tokens", "output_tokens", "total_tokens"})
MOST_TOKENS: Final = 10**15
"""No message has more: a larger count is none."""


def counts_of(usage: Mapping[str, object]) -> dict[str, Json]:
    """Leave out counters that count nothing: a provider's mistake there must not cost the answer."""
    return dict(usage) if _is_all_totals(usage) else _sound(to_jsonable(usage))


def _is_all_totals(usage: Mapping[str, object]) -> bool:
    """Say whether usage is the three totals and nothing that needs looking at, as it mostly is."""
    if usage.keys() != TOTALS:
        return False
    for count in usage.values():  # noqa: SIM110  a frame for each
        if type(count) is not int or not 0 <= count < MOST_TOKENS:
            return False
    return True


def _sound(usage: dict[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, value in usage.items():
        if name.endswith("_token_details"):
            if isinstance(value, dict):
                found[name] = {key: one for key, one in value.items() if _is_count(one)}
        elif (
            (type(value) is int and 0 <= value < MOST_TOKENS)
            or not name.endswith("_tokens")
            or _is_count(value)
        ):
            found[name] = value
    return found


def _is_count(value: Json) -> bool:
    return (type(value) is int or is_count(value)) and 0 <= value < MOST_TOKENS
