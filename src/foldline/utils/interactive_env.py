"""Whether Python runs interactively."""

from __future__ import annotations

import sys

__all__ = ["is_interactive_env"]


def is_interactive_env() -> bool:
    """Whether this is a shell or a notebook."""
    return hasattr(sys, "ps2")
