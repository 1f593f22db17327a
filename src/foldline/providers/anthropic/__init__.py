"""Anthropic's messages API."""

from __future__ import annotations

from foldline._lazy import lazy_exports

with lazy_exports(__name__):
    from foldline.providers.anthropic.chat import ChatAnthropic as ChatAnthropic
    from foldline.providers.anthropic.encode import (
        convert_to_anthropic_tool as convert_to_anthropic_tool,
    )
    from foldline.providers.anthropic.output_parsers import ToolsOutputParser as ToolsOutputParser
    from foldline.providers.anthropic.text import AnthropicLLM as AnthropicLLM
