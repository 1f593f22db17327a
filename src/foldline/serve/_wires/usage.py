"""Adds up the usage of the messages of a run, in the names of each model wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foldline.serve._json_object import JsonObject

__all__ = ["UsageTotal"]


@dataclass(slots=True)
class UsageTotal:
    """Tokens of all messages so far."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Input tokens that were read from a cache."""
    cache_written: int = 0
    reasoning: int = 0

    def add(self, usage: Mapping[str, Any]) -> None:
        """Add the usage of a message."""
        inputs = usage.get("input_token_details") or {}
        outputs = usage.get("output_token_details") or {}
        self.input += usage.get("input_tokens") or 0
        self.output += usage.get("output_tokens") or 0
        self.cached += inputs.get("cache_read") or 0
        self.cache_written += inputs.get("cache_creation") or 0
        self.reasoning += outputs.get("reasoning") or 0

    def add_total(self, other: UsageTotal) -> None:
        """Add the usage of another run."""
        self.input += other.input
        self.output += other.output
        self.cached += other.cached
        self.cache_written += other.cache_written
        self.reasoning += other.reasoning

    def as_completions(self) -> JsonObject:
        """Return the usage in the form of OpenAI's Chat Completions."""
        return {
            "prompt_tokens": self.input,
            "completion_tokens": self.output,
            "total_tokens": self.input + self.output,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }

    def as_responses(self) -> JsonObject:
        """Return the usage in the form of OpenAI's Responses."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "total_tokens": self.input + self.output,
            "input_tokens_details": {"cached_tokens": self.cached, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
        }

    def as_messages(self) -> dict[str, int]:
        """Return the usage in the form of Anthropic's Messages, whose input tokens exclude cached ones."""
        return {
            "input_tokens": max(0, self.input - self.cached - self.cache_written),
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cached,
            "cache_creation_input_tokens": self.cache_written,
        }
