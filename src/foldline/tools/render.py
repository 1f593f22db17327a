"""Descriptions of tools as plain text, for prompts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from foldline.tools.base import BaseTool

__all__ = ["ToolsRenderer", "render_text_description", "render_text_description_and_args"]

ToolsRenderer = Callable[[list[BaseTool]], str]


def render_text_description(tools: Sequence[BaseTool]) -> str:
    """Describe each tool on a line: its signature, if it has a function, and its description."""
    return "\n".join(_line(tool) for tool in tools)


def render_text_description_and_args(tools: Sequence[BaseTool]) -> str:
    """Describe each tool on a line, with the schemas of its arguments."""
    return "\n".join(f"{_line(tool)}, args: {tool.args}" for tool in tools)


def _line(tool: BaseTool) -> str:
    function = getattr(tool, "func", None)
    if function is None:
        return f"{tool.name} - {tool.description}"
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError):  # some functions written in C have no signature
        signature = ""
    return f"{tool.name}{signature} - {tool.description}"
