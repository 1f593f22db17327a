"""Reasoning that vendors put beside the content: `reasoning_content` (DeepSeek), `reasoning` (Groq, OpenRouter)."""

from __future__ import annotations

from collections.abc import Mapping

from weft.messages.block_translators.common import Block
from weft.protocol.blocks import Json

__all__ = ["said_beside"]


def said_beside(kwargs: Mapping[str, Json], blocks: list[Block]) -> list[Block]:
    """Give reasoning blocks for what stands in `additional_kwargs` and not in the content."""
    if any(block.get("type") == "reasoning" for block in blocks):
        return []
    for key in ("reasoning_content", "reasoning"):
        said = kwargs.get(key)
        if isinstance(said, str) and said:
            return [{"type": "reasoning", "reasoning": said}]
    return []
