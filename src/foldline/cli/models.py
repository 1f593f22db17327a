"""`foldline models`: the providers, what they need and have, and what their models can do."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from foldline.cli.terminal import note, say, table
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
"""Variables that hold an address and are no row of a table."""
ON_AWS = ("ChatAnthropicBedrock", "ChatAnthropicMantle", "ChatBedrockConverse", "ChatOpenAIMantle")
OTHER_KEYS = {
    **dict.fromkeys(ON_AWS, ("AWS_ACCESS_KEY_ID",)),
    **dict.fromkeys(("ChatAnthropicVertex", "ChatVertexAI"), ("GOOGLE_APPLICATION_CREDENTIALS",)),
}
"""Variables that show that there are credentials, where a key is not the only kind."""


def models(provider: str | None, *, as_json: bool) -> int:
    """List the providers, or what one has."""
    if provider is not None:
        return _models_of(provider.replace("-", "_").lower(), as_json=as_json)
    providers = [_row(name) for name in main_names()]
    if as_json:
        say(json.dumps(providers, ensure_ascii=False))
        return 0
    rows = [(row["provider"], row["state"], row["key"], ", ".join(row["can"])) for row in providers]
    table(("provider", "installed", "key", "its models can"), rows)
    note(
        "`foldline models PROVIDER` lists the models known; others work by their name as well: -m provider:model"
    )
    return 0


def main_names() -> list[str]:
    """Every provider once, under the first of its names."""
    seen: dict[str, str] = {}
    for name in [*REGISTRY, *provider_names()]:
        seen.setdefault(REGISTRY.get(name, name), name)
    return list(seen.values())


def _row(name: str) -> dict[str, Any]:
    state = "yes"
    try:
        kind = find_provider(name)
    except FoldlineError as error:
        return {"provider": name, "state": f"no: {error}", "key": "", "can": [], "models": 0}
    profiles = _profiles(name)
    if name == "local":
        state = _local_state()
    can = [
        word for key, word in CAPABILITIES.items() if any(row.get(key) for row in profiles.values())
    ]
    return {
        "provider": name,
        "state": state,
        "key": _key_state(kind),
        "can": can,
        "models": len(profiles),
    }


MAKERS = {
    "google_vertexai": "google_genai",
    "google_anthropic_vertex": "anthropic",
    "anthropic_bedrock": "anthropic",
    "bedrock_mantle_anthropic": "anthropic",
    "bedrock_mantle_openai": "openai",
}
"""Clouds that serve the models of one maker -> whose profiles they are."""


def _profiles(name: str) -> dict[str, Any]:
    """The profiles under any of a provider's names, each with what the rows of shorter names say of it."""
    same = [alias for alias, place in REGISTRY.items() if place == REGISTRY.get(name)]
    same += [maker for cloud, maker in MAKERS.items() if cloud in (name, *same)]
    provider = next((alias for alias in (name, *same) if known_profiles(alias)), name)
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
        say(json.dumps(profiles, ensure_ascii=False, default=str))
        return 0
    if not profiles:
        note(f"no profiles of {provider}'s models here; any works by its name: -m {provider}:MODEL")
        return 0
    rows = []
    for name, profile in profiles.items():
        can = ", ".join(word for key, word in CAPABILITIES.items() if profile.get(key))
        rows.append((name or "(any other)", _count(profile.get("max_input_tokens")), can))
    table(("model", "context", "can"), rows)
    return 0


def _count(tokens: object) -> str:
    return f"{tokens:,}" if isinstance(tokens, int) else "?"
