"""A real llama.cpp HTTP server on loopback (SmolLM2, from the `xllamacpp` wheel): a vendor's server in the tests.

It answers `/v1/chat/completions`, `/v1/responses` and `/v1/messages`, streamed and not. Import `llama` in a conftest,
or name this module in `pytest_plugins`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from foldline.providers.local._prompt_state import PromptState, state_folder
from foldline.providers.local._template import tools_template
from foldline.providers.local.fetch import model_path
from foldline.providers.local.runtime import LocalRuntime, RuntimeSettings


@dataclass(frozen=True)
class LlamaServer:
    """Where it listens, and with what key."""

    base_url: str
    """Without `/v1`: add it for OpenAI's wire, leave it for Anthropic's."""
    api_key: str
    model: str
    runtime: LocalRuntime

    @property
    def openai_url(self) -> str:
        return f"{self.base_url}/v1"


WARM_UP = {
    "messages": [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "What is the weather in Paris?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get the weather of a city.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ],
}
"""Its beginning is read from disk: the first call with tools and this system message does not take ten seconds."""


@pytest.fixture(scope="session")
def llama() -> LlamaServer:
    settings = RuntimeSettings(template=tools_template(), state_folder=state_folder())
    runtime = LocalRuntime.of(model_path(), settings)
    PromptState(runtime).prepare(WARM_UP)
    return LlamaServer(runtime.address, runtime.api_key, runtime.name, runtime)
