"""Blocks as Groq writes them: chat completions; reasoning and the tools it ran stand beside them (see `beside`)."""

from __future__ import annotations

from foldline.messages.block_translators.openai import (
    translate,
    translate_content,
    translate_content_chunk,
)

__all__ = ["translate", "translate_content", "translate_content_chunk"]
