"""Refusals that a provider reports by its finish reason instead of in the content. Pure.

Decoders and `content_blocks` read the same metadata, so that stored messages and new ones have the same block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from foldline.messages.block_translators._common import Block

__all__ = ["refusal_of_metadata", "refusal_of_value"]

REASON_KEYS: Final = ("stop_reason", "finish_reason", "stopReason")
"""Where providers' finish reasons are: Anthropic's; Gemini's and chat completions'; Converse's."""
REFUSAL_REASONS: Final = frozenset(
    {"refusal", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "content_filtered"}
)
"""Reasons of answers that were refused, whatever came before."""
FILTER_REASONS: Final = frozenset(
    {
        "content_filter", "guardrail_intervened", "RECITATION", "SPII", "LANGUAGE", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "JAILBREAK",
    }
)  # fmt: skip
"""Reasons of answers that a filter changed or cut: a refusal only if nothing is left of them."""


def refusal_of_metadata(metadata: Mapping[str, Any], *, has_content: bool) -> Block | None:
    """Return the refusal that response metadata reports, if it does; `extras` have the provider's reason."""
    feedback = metadata.get("prompt_feedback")
    if isinstance(feedback, dict):
        blocked = feedback.get("blockReason") or feedback.get("block_reason")
        if blocked and blocked != "BLOCKED_REASON_UNSPECIFIED":
            return _refusal(metadata, "block_reason", blocked)
    for key in REASON_KEYS:
        reason = metadata.get(key)
        if reason is None or not isinstance(reason, str):
            continue
        if reason in REFUSAL_REASONS or (reason in FILTER_REASONS and not has_content):
            return _refusal(metadata, key, reason)
    return None


def refusal_of_value(block: Block) -> Block | None:
    """Return a `non_standard` block that is OpenAI's refusal, as older messages have it, as a refusal."""
    value = block.get("value")
    if not isinstance(value, dict) or value.get("type") != "refusal":
        return None
    fields = {key: item for key, item in block.items() if key not in ("type", "value")}
    return {"type": "refusal", "refusal": _text(value.get("refusal")), **fields}


def _refusal(metadata: Mapping[str, Any], key: str, reason: object) -> Block:
    if reason == "refusal":  # Anthropic's
        details = metadata.get("stop_details")
        details = details if isinstance(details, dict) else {}
        text, extras = details.get("explanation"), {"category": details.get("category")}
    else:
        name = "stop_reason" if key == "stopReason" else key
        text, extras = metadata.get("finish_message"), {name: reason}
    extras = {name: value for name, value in extras.items() if value}
    return {"type": "refusal", "refusal": _text(text), **({"extras": extras} if extras else {})}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
