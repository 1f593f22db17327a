"""The official `mcp` package, imported when it is used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from foldline.exceptions import MissingExtraError


def part(name: str) -> ModuleType:
    """Return a module of the package."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            'MCP needs the official package of the protocol: pip install "foldline[mcp]"'
        ) from error
