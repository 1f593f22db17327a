"""Names of a package that are loaded when they are first used (PEP 562).

For the few front doors that publish far more than most programs need: `from weft.messages import HumanMessage` must not
pay for the grammar checker. The package lists its names under `TYPE_CHECKING` for editors and type checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Make a module's `__getattr__`: `homes` says where each name lives, by a full path or as `.sibling`."""

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        here = sys.modules[module]
        value = getattr(import_module(home, here.__package__), name)
        setattr(here, name, value)  # the next look-up finds it at once
        return value

    return load


class late:
    """A module that is imported when something of it is first used.

    For `asyncio` alone, which a program that only makes blocking calls never needs, and which would be a tenth of its
    start. Type checkers see the module itself: stand this under `if not TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> object:
        """Import the module, and keep what was asked for."""
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value
