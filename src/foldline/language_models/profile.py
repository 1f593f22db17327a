"""Capability profiles: what a model can do, as data. An OpenAI-compatible vendor is a row in a table, not a class.

Profiles are registered per provider under a model's name or a prefix of it; the longest match is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from foldline._extensions import extension
from foldline._lazy import lazy_exports

__all__ = [
    "ModelProfile",
    "ModelProfileRegistry",
    "Prices",
    "find_profile",
    "register_profile",
    "register_profiles",
]


_registry: dict[str, ModelProfileRegistry] = {}
_row_functions: dict[str, list[Callable[[], Mapping[str, ModelProfile]]]] = {}
"""Provider -> functions that return its rows, called when one is looked up."""
_loaded_providers: set[str] = set()
"""Providers without rows whose modules were loaded, if there are any."""


def register_profile(provider: str, model: str, profile: ModelProfile) -> None:
    """Register the profile of a model; `model` may be a prefix (`gpt-5`), or "" for all models of a provider."""
    register_profiles(provider, {model: profile})


def register_profiles(
    provider: str, profiles: Mapping[str, ModelProfile] | Callable[[], Mapping[str, ModelProfile]]
) -> None:
    """Register the profiles of a provider: as rows, or as a function that returns them when one is looked up."""
    if callable(profiles):
        _row_functions.setdefault(provider, []).append(profiles)
    else:
        _registry[provider] = {**_rows(provider), **profiles}


def _rows(provider: str) -> ModelProfileRegistry:
    for load_rows in _row_functions.get(provider, ()):
        _registry.setdefault(provider, {}).update(load_rows())
    _row_functions.pop(provider, None)
    return _registry.get(provider, {})


def known_profiles(provider: str | None = None) -> dict[str, Any]:
    """Return the profiles of a provider, or of all of them by provider."""
    if provider is None:
        return {name: dict(_rows(name)) for name in [*{**_registry, **_row_functions}]}
    return dict(_rows(provider))


def find_profile(provider: str | None, model: str | None) -> ModelProfile | None:
    """Return a model's profile: all rows whose name is a prefix of its name, the longer over the shorter."""
    rows = _rows(provider or "")
    if not rows and provider and provider not in _loaded_providers:
        _loaded_providers.add(provider)
        extension("load_provider")(provider)  # its rows come with its module
        rows = _rows(provider)
    matching = sorted((name for name in rows if (model or "").startswith(name)), key=len)
    if not matching:
        return None
    profile: dict[str, Any] = {}
    for name in matching:
        profile.update(rows[name])
    return profile  # type: ignore[return-value]


with lazy_exports(__name__):
    from foldline.language_models._profile_types import (
        ModelProfile as ModelProfile,
        ModelProfileRegistry as ModelProfileRegistry,
        Prices as Prices,
        ReasoningRules as ReasoningRules,
    )
