"""Capability profiles: what a model can do, as data. An OpenAI-compatible vendor is a row in a table, not a class.

Profiles are registered per provider under a model's name or the beginning of it; the longest that fits is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft._lazy import lazily

if TYPE_CHECKING:
    from weft.language_models._profile_types import (
        ModelProfile,
        ModelProfileRegistry,
        Prices,
        ReasoningRules,
    )

__all__ = [
    "ModelProfile",
    "ModelProfileRegistry",
    "Prices",
    "ReasoningRules",
    "find_profile",
    "known_profiles",
    "register_profile",
    "register_profiles",
]


_registry: dict[str, ModelProfileRegistry] = {}


def register_profile(provider: str, model: str, profile: ModelProfile) -> None:
    """Say what a model can do; `model` may be the beginning of a name (`gpt-5`), or "" for all of a provider's."""
    _registry.setdefault(provider, {})[model] = profile


def register_profiles(provider: str, profiles: Mapping[str, ModelProfile]) -> None:
    """Say what the models of a provider can do."""
    _registry.setdefault(provider, {}).update(profiles)


def known_profiles(provider: str | None = None) -> dict[str, Any]:
    """Give the profiles of a provider, or of all of them by provider."""
    if provider is None:
        return {name: dict(rows) for name, rows in _registry.items()}
    return dict(_registry.get(provider, {}))


def find_profile(provider: str | None, model: str | None) -> ModelProfile | None:
    """Find a model's profile: every row whose name its name begins with, the longer over the shorter."""
    rows = _registry.get(provider or "")
    if not rows:
        return None
    fitting = sorted((name for name in rows if (model or "").startswith(name)), key=len)
    if not fitting:
        return None
    merged: dict[str, Any] = {}
    for name in fitting:
        merged.update(rows[name])
    return merged  # type: ignore[return-value]


__getattr__ = lazily(
    __name__, {"._profile_types": "ModelProfile ModelProfileRegistry Prices ReasoningRules"}
)
