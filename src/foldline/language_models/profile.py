"""Capability profiles: what a model can do, as data. An OpenAI-compatible vendor is a row in a table, not a class.

Profiles are registered per provider under a model's name or the beginning of it; the longest that fits is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from foldline._extensions import extension
from foldline._lazy import Loader, lazy_exports

if TYPE_CHECKING:
    from foldline.language_models._profile_types import (
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
_later: dict[str, list[Callable[[], Mapping[str, ModelProfile]]]] = {}
"""Provider -> what gives its rows, until one is looked for."""
_looked_for: set[str] = set()
"""Providers without rows whose modules were loaded, if there are any."""


def register_profile(provider: str, model: str, profile: ModelProfile) -> None:
    """Say what a model can do; `model` may be the beginning of a name (`gpt-5`), or "" for all of a provider's."""
    register_profiles(provider, {model: profile})


def register_profiles(
    provider: str, profiles: Mapping[str, ModelProfile] | Callable[[], Mapping[str, ModelProfile]]
) -> None:
    """Say what the models of a provider can do: in rows, or by a function that gives them when one is looked for."""
    if callable(profiles):
        _later.setdefault(provider, []).append(profiles)
    else:
        _registry[provider] = {**_rows(provider), **profiles}


def _rows(provider: str) -> ModelProfileRegistry:
    for give in _later.get(provider, ()):
        _registry.setdefault(provider, {}).update(give())
    _later.pop(provider, None)
    return _registry.get(provider, {})


def known_profiles(provider: str | None = None) -> dict[str, Any]:
    """Return the profiles of a provider, or of all of them by provider."""
    if provider is None:
        return {name: dict(_rows(name)) for name in [*{**_registry, **_later}]}
    return dict(_rows(provider))


def find_profile(provider: str | None, model: str | None) -> ModelProfile | None:
    """Find a model's profile: every row whose name its name begins with, the longer over the shorter."""
    rows = _rows(provider or "")
    if not rows and provider and provider not in _looked_for:
        _looked_for.add(provider)
        extension("load_provider")(provider)  # its rows come with its module
        rows = _rows(provider)
    fitting = sorted((name for name in rows if (model or "").startswith(name)), key=len)
    if not fitting:
        return None
    merged: dict[str, Any] = {}
    for name in fitting:
        merged.update(rows[name])
    return merged  # type: ignore[return-value]


__getattr__: Loader = lazy_exports(
    __name__, {"._profile_types": "ModelProfile ModelProfileRegistry Prices ReasoningRules"}
)
