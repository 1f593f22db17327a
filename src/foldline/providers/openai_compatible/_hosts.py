"""Hosts compatible with OpenAI's chat completions, one row each."""

from __future__ import annotations

from typing import Final

from foldline.exceptions import UsageError
from foldline.providers._completions.host import Host

__all__ = ["HOSTS", "NICKNAMES", "host_of"]

HOSTS: Final[dict[str, Host]] = {
    host.name: host
    for host in (
        Host(
            "deepseek",
            "https://api.deepseek.com",
            keys=("DEEPSEEK_API_KEY",),
            url_variables=("DEEPSEEK_API_BASE",),
            reasoning_back="tool_calls",
            takes_strict=False,
            takes_parallel_tool_calls=False,
            schema_as="json_object",
        ),
        Host(
            "groq",
            "https://api.groq.com/openai/v1",
            keys=("GROQ_API_KEY",),
            url_variables=("GROQ_API_BASE",),
            reasoning_field="reasoning",
            max_tokens_field="max_completion_tokens",
            takes_strict=False,
        ),
        Host(
            "mistral",
            "https://api.mistral.ai/v1",
            keys=("MISTRAL_API_KEY",),
            url_variables=("MISTRAL_BASE_URL",),
            reasoning_field=None,
            reasoning_parts=True,
            asks_for_usage=False,
            any_tool="any",
            call_id_length=9,
            renames={"seed": "random_seed"},
        ),
        Host("xai", "https://api.x.ai/v1", keys=("XAI_API_KEY",), url_variables=("XAI_API_BASE",)),
        Host(
            "openrouter",
            "https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"),
            url_variables=("OPENROUTER_API_BASE",),
            reasoning_field="reasoning",
        ),
        Host(
            "together",
            "https://api.together.xyz/v1",
            keys=("TOGETHER_API_KEY",),
            reasoning_field="reasoning",
            takes_strict=False,
            takes_parallel_tool_calls=False,
        ),
        Host(
            "fireworks",
            "https://api.fireworks.ai/inference/v1",
            keys=("FIREWORKS_API_KEY",),
            takes_strict=False,
        ),
        Host(
            "perplexity",
            "https://api.perplexity.ai",
            keys=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
            reasoning_back="never",
            asks_for_usage=False,
            takes_strict=False,
            takes_parallel_tool_calls=False,
        ),
        Host(
            "cerebras",
            "https://api.cerebras.ai/v1",
            keys=("CEREBRAS_API_KEY",),
            reasoning_field="reasoning",
            max_tokens_field="max_completion_tokens",
        ),
        Host(
            "moonshot",
            "https://api.moonshot.ai/v1",
            keys=("MOONSHOT_API_KEY",),
            takes_strict=False,
            takes_parallel_tool_calls=False,
            schema_as="json_object",
        ),
        Host(
            "qwen",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            keys=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
            url_variables=("DASHSCOPE_BASE_URL",),
            takes_strict=False,
        ),
        Host(
            "doubao",
            "https://ark.cn-beijing.volces.com/api/v3",
            keys=("DOUBAO_API_KEY", "ARK_API_KEY"),
            url_variables=("DOUBAO_BASE_URL", "ARK_BASE_URL"),
            takes_strict=False,
        ),
        Host(
            "poe",
            "https://api.poe.com/v1",
            keys=("POE_API_KEY",),
            url_variables=("POE_BASE_URL",),
            takes_strict=False,
        ),
        Host(
            "aigne_hub",
            "https://hub.aigne.io/app/api/v2",
            keys=("AIGNE_HUB_API_KEY",),
            url_variables=("AIGNE_HUB_API_URL",),
            api_path="/api/v2",
            takes_strict=False,
        ),
        Host(
            "cohere",
            "https://api.cohere.ai/compatibility/v1",
            keys=("COHERE_API_KEY", "CO_API_KEY"),
            url_variables=("COHERE_API_BASE",),
            takes_strict=False,
            takes_parallel_tool_calls=False,
        ),
        Host(
            "huggingface",
            "https://router.huggingface.co/v1",
            keys=("HF_TOKEN", "HUGGINGFACEHUB_API_TOKEN", "HUGGINGFACE_API_KEY"),
            url_variables=("HUGGINGFACE_BASE_URL",),
            takes_strict=False,
        ),
        Host(
            "nvidia",
            "https://integrate.api.nvidia.com/v1",
            keys=("NVIDIA_API_KEY",),
            url_variables=("NVIDIA_BASE_URL",),
            takes_strict=False,
        ),
        Host(
            "sambanova",
            "https://api.sambanova.ai/v1",
            keys=("SAMBANOVA_API_KEY",),
            url_variables=("SAMBANOVA_API_BASE",),
            takes_strict=False,
        ),
        Host(
            "azure_ai",
            "",
            keys=(
                "AZURE_AI_API_KEY",
                "AZURE_AI_INFERENCE_CREDENTIAL",
                "AZURE_INFERENCE_CREDENTIAL",
            ),
            url_variables=(
                "AZURE_AI_OPENAI_ENDPOINT",
                "AZURE_AI_INFERENCE_ENDPOINT",
                "AZURE_INFERENCE_ENDPOINT",
            ),
            api_path="/openai/v1",
        ),
        Host(
            "upstage",
            "https://api.upstage.ai/v1",
            keys=("UPSTAGE_API_KEY",),
            url_variables=("UPSTAGE_API_BASE",),
            takes_strict=False,
        ),
        Host(
            "ibm",
            "https://us-south.ml.cloud.ibm.com/ml/gateway/v1",
            keys=("WATSONX_TOKEN",),
            url_variables=("WATSONX_URL",),
            api_path="/ml/gateway/v1",
            takes_strict=False,
        ),
        Host(
            "baseten",
            "https://inference.baseten.co/v1",
            keys=("BASETEN_API_KEY",),
            url_variables=("BASETEN_BASE_URL", "BASETEN_API_BASE"),
            takes_strict=False,
        ),
        Host(
            "meta",
            "https://api.llama.com/compat/v1",
            keys=("META_API_KEY", "LLAMA_API_KEY"),
            url_variables=("META_API_BASE_URL", "LLAMA_API_BASE"),
            takes_strict=False,
        ),
        Host(
            "litellm",
            "http://localhost:4000/v1",
            keys=("LITELLM_PROXY_API_KEY", "LITELLM_API_KEY"),
            needs_key=False,
            root_path="/v1",
            url_variables=("LITELLM_PROXY_API_BASE", "LITELLM_API_BASE"),
        ),
        Host(
            "ollama",
            "http://localhost:11434/v1",
            keys=("OLLAMA_API_KEY",),
            root_path="/v1",
            needs_key=False,
            url_variables=("OLLAMA_BASE_URL",),
            reasoning_field="reasoning",
            takes_strict=False,
            takes_parallel_tool_calls=False,
        ),
        Host(
            "vllm",
            "http://localhost:8000/v1",
            keys=("VLLM_API_KEY",),
            needs_key=False,
            url_variables=("VLLM_BASE_URL",),
        ),
        Host(
            "lmstudio",
            "http://localhost:1234/v1",
            keys=("LMSTUDIO_API_KEY",),
            needs_key=False,
            url_variables=("LMSTUDIO_BASE_URL",),
        ),
        Host(
            "llamacpp",
            "http://localhost:8080/v1",
            keys=("LLAMA_API_KEY",),
            needs_key=False,
            url_variables=("LLAMACPP_BASE_URL",),
        ),
    )
}
NICKNAMES: Final = {
    "mistralai": "mistral",
    "dashscope": "qwen",
    "grok": "xai",
    "kimi": "moonshot",
    "pplx": "perplexity",
    "aignehub": "aigne_hub",
    "ark": "doubao",
    "volcengine": "doubao",
    "hf": "huggingface",
    "watsonx": "ibm",
    "open_router": "openrouter",
    "lm_studio": "lmstudio",
}
"""Other names of hosts."""


def host_of(provider: str, base_url: str | None) -> Host:
    """Return the row of a host; for any other server, a row made from its URL."""
    name = NICKNAMES.get(provider, provider)
    if name in HOSTS:
        return HOSTS[name]
    if base_url:
        key = "".join(char if char.isalnum() else "_" for char in provider.upper())
        return Host(provider, base_url, keys=(f"{key}_API_KEY",), needs_key=False)
    raise UsageError(
        f"there is no host {provider!r}: choose one of {', '.join(sorted(HOSTS))}, or pass base_url=... of any server"
    )
