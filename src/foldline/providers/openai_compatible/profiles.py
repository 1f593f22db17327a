"""What the models of each host can do, as far as the host decides it: made from the rows of `HOSTS`, and a few more."""

from __future__ import annotations

from typing import Any, Final, cast

from foldline.language_models.profile import ModelProfile
from foldline.providers._completions.host import Host
from foldline.providers.openai_compatible.hosts import HOSTS

__all__ = ["PROFILES"]

Rows = dict[str, dict[str, Any]]


def _knows(
    context: int | None = None, *, thinks: bool = False, sees: bool = False
) -> dict[str, Any]:
    """Say what is known of a family: what is not known is left out."""
    known: dict[str, Any] = {} if context is None else {"max_input_tokens": context}
    if thinks:
        known["reasoning_output"] = True
    return {**known, "image_inputs": True} if sees else known


ON_YOUR_MACHINE: Final[Rows] = {
    "deepseek-r1": _knows(thinks=True),
    "gemma3": _knows(sees=True),
    "gpt-oss": _knows(thinks=True),
    "llama3.2-vision": _knows(sees=True),
    "llama4": _knows(sees=True),
    "llava": _knows(sees=True),
    "magistral": _knows(thinks=True),
    "mistral-small3": _knows(sees=True),
    "qwen2.5vl": _knows(sees=True),
    "qwen3": _knows(thinks=True),
    "qwen3-vl": _knows(thinks=True, sees=True),
    "qwq": _knows(thinks=True),
}
"""Open models under the names that Ollama gives them. How long a prompt may be is set where the server is started."""
FAMILIES: Final[dict[str, Rows]] = {
    "deepseek": {
        "deepseek-chat": {**_knows(131_072), "reasoning_output": False},
        "deepseek-reasoner": {**_knows(131_072, thinks=True), "temperature": False},
    },
    "groq": {
        "deepseek-r1": _knows(131_072, thinks=True),
        "llama-3.": _knows(131_072),
        "meta-llama/llama-4": _knows(131_072, sees=True),
        "moonshotai/kimi-k2": _knows(131_072),
        "openai/gpt-oss": _knows(131_072, thinks=True),
        "qwen/qwen3": _knows(131_072, thinks=True),
    },
    "mistral": {
        "codestral": _knows(256_000),
        "magistral": _knows(thinks=True),
        "mistral-medium": _knows(sees=True),
        "mistral-small": _knows(sees=True),
        "pixtral": _knows(131_072, sees=True),
    },
    "xai": {
        "grok-3": _knows(131_072),
        "grok-3-mini": _knows(131_072, thinks=True),
        "grok-4": _knows(thinks=True, sees=True),
        "grok-4-0709": _knows(256_000),
        "grok-4-fast": _knows(2_000_000),
        "grok-4-fast-non-reasoning": {"reasoning_output": False},
        "grok-code-fast": _knows(256_000, thinks=True),
    },
    "openrouter": {
        "anthropic/claude": _knows(sees=True),
        "deepseek/deepseek-r1": _knows(thinks=True),
        "google/gemini-2.5": _knows(1_048_576, thinks=True, sees=True),
        "openai/gpt-5": _knows(thinks=True, sees=True),
        "openai/gpt-oss": _knows(131_072, thinks=True),
        "x-ai/grok-4": _knows(thinks=True, sees=True),
    },
    "together": {
        "Qwen/Qwen3": _knows(thinks=True),
        "deepseek-ai/DeepSeek-R1": _knows(thinks=True),
        "deepseek-ai/DeepSeek-V3": _knows(131_072),
        "meta-llama/Llama-3.3": _knows(131_072),
        "meta-llama/Llama-4": _knows(sees=True),
        "openai/gpt-oss": _knows(131_072, thinks=True),
    },
    "fireworks": {
        "accounts/fireworks/models/deepseek-r1": _knows(thinks=True),
        "accounts/fireworks/models/gpt-oss": _knows(131_072, thinks=True),
        "accounts/fireworks/models/llama4": _knows(sees=True),
        "accounts/fireworks/models/qwen3": _knows(thinks=True),
    },
    "perplexity": {
        "sonar": {**_knows(128_000, sees=True), "tool_calling": False, "reasoning_output": False},
        "sonar-deep-research": _knows(thinks=True),
        "sonar-pro": _knows(200_000),
        "sonar-reasoning": _knows(thinks=True),
    },
    "cerebras": {
        "gpt-oss": _knows(131_072, thinks=True),
        "llama-3.3": _knows(131_072),
        "qwen-3-32b": _knows(131_072, thinks=True),
    },
    "moonshot": {
        "kimi-k2": _knows(262_144),
        "kimi-k2-0711": _knows(131_072),
        "kimi-k2-thinking": _knows(thinks=True),
        "kimi-k2.5": _knows(thinks=True, sees=True),
        "moonshot-v1-128k": _knows(131_072),
        "moonshot-v1-32k": _knows(32_768),
        "moonshot-v1-8k": _knows(8_192),
    },
    "qwen": {
        "qvq": _knows(thinks=True, sees=True),
        "qwen-flash": _knows(1_000_000, thinks=True),
        "qwen-plus": _knows(1_000_000, thinks=True),
        "qwen-vl": _knows(sees=True),
        "qwen3-max": _knows(262_144),
        "qwen3-vl": _knows(sees=True),
        "qwq": _knows(131_072, thinks=True),
    },
    "ollama": ON_YOUR_MACHINE,
}
"""Host -> beginning of a model's name -> what is known of it beyond its host.

A longest prompt stands only where every version of a family has it: one that is too short would refuse what fits.
"""


def _row(host: Host) -> dict[str, Any]:
    return {
        "text_inputs": True,
        "text_outputs": True,
        "tool_calling": True,
        "tool_choice": True,
        "tool_call_streaming": True,
        "structured_output": host.schema_as == "json_schema",
        "json_mode": True,
        "parallel_tool_calls": host.takes_parallel_tool_calls,
    }


PROFILES: Final = cast(
    "dict[str, dict[str, ModelProfile]]",
    {name: {"": _row(host), **FAMILIES.get(name, {})} for name, host in HOSTS.items()},
)
"""Host -> beginning of a model's name -> its profile; the empty beginning is every model of the host."""
