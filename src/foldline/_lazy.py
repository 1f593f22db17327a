"""Front doors: the names of a package are imported when they are first used (PEP 562).

A package publishes far more than most programs need: `from foldline.messages import HumanMessage` must not pay for the
grammar checker. Its names stand under `TYPE_CHECKING` too, for editors, type checkers and the check of the layers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TypeAlias

Loader: TypeAlias = Callable[[str], object]
"""A module's `__getattr__`."""


def lazy_exports(module: str, homes: Mapping[str, str]) -> Loader:
    """Return a module's `__getattr__`: `homes` has, for each place (a path or `.sibling`), the names in it."""
    here = sys.modules[module]
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    if any(home.rpartition(".")[2] == name for name, home in home_of.items()):
        here.__class__ = Front

    def load(name: str) -> object:
        if (home := home_of.get(name)) is not None:
            value: object = getattr(import_module(home, here.__package__), name)
        elif "__path__" in here.__dict__ and name[0] != "_" and _is_there(f"{module}.{name}"):
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(here, name, value)  # the next look-up finds it at once
        return value

    if "__path__" in here.__dict__:
        # What editors and notebooks offer: the names that a package publishes, and nothing that it happens to import.
        here.__dict__["__dir__"] = lambda: sorted({*here.__dict__.get("__all__", ()), *home_of})
    else:
        here.__dict__["__dir__"] = lambda: sorted({*here.__dict__, *home_of})
    return load


def publish(module: str, *values: object) -> None:
    """Let classes and functions of a private module say the public one that shows them."""
    for value in values:
        value.__module__ = module


def _is_there(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  few ask for a module through its package

    return find_spec(module) is not None


class Front(ModuleType):
    """A package that has a module and a function of one name, as `foldline.load.load`: it shows the function."""

    def __setattr__(self, name: str, value: object) -> None:
        """Keep what a module is named after in its place, when Python puts the module there."""
        named_after = getattr(value, name, None) if isinstance(value, ModuleType) else None
        super().__setattr__(name, value if named_after is None else named_after)
