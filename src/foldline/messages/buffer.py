"""A conversation as one string, for text prompts: `Human: ...` lines, or XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from foldline.exceptions import LimitExceededError, UsageError
from foldline.messages._kinds import is_message_type
from foldline.messages._runnable_function import runnable_function
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessage
from foldline.messages.chat import ChatMessage

__all__ = ["get_buffer_string"]

CALL_KEYS = ("name", "args", "id", "type")


@runnable_function
def get_buffer_string(
    messages: Sequence[BaseMessage],
    human_prefix: str = "Human",
    ai_prefix: str = "AI",
    *,
    system_prefix: str = "System",
    function_prefix: str = "Function",
    tool_prefix: str = "Tool",
    message_separator: str = "\n",
    format: Literal["prefix", "xml"] = "prefix",
) -> str:
    """Return messages as one string."""
    prefixes = {
        "human": human_prefix,
        "ai": ai_prefix,
        "system": system_prefix,
        "function": function_prefix,
        "tool": tool_prefix,
    }
    if format not in ("prefix", "xml"):
        raise UsageError(f"Unrecognized format={format!r}: write 'prefix' or 'xml'")
    write = _as_line
    if format == "xml":
        from foldline.messages._buffer_xml import as_xml as write  # noqa: PLC0415  few programs need it
    try:
        return message_separator.join(
            write(message, _speaker(message, prefixes)) for message in messages
        )
    except RecursionError:
        raise LimitExceededError("a value is nested too deep to be written as text") from None


def _speaker(message: BaseMessage, prefixes: dict[str, str]) -> str:
    if isinstance(message, ChatMessage):
        return message.role
    for kind, prefix in prefixes.items():
        if is_message_type(message, kind):
            return prefix
    raise UsageError(f"a {type(message).__name__} says nothing that could be written")


def _as_line(message: BaseMessage, speaker: str) -> str:
    line = f"{speaker}: {message.text}"
    if isinstance(message, AIMessage):
        if message.tool_calls:
            calls = [{key: dict(call).get(key) for key in CALL_KEYS} for call in message.tool_calls]
            return f"{line}{calls}"
        if function_call := message.additional_kwargs.get("function_call"):
            return f"{line}{function_call}"
    return line
