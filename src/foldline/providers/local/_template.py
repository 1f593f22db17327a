"""The chat template with tools for SmolLM2, whose own template has none. Shipped as a file."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def tools_template() -> str:
    """Return the Jinja text to set as `Settings.template` for SmolLM2."""
    return (
        files("foldline.providers.local")
        .joinpath("templates", "smollm2-tools.jinja")
        .read_text("utf-8")
    )
