"""Types of the JSON that hosts of chat completions send. No field is required, because none is always present."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from foldline.providers._cost import read_cost


class FunctionDelta(TypedDict, total=False):
    """The name, or a slice of the arguments."""

    name: str | None
    arguments: str | None


class CustomDelta(TypedDict, total=False):
    """A call of a custom tool, which takes free text."""

    name: str | None
    input: str | None


class CallDelta(TypedDict, total=False):
    """A slice of a tool call."""

    index: int | None
    id: str | None
    type: str | None
    function: FunctionDelta | None
    custom: CustomDelta | None
    extra_content: Any


class AudioDelta(TypedDict, total=False):
    """A slice of an audio answer."""

    id: str
    data: str
    transcript: str
    expires_at: int


class Delta(TypedDict, total=False):
    """A slice of a choice; a complete message has the same fields."""

    role: str | None
    content: str | list[dict[str, Any]] | None
    refusal: str | None
    reasoning: str | None
    reasoning_content: str | None
    reasoning_details: list[dict[str, Any]] | None
    tool_calls: list[CallDelta] | None
    function_call: FunctionDelta | None
    audio: AudioDelta | None
    images: list[dict[str, Any]] | None
    annotations: list[dict[str, Any]] | None


class Choice(TypedDict, total=False):
    """One of several answers; `delta` in a stream, otherwise `message`."""

    index: int | None
    delta: Delta | None
    message: Delta | None
    finish_reason: str | None
    logprobs: dict[str, list[Any] | None] | None
    usage: dict[str, Any] | None
    error: Any


class Chunk(TypedDict, total=False):
    """A chunk of a stream, or an answer."""

    id: str
    model: str
    created: int
    object: str
    choices: list[Choice] | None
    usage: dict[str, Any] | None
    service_tier: str | None
    system_fingerprint: str | None
    error: Any


READ_FIELDS = frozenset(
    {"id", "object", "created", "choices", "usage", "model", "obfuscation", "error"}
)
"""Fields of a chunk that are read or dropped; all others are kept as response metadata."""
LATE_FIELDS = ("service_tier", "system_fingerprint")
"""Fields of a chunk that may be null at first."""
REPEATED_FIELDS = READ_FIELDS | {*LATE_FIELDS}
"""Fields that every chunk of a stream repeats; they are read once."""
DELTA_FIELDS = frozenset(Delta.__annotations__)
"""Fields of a delta that are blocks; all others are kept in `additional_kwargs`."""
CHOICE_FIELDS = frozenset(Choice.__annotations__)
"""Fields of a choice that are read; all others are kept as response metadata."""
TEXT_FIELDS = frozenset({"role", "content"})
"""Fields of a delta that is only text."""
FINISH_REASONS = {"function_call": "tool_use", "eos": "stop", "model_length": "length"}
"""Finish reasons of hosts -> ours; those not listed are the same."""
COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
PROMPT_DETAILS = {
    "audio_tokens": "audio",
    "cached_tokens": "cache_read",
    "cache_write_tokens": "cache_creation",
}
"""Names of prompt token details -> ours; others are kept, unless 0."""
CACHED_TOKENS_FIELDS = ("prompt_cache_hit_tokens", "cached_tokens")
"""Fields for cached tokens of hosts that differ from OpenAI: DeepSeek, Moonshot."""


def is_plain(delta: Delta) -> bool:
    """Whether a delta is only text; complete answers also contain null fields (`"refusal": null`)."""
    if delta.keys() <= TEXT_FIELDS:
        return True
    if not delta.keys() <= DELTA_FIELDS:
        return False
    for name, value in delta.items():  # noqa: SIM110  `any` is slower
        if value and name not in TEXT_FIELDS:
            return False
    return True


def decode_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Return a host's counts under our names; details without one keep theirs."""
    counts = _totals(usage)
    if usage.keys() <= COUNTS:
        return counts
    details = _details(usage.get("prompt_tokens_details"), PROMPT_DETAILS)
    for name in CACHED_TOKENS_FIELDS:
        if "cache_read" not in details and isinstance(usage.get(name), int):
            details["cache_read"] = usage[name]
    if details:
        counts["input_token_details"] = details
    names = {"audio_tokens": "audio", "reasoning_tokens": "reasoning"}
    details = _details(usage.get("completion_tokens_details"), names)
    if "reasoning" not in details and isinstance(usage.get("reasoning_tokens"), int):
        details["reasoning"] = usage["reasoning_tokens"]
    if details:
        counts["output_token_details"] = details
    if (cost := read_cost(usage)) is not None:
        counts["total_cost"] = cost
    return counts


def _totals(usage: dict[str, Any]) -> dict[str, Any]:
    input_tokens, output_tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    total = usage.get("total_tokens")
    if total is None and isinstance(input_tokens, int) and isinstance(output_tokens, int):
        total = input_tokens + output_tokens
    counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "total_tokens": total}
    if None in (input_tokens, output_tokens, total):
        return {name: count for name, count in counts.items() if count is not None}
    return counts


def _details(details: object, names: dict[str, str]) -> dict[str, Any]:
    if not isinstance(details, dict):
        return {}
    counts = {
        ours: details[name] for name, ours in names.items() if isinstance(details.get(name), int)
    }
    for name, count in details.items():
        if name not in names and count and isinstance(count, int):
            counts[str(name)] = count
    return counts
