"""Estimates the tokens and the cost of a request: four characters are a token, and the answer is as long as allowed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from foldline.messages import BaseMessage
from foldline.prices import cost_of
from foldline.serve.apps import RunRequest, ServedApp

__all__ = ["Estimate"]

CHARACTERS_PER_TOKEN: Final = 4
TOKENS_OF_MEDIA: Final = 1_000
USUAL_ANSWER: Final = 500
"""Tokens of an answer where the request sets no maximum."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens, and dollars where prices are known."""

    tokens: float
    cost: float | None

    @classmethod
    def of(cls, app: ServedApp, request: RunRequest) -> Estimate:
        """Estimate the usage of a run."""
        length = _length(request.input) + len(json.dumps(request.options.get("tools") or []))
        input_tokens = length / CHARACTERS_PER_TOKEN
        longest = request.options.get("max_tokens")
        answer = longest if isinstance(longest, int) and longest > 0 else USUAL_ANSWER
        usage = {"input_tokens": int(input_tokens), "output_tokens": int(answer)}
        return cls(input_tokens + answer, cost_of(usage, app.prices))


def _length(value: object) -> int:
    """Count the characters of an input; pictures and files count as a fixed number of tokens."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, BaseMessage):
        return _length(value.content) + 8
    if isinstance(value, dict):
        if "base64" in value or str(value.get("url", "")).startswith("data:"):
            return TOKENS_OF_MEDIA * CHARACTERS_PER_TOKEN
        return sum(_length(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(_length(item) for item in value)
    return 4
