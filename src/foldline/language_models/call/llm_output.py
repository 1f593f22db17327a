"""`llm_output`: what a result says of its provider, with the counts under the names that cost handlers read. Pure."""

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
    """Return what the author said in `llm_output`, else what the message knows; None where nothing is known."""
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
    sent = message.response_metadata.get("token_usage")
    sent = sent if isinstance(sent, dict) else {}
    return {
        **({} if usage is None else {key: usage.get(name, 0) for key, name in COUNTS.items()}),
        **{key: value for key, value in sent.items() if value is not None},
    }


def combine_llm_outputs(outputs: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """Add the counts of several results; of anything else the first value stays."""
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
        before = total.get(key)
        if isinstance(value, dict):
            total[key] = _add_counts(before if isinstance(before, dict) else {}, value)
        elif isinstance(value, int | float) and isinstance(before, int | float):
            total[key] = before + value
        elif before is None:
            total[key] = value
    return total
