"""Gemini's token counts -> ours. Invalid counts are ignored: they must not fail the answer."""

from __future__ import annotations

from typing import Any

from foldline.providers.google._wire import UsageMetadata, dicts

__all__ = [
    "decode_usage",
]


def grow_usage(usage: dict[str, Any], new: dict[str, Any]) -> None:
    """Update running totals; an invalid value does not replace a count."""
    for name, value in new.items():
        if type(value) is int or (value is not None and type(usage.get(name)) is not int):
            usage[name] = value


def decode_usage(usage: UsageMetadata) -> dict[str, Any]:
    """Return the counts under our names: thoughts count as output, prompts of server tools as input."""
    counts = {name: value for name, value in usage.items() if type(value) is int}
    totals = _sums(counts)
    if "totalTokenCount" in counts:
        totals["total_tokens"] = counts["totalTokenCount"]
    input_details, output_details = (
        _details(usage.get("promptTokensDetails")),
        _details(usage.get("candidatesTokensDetails")),
    )
    if "cachedContentTokenCount" in counts:
        input_details["cache_read"] = counts["cachedContentTokenCount"]
    if "thoughtsTokenCount" in counts:
        output_details["reasoning"] = counts["thoughtsTokenCount"]
    details = {"input_token_details": input_details, "output_token_details": output_details}
    return {
        **totals,
        **{name: counts_by_kind for name, counts_by_kind in details.items() if counts_by_kind},
    }


def _sums(counts: dict[str, int]) -> dict[str, Any]:
    inputs = [counts.get("promptTokenCount"), counts.get("toolUsePromptTokenCount")]
    outputs = [counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount")]
    if all(count is None for count in (*inputs, *outputs)):
        return {}
    # A prompt that was blocked has no output to count.
    input_tokens, output_tokens = (sum(count or 0 for count in side) for side in (inputs, outputs))
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }


def _details(details: object) -> dict[str, Any]:
    """Return the counts by modality, except text."""
    counts = (
        (str(detail.get("modality") or "").lower(), detail.get("tokenCount"))
        for detail in dicts(details)
    )
    return {kind: count for kind, count in counts if kind and kind != "text" and type(count) is int}
