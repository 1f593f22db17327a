"""The chat template that teaches SmolLM2 tools: its own has none. Shipped as a file, because it is one."""

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
