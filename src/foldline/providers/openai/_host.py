"""OpenAI as a host of the chat-completions API."""

from __future__ import annotations

from foldline.providers._completions.host import Host

__all__ = ["OPENAI"]

OPENAI = Host(
    "openai",
    "https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    reasoning_field=None,
    max_tokens_field="max_completion_tokens",
    tells_nulls=True,
)
