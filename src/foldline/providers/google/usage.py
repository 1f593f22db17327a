"""Gemini's counts of tokens -> ours. What is no count is left out: a mistake there must not cost the answer."""

from __future__ import annotations

from typing import Any

from foldline.providers.google.wire import UsageMetadata, dicts

__all__ = ["decode_usage", "grow_usage"]


def grow_usage(usage: dict[str, Any], new: dict[str, Any]) -> None:
    """Take newer running totals; what counts nothing takes no count back."""
    for name, value in new.items():
        if type(value) is int or (value is not None and type(usage.get(name)) is not int):
            usage[name] = value


def decode_usage(usage: UsageMetadata) -> dict[str, Any]:
    """Return the counts under our names: thoughts count as output, prompts of Gemini's own tools as input."""
    counts = {name: value for name, value in usage.items() if type(value) is int}
    told = _sums(counts)
    if "totalTokenCount" in counts:
        told["total_tokens"] = counts["totalTokenCount"]
    given, made = (
        _details(usage.get("promptTokensDetails")),
        _details(usage.get("candidatesTokensDetails")),
    )
    if "cachedContentTokenCount" in counts:
        given["cache_read"] = counts["cachedContentTokenCount"]
    if "thoughtsTokenCount" in counts:
        made["reasoning"] = counts["thoughtsTokenCount"]
    details = {"input_token_details": given, "output_token_details": made}
    return {**told, **{name: kinds for name, kinds in details.items() if kinds}}


def _sums(counts: dict[str, int]) -> dict[str, Any]:
    given = [counts.get("promptTokenCount"), counts.get("toolUsePromptTokenCount")]
    made = [counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount")]
    if all(count is None for count in (*given, *made)):
        return {}
    # A prompt that was blocked has no output to count.
    into, out = (sum(count or 0 for count in some) for some in (given, made))
    return {"input_tokens": into, "output_tokens": out, "total_tokens": into + out}


def _details(given: object) -> dict[str, Any]:
    """Count by modality; text is what is left, and not counted apart."""
    found = (
        (str(one.get("modality") or "").lower(), one.get("tokenCount")) for one in dicts(given)
    )
    return {kind: count for kind, count in found if kind and kind != "text" and type(count) is int}
