"""Deprecation of public names: they warn for at least one minor version (docs/api-policy.md)."""

from __future__ import annotations

import warnings

from foldline.utils._suggest import callers_level

__all__ = ["FoldlineDeprecationWarning", "warn_deprecated"]


class FoldlineDeprecationWarning(DeprecationWarning):
    """A public name of foldline will be removed."""


def warn_deprecated(name: str, *, since: str, instead: str, removal: str) -> None:
    """Warn the caller of foldline that a name is deprecated: since when, what to use, and when it is removed."""
    warnings.warn(
        f"{name} is deprecated since foldline {since} and will be removed in {removal}: use {instead}",
        FoldlineDeprecationWarning,
        stacklevel=callers_level(),
    )
