"""Providers of models. `REGISTRY` names ours; packages add theirs under the entry-point group `foldline.providers`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils.strings import suggestion

__all__ = [
    "ADVICE",
    "REGISTRY",
    "find_provider",
    "provider_names",
]

GROUP: Final = "foldline.providers"
"""The entry-point group: `acme = "foldline_acme:ChatAcme"`."""
COMPATIBLE: Final = "foldline.providers.openai_compatible"

REGISTRY: Final[dict[str, str]] = {
    "openai": "foldline.providers.openai:ChatOpenAI",
    "azure_openai": "foldline.providers.openai:AzureChatOpenAI",
    "anthropic": "foldline.providers.anthropic:ChatAnthropic",
    "google": "foldline.providers.google:ChatGoogle",
    "gemini": "foldline.providers.google:ChatGoogle",
    "google_genai": "foldline.providers.google:ChatGoogle",
    "google_vertexai": "foldline.providers.vertex:ChatVertexAI",
    "vertexai": "foldline.providers.vertex:ChatVertexAI",
    "google_anthropic_vertex": "foldline.providers.vertex:ChatAnthropicVertex",
    "anthropic_vertex": "foldline.providers.vertex:ChatAnthropicVertex",
    "anthropic_bedrock": "foldline.providers.bedrock:ChatAnthropicBedrock",
    "bedrock_mantle_anthropic": "foldline.providers.bedrock:ChatAnthropicMantle",
    "bedrock_mantle_openai": "foldline.providers.bedrock:ChatOpenAIMantle",
    "bedrock": "foldline.providers.bedrock:ChatBedrockConverse",
    "bedrock_converse": "foldline.providers.bedrock:ChatBedrockConverse",
    "aws": "foldline.providers.bedrock:ChatBedrockConverse",
    "local": "foldline.providers.local:ChatLlamaCpp",
    "openai_compatible": f"{COMPATIBLE}:ChatOpenAICompatible",
    "deepseek": f"{COMPATIBLE}:ChatDeepSeek",
    "groq": f"{COMPATIBLE}:ChatGroq",
    "mistral": f"{COMPATIBLE}:ChatMistral",
    "mistralai": f"{COMPATIBLE}:ChatMistral",
    "xai": f"{COMPATIBLE}:ChatXAI",
    "openrouter": f"{COMPATIBLE}:ChatOpenRouter",
    "open_router": f"{COMPATIBLE}:ChatOpenRouter",
    "together": f"{COMPATIBLE}:ChatTogether",
    "fireworks": f"{COMPATIBLE}:ChatFireworks",
    "perplexity": f"{COMPATIBLE}:ChatPerplexity",
    "cerebras": f"{COMPATIBLE}:ChatCerebras",
    "moonshot": f"{COMPATIBLE}:ChatMoonshot",
    "qwen": f"{COMPATIBLE}:ChatQwen",
    "dashscope": f"{COMPATIBLE}:ChatQwen",
    "doubao": f"{COMPATIBLE}:ChatDoubao",
    "poe": f"{COMPATIBLE}:ChatPoe",
    "aigne_hub": f"{COMPATIBLE}:ChatAIGNEHub",
    "aignehub": f"{COMPATIBLE}:ChatAIGNEHub",
    "cohere": f"{COMPATIBLE}:ChatCohere",
    "huggingface": f"{COMPATIBLE}:ChatHuggingFace",
    "nvidia": f"{COMPATIBLE}:ChatNVIDIA",
    "sambanova": f"{COMPATIBLE}:ChatSambaNova",
    "azure_ai": f"{COMPATIBLE}:AzureAIChatCompletionsModel",
    "upstage": f"{COMPATIBLE}:ChatUpstage",
    "ibm": f"{COMPATIBLE}:ChatWatsonx",
    "watsonx": f"{COMPATIBLE}:ChatWatsonx",
    "baseten": f"{COMPATIBLE}:ChatBaseten",
    "meta": f"{COMPATIBLE}:ChatMeta",
    "litellm": f"{COMPATIBLE}:ChatLiteLLM",
    "ollama": f"{COMPATIBLE}:ChatOllama",
    "vllm": f"{COMPATIBLE}:ChatVLLM",
    "lmstudio": f"{COMPATIBLE}:ChatLMStudio",
    "llamacpp": f"{COMPATIBLE}:ChatLlamaServer",
}
"""Provider name -> "module:Class". A module is imported when its provider is first used."""

NICKNAMES: Final[dict[str, str]] = {
    "grok": "xai",
    "kimi": "moonshot",
    "pplx": "perplexity",
    "ark": "doubao",
    "volcengine": "doubao",
    "hf": "huggingface",
    "lm_studio": "lmstudio",
    "vertex": "vertexai",
}
"""Informal names that are accepted and not listed."""

ADVICE: Final[dict[str, str]] = {
    "langsmith": "LangSmith's gateway speaks OpenAI's wire: 'openai:MODEL' with "
    "base_url='https://gateway.smith.langchain.com/v1', use_responses_api=True and api_key=...",
    "ideogram": "Ideogram makes pictures and has no chat model: call its API from a tool",
}
"""Names that are not providers here -> what to use instead."""


def provider_names() -> list[str]:
    """Return the names of all providers, including those of installed packages."""
    return sorted({*REGISTRY, *_entry_points()})


def find_provider(name: str) -> type[Any]:
    """Import the class of a provider: built-in ones first, then those of installed packages."""
    word = name.replace("-", "_").lower()
    word = NICKNAMES.get(word, word)
    target = REGISTRY.get(word) or _entry_points().get(word) or _entry_points().get(name)
    if target is None:
        if word in ADVICE:
            raise UsageError(f"there is no provider {name!r}: {ADVICE[word]}")
        names = provider_names()
        hint = suggestion(word, names)
        raise UsageError(f"there is no provider {name!r}{hint}: choose one of {', '.join(names)}")
    module, _, attribute = target.partition(":")
    try:
        provider: type[Any] = getattr(import_module(module), attribute)
    except ImportError as error:
        raise _missing(name, module, error) from error
    return provider


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points  # noqa: PLC0415  a tenth of the time to import a provider

    return {entry.name: entry.value for entry in entry_points(group=GROUP)}


def _missing(name: str, module: str, error: ImportError) -> Exception:
    if isinstance(error, MissingExtraError):
        return error
    package = error.name or "a package"
    if package.startswith("foldline."):
        return MissingExtraError(
            f"the provider {name!r} is not part of this version of foldline ({package} is missing)"
        )
    command = (
        f'pip install "foldline[{name}]"'
        if module.startswith("foldline.")
        else f"pip install {package}"
    )
    return MissingExtraError(
        f"the provider {name!r} needs {package}, which is not installed: {command}"
    )


def __dir__() -> list[str]:
    folders = {target.partition(":")[0].rpartition(".")[2] for target in REGISTRY.values()}
    return sorted({*__all__, *folders})
