"""Anthropic's messages API."""

from weft.providers.anthropic.chat import ChatAnthropic
from weft.providers.anthropic.encode import convert_to_anthropic_tool

__all__ = ["ChatAnthropic", "convert_to_anthropic_tool"]
