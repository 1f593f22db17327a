"""Why a message ended: the words of the field, in ours. Providers have tables of their own; this is for the rest."""

from __future__ import annotations

from typing import Final

from foldline.protocol.events import FINISH_REASONS, FinishReason

REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end": "stop",
    "complete": "stop",
    "completed": "stop",
    "finished": "stop",
    "done": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "max_length": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "incomplete": "length",
    "tool_calls": "tool_use",
    "tool_call": "tool_use",
    "function_call": "tool_use",
    "safety": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "pause_turn": "pause",
    "failed": "error",
    "malformed_function_call": "error",
}


def normalize_finish_reason(raw: str | None) -> FinishReason | None:
    """Give our word for a provider's; a word nobody knows is `unknown`, silence stays silence."""
    if not raw:
        return None
    word = str(raw).strip().lower().replace("-", "_")
    if word in FINISH_REASONS:
        return word  # type: ignore[return-value]
    return REASONS.get(word, "unknown")
