"""Estimates tokens where no model counts them: four characters are a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from foldline.messages import BaseMessage
from foldline.prices import cost_of
from foldline.serve.apps import ServedApp

__all__ = ["CHARACTERS_PER_TOKEN", "count_characters", "estimate_embeddings"]

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_OF_MEDIA: Final = 1_000


def estimate_embeddings(app: ServedApp, texts: Sequence[str]) -> tuple[int, float | None]:
    """Return the tokens of texts, and the dollars where prices are known."""
    tokens = sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)
    return tokens, cost_of({"input_tokens": tokens, "output_tokens": 0}, app.prices)


def count_characters(value: object) -> int:
    """Count the characters of an input; pictures and files count as a fixed number of tokens."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, BaseMessage):
        return count_characters(value.content) + 8
    if isinstance(value, dict):
        if "base64" in value or str(value.get("url", "")).startswith("data:"):
            return TOKENS_OF_MEDIA * CHARACTERS_PER_TOKEN
        return sum(count_characters(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(count_characters(item) for item in value)
    return 4
