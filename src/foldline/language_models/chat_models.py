"""`BaseChatModel`, `SimpleChatModel` and helpers for their authors, under LangChain's path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from foldline.exceptions import UsageError
from foldline.language_models.base_chat_model import BaseChatModel
from foldline.language_models.simple import SimpleChatModel
from foldline.messages import message_chunk_to_message
from foldline.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    ChatResult,
    merge_chat_generation_chunks,
)

__all__ = ["BaseChatModel", "SimpleChatModel", "agenerate_from_stream", "generate_from_stream"]


def generate_from_stream(stream: Iterator[ChatGenerationChunk]) -> ChatResult:
    """Return the sum of an author's chunks: `_generate` for a model that only streams."""
    return _add_chunks(list(stream))


async def agenerate_from_stream(stream: AsyncIterator[ChatGenerationChunk]) -> ChatResult:
    """Return the sum of an author's chunks: `_agenerate` for a model that only streams."""
    return _add_chunks([chunk async for chunk in stream])


def _add_chunks(chunks: list[ChatGenerationChunk]) -> ChatResult:
    total = merge_chat_generation_chunks(chunks)
    if total is None:
        raise UsageError("the stream yielded no chunk at all")
    message = message_chunk_to_message(total.message)
    return ChatResult(
        generations=[ChatGeneration(message=message, generation_info=total.generation_info)]
    )
