"""`foldline models`: the providers, their keys, and the capabilities of their models."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foldline._cli.terminal import echo, note, table
from foldline.exceptions import FoldlineError, UsageError
from foldline.language_models.profile import find_profile, known_profiles
from foldline.providers import REGISTRY, find_provider, provider_names
from foldline.providers._completions.model import CompletionsModel
from foldline.utils.strings import suggestion

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel
    from foldline.providers._completions.host import Host

__all__ = ["host_of", "key_variables", "main_names", "models", "url_variables"]

CAPABILITIES = {
    "tool_calling": "tools",
    "structured_output": "schema",
    "reasoning_output": "reasoning",
    "image_inputs": "images",
    "pdf_inputs": "pdf",
    "audio_inputs": "audio",
    "video_inputs": "video",
}
"""Key of a profile -> the word for it."""
OTHER_URLS = {
    "ChatGoogle": ("GOOGLE_GEMINI_BASE_URL",),
    "AzureChatOpenAI": ("AZURE_OPENAI_ENDPOINT",),
    "ChatAnthropicBedrock": ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
    "ChatBedrockConverse": ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
    "ChatAnthropicVertex": ("ANTHROPIC_VERTEX_BASE_URL",),
    "ChatVertexAI": ("GOOGLE_VERTEX_BASE_URL",),
}
"""Class of a provider -> variables for its URL, where its table has none."""
ON_AWS = ("ChatAnthropicBedrock", "ChatAnthropicMantle", "ChatBedrockConverse", "ChatOpenAIMantle")
OTHER_KEYS = {
    **dict.fromkeys(ON_AWS, ("AWS_ACCESS_KEY_ID",)),
    **dict.fromkeys(("ChatAnthropicVertex", "ChatVertexAI"), ("GOOGLE_APPLICATION_CREDENTIALS",)),
}
"""Class of a provider -> variables of other kinds of credentials."""


def models(provider: str | None, *, as_json: bool) -> int:
    """List the providers, or the models of one."""
    if provider is not None:
        return _models_of(provider.replace("-", "_").lower(), as_json=as_json)
    providers = [_row(name) for name in main_names()]
    if as_json:
        echo(json.dumps(providers, ensure_ascii=False))
        return 0
    rows = [(row["provider"], row["state"], row["key"], ", ".join(row["can"])) for row in providers]
    table(("provider", "installed", "key", "its models can"), rows)
    note(
        "`foldline models PROVIDER` lists the models known; others work by their name as well: -m provider:model"
    )
    return 0


def main_names() -> list[str]:
    """Return every provider once, under its first name."""
    names_by_class: dict[str, str] = {}
    for name in [*REGISTRY, *provider_names()]:
        names_by_class.setdefault(REGISTRY.get(name, name), name)
    return list(names_by_class.values())


def _row(name: str) -> dict[str, Any]:
    state = "yes"
    try:
        kind = find_provider(name)
    except FoldlineError as error:
        return {"provider": name, "state": f"no: {error}", "key": "", "can": [], "models": 0}
    profiles = _profiles(name)
    if name == "local":
        state = _local_state()
    capabilities = [
        label
        for key, label in CAPABILITIES.items()
        if any(row.get(key) for row in profiles.values())
    ]
    return {
        "provider": name,
        "state": state,
        "key": _key_state(kind),
        "can": capabilities,
        "models": len(profiles),
    }


MAKERS = {
    "google_vertexai": "google_genai",
    "google_anthropic_vertex": "anthropic",
    "anthropic_bedrock": "anthropic",
    "bedrock_mantle_anthropic": "anthropic",
    "bedrock_mantle_openai": "openai",
}
"""Cloud -> the maker of the models that it serves, whose profiles are used."""


def _profiles(name: str) -> dict[str, Any]:
    """Return the profiles under any of a provider's names."""
    aliases = [alias for alias, place in REGISTRY.items() if place == REGISTRY.get(name)]
    aliases += [maker for cloud, maker in MAKERS.items() if cloud in (name, *aliases)]
    provider = next((alias for alias in (name, *aliases) if known_profiles(alias)), name)
    return {
        model: find_profile(provider, model) or {} for model in sorted(known_profiles(provider))
    }


def _local_state() -> str:
    try:
        import_module("foldline.providers.local.runtime").load_library()
    except FoldlineError:
        return 'no: pip install "foldline[local]"'
    fetch = import_module("foldline.providers.local.fetch")
    fetched = [name for name in fetch.MODELS if fetch.MODELS[name].path.exists()]
    return f"yes, fetched: {', '.join(fetched)}" if fetched else "yes, fetched at first use"


def key_variables(kind: type[BaseChatModel]) -> tuple[str, ...]:
    """Return the variables that may hold a provider's key."""
    host = host_of(kind)
    names = (host.keys if host is not None else ()) or getattr(kind, "key_variables", ())
    return (*names, *OTHER_KEYS.get(kind.__name__, ()))


def url_variables(kind: type[BaseChatModel]) -> tuple[str, ...]:
    """Return the variables that may hold another address of a provider."""
    host = host_of(kind)
    names = host.url_variables if host is not None else ()
    module_names = getattr(import_module(kind.__module__), "URL_VARIABLES", ())
    return tuple(names or module_names or OTHER_URLS.get(kind.__name__, ()))


def host_of(kind: type[BaseChatModel]) -> Host | None:
    """Return the settings of a provider that speaks chat completions; None for others, and for a server of any URL."""
    if issubclass(kind, CompletionsModel):
        with suppress(UsageError):
            return kind.model_construct()._host
    return None


def _key_state(kind: type[BaseChatModel]) -> str:
    variables = key_variables(kind)
    if not variables:
        return "none needed"
    names = [name for name in variables if os.environ.get(name)]
    if names:
        return f"{names[0]} is set"
    host = host_of(kind)
    if host is not None and not host.needs_key:
        return "none needed"
    return f"set {variables[0]}"


def _models_of(provider: str, *, as_json: bool) -> int:
    if provider not in provider_names():
        raise UsageError(
            f"there is no provider {provider!r}{suggestion(provider, provider_names())}: foldline models lists them"
        )
    find_provider(provider)
    profiles = _profiles(provider)
    if as_json:
        echo(json.dumps(profiles, ensure_ascii=False, default=str))
        return 0
    if not profiles:
        note(f"no profiles of {provider}'s models here; any works by its name: -m {provider}:MODEL")
        return 0
    rows = []
    for name, profile in profiles.items():
        capabilities = ", ".join(label for key, label in CAPABILITIES.items() if profile.get(key))
        rows.append((name or "(any other)", _count(profile.get("max_input_tokens")), capabilities))
    table(("model", "context", "can"), rows)
    return 0


def _count(tokens: object) -> str:
    return f"{tokens:,}" if isinstance(tokens, int) else "?"
