"""The JSON of chat completions, as types: what hosts send. Nothing is required, for no field always comes."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from foldline.providers._cost import read_cost


class FunctionDelta(TypedDict, total=False):
    """Name, or a slice of the arguments."""

    name: str | None
    arguments: str | None


class CustomDelta(TypedDict, total=False):
    """A tool that takes free text."""

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
    """A slice of spoken answer."""

    id: str
    data: str
    transcript: str
    expires_at: int


class Delta(TypedDict, total=False):
    """What a choice says now; a whole message has the same fields."""

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
    """One of the answers; `message` in a whole answer, `delta` in a stream."""

    index: int | None
    delta: Delta | None
    message: Delta | None
    finish_reason: str | None
    logprobs: dict[str, list[Any] | None] | None
    usage: dict[str, Any] | None
    error: Any


class Chunk(TypedDict, total=False):
    """A chunk of a stream, or a whole answer."""

    id: str
    model: str
    created: int
    object: str
    choices: list[Choice] | None
    usage: dict[str, Any] | None
    service_tier: str | None
    system_fingerprint: str | None
    error: Any


HEAD = frozenset({"id", "object", "created", "choices", "usage", "model", "obfuscation", "error"})
"""Fields of a chunk that are read, or say nothing that a program needs; all others are kept as response metadata."""
LATE = ("service_tier", "system_fingerprint")
"""Fields of a chunk that may be null at first."""
ROUTINE = HEAD | {*LATE}
"""Fields that every chunk of a stream repeats; read once."""
DELTA_FIELDS = frozenset(Delta.__annotations__)
"""Fields of a delta that are blocks; all others are kept in `additional_kwargs`."""
CHOICE_FIELDS = frozenset(Choice.__annotations__)
"""Fields of a choice that are read; all others are kept as response metadata."""
TEXT_FIELDS = frozenset({"role", "content"})
"""Fields of a delta that is text and nothing else."""
REASONS = {"function_call": "tool_use", "eos": "stop", "model_length": "length"}
"""Hosts' words for why they stopped that mean something else elsewhere, or nothing."""
COUNTS = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
PROMPT_DETAILS = {
    "audio_tokens": "audio",
    "cached_tokens": "cache_read",
    "cache_write_tokens": "cache_creation",
}
"""Names of what a prompt is made of -> ours; those that are not here keep theirs, where they count something."""
CACHED = ("prompt_cache_hit_tokens", "cached_tokens")
"""Where hosts outside OpenAI's form count cached tokens: DeepSeek, Moonshot."""


def is_plain(delta: Delta) -> bool:
    """Say whether text is all there is; a whole answer names what it does not say, too: `"refusal": null`."""
    if delta.keys() <= TEXT_FIELDS:
        return True
    if not delta.keys() <= DELTA_FIELDS:
        return False
    for name, value in delta.items():  # noqa: SIM110  a frame for each field
        if value and name not in TEXT_FIELDS:
            return False
    return True


def decode_usage(usage: dict[str, Any]) -> dict[str, Any]:
    """Return a host's counts under our names; details that have no name here keep theirs."""
    told = _totals(usage)
    if usage.keys() <= COUNTS:
        return told
    details = _details(usage.get("prompt_tokens_details"), PROMPT_DETAILS)
    for name in CACHED:
        if "cache_read" not in details and isinstance(usage.get(name), int):
            details["cache_read"] = usage[name]
    if details:
        told["input_token_details"] = details
    names = {"audio_tokens": "audio", "reasoning_tokens": "reasoning"}
    details = _details(usage.get("completion_tokens_details"), names)
    if "reasoning" not in details and isinstance(usage.get("reasoning_tokens"), int):
        details["reasoning"] = usage["reasoning_tokens"]
    if details:
        told["output_token_details"] = details
    if (cost := read_cost(usage)) is not None:
        told["total_cost"] = cost
    return told


def _totals(usage: dict[str, Any]) -> dict[str, Any]:
    given, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
    total = usage.get("total_tokens")
    if total is None and isinstance(given, int) and isinstance(made, int):
        total = given + made
    counts = {"input_tokens": given, "output_tokens": made, "total_tokens": total}
    if None in (given, made, total):
        return {name: count for name, count in counts.items() if count is not None}
    return counts


def _details(given: object, names: dict[str, str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        return {}
    details = {
        ours: given[name] for name, ours in names.items() if isinstance(given.get(name), int)
    }
    for name, count in given.items():
        if name not in names and count and isinstance(count, int):
            details[str(name)] = count
    return details
