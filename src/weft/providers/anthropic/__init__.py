"""Anthropic's messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.providers.anthropic.chat import ChatAnthropic
    from weft.providers.anthropic.encode import convert_to_anthropic_tool

__all__ = ["ChatAnthropic", "convert_to_anthropic_tool"]

__getattr__ = lazily(
    __name__,
    {
        ".chat": "ChatAnthropic",
        ".encode": "convert_to_anthropic_tool",
    },
)
