"""The capabilities of the models of each host: from the rows of `HOSTS`, and a few model families."""

from __future__ import annotations

from typing import Any, Final, cast

from foldline.language_models.profile import ModelProfile
from foldline.providers._completions.host import Host
from foldline.providers.openai_compatible._hosts import HOSTS

__all__ = ["PROFILES"]

Rows = dict[str, dict[str, Any]]


def _family(
    context: int | None = None, *, thinks: bool = False, sees: bool = False
) -> dict[str, Any]:
    """Return the capabilities of a family; unknown ones are omitted."""
    capabilities: dict[str, Any] = {} if context is None else {"max_input_tokens": context}
    if thinks:
        capabilities["reasoning_output"] = True
    return {**capabilities, "image_inputs": True} if sees else capabilities


LOCAL_FAMILIES: Final[Rows] = {
    "deepseek-r1": _family(thinks=True),
    "gemma3": _family(sees=True),
    "gpt-oss": _family(thinks=True),
    "llama3.2-vision": _family(sees=True),
    "llama4": _family(sees=True),
    "llava": _family(sees=True),
    "magistral": _family(thinks=True),
    "mistral-small3": _family(sees=True),
    "qwen2.5vl": _family(sees=True),
    "qwen3": _family(thinks=True),
    "qwen3-vl": _family(thinks=True, sees=True),
    "qwq": _family(thinks=True),
}
"""Open models under Ollama's names. Their context length is a setting of the server."""
FAMILIES: Final[dict[str, Rows]] = {
    "deepseek": {
        "deepseek-chat": {**_family(131_072), "reasoning_output": False},
        "deepseek-reasoner": {**_family(131_072, thinks=True), "temperature": False},
    },
    "groq": {
        "deepseek-r1": _family(131_072, thinks=True),
        "llama-3.": _family(131_072),
        "meta-llama/llama-4": _family(131_072, sees=True),
        "moonshotai/kimi-k2": _family(131_072),
        "openai/gpt-oss": _family(131_072, thinks=True),
        "qwen/qwen3": _family(131_072, thinks=True),
    },
    "mistral": {
        "codestral": _family(256_000),
        "magistral": _family(thinks=True),
        "mistral-medium": _family(sees=True),
        "mistral-small": _family(sees=True),
        "pixtral": _family(131_072, sees=True),
    },
    "xai": {
        "grok-3": _family(131_072),
        "grok-3-mini": _family(131_072, thinks=True),
        "grok-4": _family(thinks=True, sees=True),
        "grok-4-0709": _family(256_000),
        "grok-4-fast": _family(2_000_000),
        "grok-4-fast-non-reasoning": {"reasoning_output": False},
        "grok-code-fast": _family(256_000, thinks=True),
    },
    "openrouter": {
        "anthropic/claude": _family(sees=True),
        "deepseek/deepseek-r1": _family(thinks=True),
        "google/gemini-2.5": _family(1_048_576, thinks=True, sees=True),
        "openai/gpt-5": _family(thinks=True, sees=True),
        "openai/gpt-oss": _family(131_072, thinks=True),
        "x-ai/grok-4": _family(thinks=True, sees=True),
    },
    "together": {
        "Qwen/Qwen3": _family(thinks=True),
        "deepseek-ai/DeepSeek-R1": _family(thinks=True),
        "deepseek-ai/DeepSeek-V3": _family(131_072),
        "meta-llama/Llama-3.3": _family(131_072),
        "meta-llama/Llama-4": _family(sees=True),
        "openai/gpt-oss": _family(131_072, thinks=True),
    },
    "fireworks": {
        "accounts/fireworks/models/deepseek-r1": _family(thinks=True),
        "accounts/fireworks/models/gpt-oss": _family(131_072, thinks=True),
        "accounts/fireworks/models/llama4": _family(sees=True),
        "accounts/fireworks/models/qwen3": _family(thinks=True),
    },
    "perplexity": {
        "sonar": {**_family(128_000, sees=True), "tool_calling": False, "reasoning_output": False},
        "sonar-deep-research": _family(thinks=True),
        "sonar-pro": _family(200_000),
        "sonar-reasoning": _family(thinks=True),
    },
    "cerebras": {
        "gpt-oss": _family(131_072, thinks=True),
        "llama-3.3": _family(131_072),
        "qwen-3-32b": _family(131_072, thinks=True),
    },
    "moonshot": {
        "kimi-k2": _family(262_144),
        "kimi-k2-0711": _family(131_072),
        "kimi-k2-thinking": _family(thinks=True),
        "kimi-k2.5": _family(thinks=True, sees=True),
        "moonshot-v1-128k": _family(131_072),
        "moonshot-v1-32k": _family(32_768),
        "moonshot-v1-8k": _family(8_192),
    },
    "qwen": {
        "qvq": _family(thinks=True, sees=True),
        "qwen-flash": _family(1_000_000, thinks=True),
        "qwen-plus": _family(1_000_000, thinks=True),
        "qwen-vl": _family(sees=True),
        "qwen3-max": _family(262_144),
        "qwen3-vl": _family(sees=True),
        "qwq": _family(131_072, thinks=True),
    },
    "ollama": LOCAL_FAMILIES,
}
"""Host -> prefix of a model's name -> capabilities beyond those of its host.

`max_input_tokens` is set only if it holds for every version of a family: too low a value would refuse prompts that fit.
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
"""Host -> prefix of a model's name -> profile; the empty prefix matches every model of the host."""
