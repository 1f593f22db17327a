"""One server that is OpenAI, Anthropic and Gemini; the vendors' own clients read it too.

A request whose prompt has the word "missing", "expired" or "refuse" is treated as the word says.
"""

from __future__ import annotations

from tests.batches.stub_anthropic import AnthropicStub
from tests.batches.stub_google import GoogleStub
from tests.batches.stub_openai import OpenAIStub


class BatchStub(OpenAIStub, AnthropicStub, GoogleStub):
    """All three batch APIs."""

    ROUTES = (
        *OpenAIStub.OPENAI_ROUTES,
        *AnthropicStub.ANTHROPIC_ROUTES,
        *GoogleStub.GOOGLE_ROUTES,
    )
