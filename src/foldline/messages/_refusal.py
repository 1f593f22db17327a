"""Whether a message is a refusal, and the error for code that needs the answer which the model withheld."""

from __future__ import annotations

from typing import Any, cast

from foldline.exceptions import ModelRefusalError
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage

__all__ = ["has_refusal", "raise_if_refused", "refusal_error", "refusal_of", "text_and_refusal"]


def has_refusal(message: BaseMessage) -> bool:
    """Return whether a message, or a chunk of one, reports a refusal in its content or as its reason."""
    content = message.content
    if isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in content
    ):
        return True
    return bool(message.additional_kwargs.get("refusal")) or _reason(message) == "refusal"


def refusal_of(message: BaseMessage) -> dict[str, Any] | None:
    """Return the refusal of a message as a block, if it is one; without words of its own, its text is the words."""
    if not isinstance(message, AIMessage):
        return None
    blocks = cast("list[dict[str, Any]]", message.content_blocks)
    refusals = [block for block in blocks if block.get("type") == "refusal"]
    if refusals:
        return {**refusals[0], "refusal": " ".join(filter(None, (b["refusal"] for b in refusals)))}
    if _reason(message) == "refusal":
        return {"type": "refusal", "refusal": str(message.text)}
    return None


def text_and_refusal(message: BaseMessage) -> str:
    """Return the text of a message for a person, with the words of a refusal."""
    text, refusal = str(message.text), refusal_of(message)
    words = refusal["refusal"] if refusal is not None else ""
    return "\n".join(filter(None, (text, words if words != text else "")))


def refusal_error(message: BaseMessage) -> ModelRefusalError | None:
    """Return the error of a message that is a refusal; None for any other message."""
    refusal = refusal_of(message)
    if refusal is None:
        return None
    error = ModelRefusalError.from_refusal(refusal, raw_message=message)
    error.usage = getattr(message, "usage_metadata", None)
    error.llm_output = str(message.text)
    return error


def raise_if_refused(message: BaseMessage) -> None:
    """Raise `ModelRefusalError` if a message is a refusal."""
    error = refusal_error(message)
    if error is not None:
        raise error


def _reason(message: BaseMessage) -> str | None:
    return getattr(message, "finish_reason", None)
