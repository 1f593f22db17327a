"""The official `mcp` package, imported when it is used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from foldline.exceptions import MissingExtraError


def import_extra(name: str) -> ModuleType:
    """Import a module of the `mcp` extra; raise `MissingExtraError` if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            'MCP needs the official package of the protocol: pip install "foldline[mcp]"'
        ) from error
