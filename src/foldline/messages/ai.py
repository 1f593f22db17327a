"""`AIMessage`, `AIMessageChunk` and usage, under LangChain's path."""

from __future__ import annotations

from foldline.messages.ai_chunk import AIMessageChunk, add_ai_message_chunks
from foldline.messages.ai_message import LC_AUTO_PREFIX, LC_ID_PREFIX, AIMessage
from foldline.messages.usage import (
    InputTokenDetails,
    OutputTokenDetails,
    UsageMetadata,
    add_usage,
    subtract_usage,
)

__all__ = [
    "LC_AUTO_PREFIX",
    "LC_ID_PREFIX",
    "AIMessage",
    "AIMessageChunk",
    "InputTokenDetails",
    "OutputTokenDetails",
    "UsageMetadata",
    "add_ai_message_chunks",
    "add_usage",
    "subtract_usage",
]
