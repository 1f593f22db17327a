"""Names of a package that are loaded when they are first used (PEP 562).

For the few front doors that publish far more than most programs need: `from weft.messages import HumanMessage` must not
pay for the grammar checker. The package lists its names under `TYPE_CHECKING` for editors and type checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Make a package's `__getattr__`: `homes` says which module each name lives in."""

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)  # the next look-up finds it at once
        return value

    return load
