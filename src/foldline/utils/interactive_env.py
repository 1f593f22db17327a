"""Whether somebody is typing."""

from __future__ import annotations

import sys

__all__ = ["is_interactive_env"]


def is_interactive_env() -> bool:
    """Say whether this is a shell or notebook, where a prompt is shown."""
    return hasattr(sys, "ps2")
