"""`UsageMetadata`: the token counts of a message, and their addition and subtraction.

Unknown keys of a provider are kept and counted like the known ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, cast

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from foldline.protocol.merge import add_usage as merge_usage

__all__ = [
    "InputTokenDetails",
    "OutputTokenDetails",
    "UsageMetadata",
    "add_usage",
    "subtract_usage",
]


@with_config(ConfigDict(extra="allow"))
class InputTokenDetails(TypedDict, total=False):
    """How the input tokens split; a provider's unknown keys are kept."""

    audio: int
    cache_creation: int
    cache_read: int


@with_config(ConfigDict(extra="allow"))
class OutputTokenDetails(TypedDict, total=False):
    """How the output tokens split; a provider's unknown keys are kept."""

    audio: int
    reasoning: int


COST = "total_cost"
"""The cost of a request, if its provider reports it; not a count, so not part of `UsageMetadata`."""


@with_config(ConfigDict(extra="allow"))
class UsageMetadata(TypedDict):
    """Token counts of one message, with the same keys for every provider."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: NotRequired[InputTokenDetails]
    output_token_details: NotRequired[OutputTokenDetails]


def complete_usage(usage: Mapping[str, Any]) -> UsageMetadata:
    """Return a usage with all three totals; missing ones are computed."""
    input_tokens = usage.get("input_tokens") or 0
    output_tokens = usage.get("output_tokens") or 0
    total = usage.get("total_tokens")
    if input_tokens and output_tokens and total is not None:
        return {**usage}  # type: ignore[typeddict-item]
    totals = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens if total is None else total,
    }
    return cast("UsageMetadata", {**usage, **totals})


def add_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Return the sum of two usages, including details and unknown keys; `None` counts as zero."""
    return complete_usage(merge_usage(_counts(left), _counts(right)))


def add_request_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Return the sum of the usages of two requests; `total_cost` is kept only if both have it."""
    sums = cast("dict[str, Any]", add_usage(left, right))
    if left and right and (COST in left) != (COST in right):
        sums.pop(COST, None)
    return cast("UsageMetadata", sums)


def subtract_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Return the left usage minus the right one; no count is below zero."""
    return complete_usage(_subtract(_counts(left), _counts(right)))


def _subtract(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    difference = dict(left)
    for key, count in right.items():
        if isinstance(count, dict):
            difference[key] = _subtract(left.get(key) or {}, count)
        elif isinstance(count, int | float):
            difference[key] = max(0, (left.get(key) or 0) - count)
    return difference


def _counts(usage: UsageMetadata | None) -> dict[str, Any]:
    return cast("dict[str, Any]", usage or {})
