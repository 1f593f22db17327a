"""`llm_output`: the provider's output of a result, with counts under the names that cost handlers read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldline.messages import AIMessage
from foldline.outputs import ChatResult

__all__ = ["combine_llm_outputs", "llm_output_of"]


METADATA_KEYS = ("model_name", "model_provider", "system_fingerprint", "service_tier")
COUNTS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}


def llm_output_of(result: ChatResult) -> dict[str, Any] | None:
    """Return the author's `llm_output`, else one made of the message; None if there is nothing to report."""
    message = result.generations[0].message
    if result.llm_output or not isinstance(message, AIMessage):
        return result.llm_output
    metadata = message.response_metadata
    if not metadata and message.usage_metadata is None:
        return result.llm_output
    output = {key: metadata[key] for key in METADATA_KEYS if metadata.get(key)}
    if usage := _token_usage(message):
        output["token_usage"] = usage
    return output or result.llm_output


def _token_usage(message: AIMessage) -> dict[str, Any]:
    usage = message.usage_metadata
    raw_usage = message.response_metadata.get("token_usage")
    raw_usage = raw_usage if isinstance(raw_usage, dict) else {}
    return {
        **({} if usage is None else {key: usage.get(name, 0) for key, name in COUNTS.items()}),
        **{key: value for key, value in raw_usage.items() if value is not None},
    }


def combine_llm_outputs(outputs: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Add the counts of several results; of other values the first stays."""
    combined: dict[str, Any] = {}
    for output in outputs:
        for key, value in (output or {}).items():
            if key == "token_usage" and isinstance(value, dict):
                combined[key] = _add_counts(combined.get(key, {}), value)
            else:
                combined.setdefault(key, value)
    return combined


def _add_counts(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    total = dict(left)
    for key, value in right.items():
        old_value = total.get(key)
        if isinstance(value, dict):
            total[key] = _add_counts(old_value if isinstance(old_value, dict) else {}, value)
        elif isinstance(value, int | float) and isinstance(old_value, int | float):
            total[key] = old_value + value
        elif old_value is None:
            total[key] = value
    return total
