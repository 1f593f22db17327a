"""Anthropic's messages API."""

from weft.providers.anthropic.chat import ChatAnthropic

__all__ = ["ChatAnthropic"]
