"""What a message cost: `UsageMetadata`, and how two of them add or subtract.

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
    "add_request_usage",
    "add_usage",
    "subtract_usage",
]


@with_config(ConfigDict(extra="allow"))
class InputTokenDetails(TypedDict, total=False):
    """How the input tokens split; unknown keys of a provider are kept beside these."""

    audio: int
    cache_creation: int
    cache_read: int


@with_config(ConfigDict(extra="allow"))
class OutputTokenDetails(TypedDict, total=False):
    """How the output tokens split; unknown keys of a provider are kept beside these."""

    audio: int
    reasoning: int


COST = "total_cost"
"""What a request cost, where its provider says that; no count, so it is in no form of ours."""


@with_config(ConfigDict(extra="allow"))
class UsageMetadata(TypedDict):
    """Tokens of one message, the same words for every provider."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: NotRequired[InputTokenDetails]
    output_token_details: NotRequired[OutputTokenDetails]


def whole_usage(usage: Mapping[str, Any]) -> UsageMetadata:
    """Fill in the three totals where a provider left one out."""
    given = usage.get("input_tokens") or 0
    said = usage.get("output_tokens") or 0
    total = usage.get("total_tokens")
    if given and said and total is not None:
        return {**usage}  # type: ignore[typeddict-item]
    totals = {
        "input_tokens": given,
        "output_tokens": said,
        "total_tokens": given + said if total is None else total,
    }
    return cast("UsageMetadata", {**usage, **totals})


def add_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Sum two usages, details and unknown keys included; `None` counts as nothing."""
    return whole_usage(merge_usage(_counts(left), _counts(right)))


def add_request_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Sum the usages of two requests; a `total_cost` stays only where both of them say theirs."""
    sums = cast("dict[str, Any]", add_usage(left, right))
    if left and right and (COST in left) != (COST in right):
        sums.pop(COST, None)
    return cast("UsageMetadata", sums)


def subtract_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata:
    """Take the right usage from the left one; no count goes below zero."""
    return whole_usage(_less(_counts(left), _counts(right)))


def _less(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    rest = dict(left)
    for key, taken in right.items():
        if isinstance(taken, dict):
            rest[key] = _less(left.get(key) or {}, taken)
        elif isinstance(taken, int | float):
            rest[key] = max(0, (left.get(key) or 0) - taken)
    return rest


def _counts(usage: UsageMetadata | None) -> dict[str, Any]:
    return cast("dict[str, Any]", usage or {})
