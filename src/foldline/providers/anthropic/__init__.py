"""Anthropic's messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.providers.anthropic.chat import ChatAnthropic
    from foldline.providers.anthropic.encode import convert_to_anthropic_tool
    from foldline.providers.anthropic.output_parsers import ToolsOutputParser
    from foldline.providers.anthropic.text import AnthropicLLM

__all__ = ["AnthropicLLM", "ChatAnthropic", "ToolsOutputParser", "convert_to_anthropic_tool"]

__getattr__: Loader = lazy_exports(
    __name__,
    {
        ".chat": "ChatAnthropic",
        ".encode": "convert_to_anthropic_tool",
        ".output_parsers": "ToolsOutputParser",
        ".text": "AnthropicLLM",
    },
)
