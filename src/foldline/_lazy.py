"""What is imported when it is first used: names of a package (PEP 562), and modules that only a call needs.

A front door publishes far more than most programs need: `from foldline.messages import HumanMessage` must not pay for
the grammar checker. And what a class *is* (its bases, the types of its fields) is needed when it is imported, what its
methods *do* when they are called: if that waits, a provider's class costs little more than Pydantic does. Both list
what they name under `TYPE_CHECKING`, for editors, type checkers and the check of the layers.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazily(module: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Make a module's `__getattr__`: `homes` has, for each place (a path or `.sibling`), the names that live there."""
    here = sys.modules[module]
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    if any(home.rpartition(".")[2] == name for name, home in home_of.items()):
        here.__class__ = Front

    def load(name: str) -> object:
        if (home := home_of.get(name)) is not None:
            value: object = getattr(_imported(home, here.__package__), name)
        elif "__path__" in here.__dict__ and name[0] != "_" and _is_there(f"{module}.{name}"):
            value = _imported(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(here, name, value)  # the next look-up finds it at once
        return value

    # What can be asked for, as editors and notebooks do.
    here.__dict__["__dir__"] = lambda: sorted({*here.__dict__, *home_of})
    return load


def _is_there(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  few ask for a module through its package

    return find_spec(module) is not None


class Front(ModuleType):
    """A package that has a module and a function of one name, as `foldline.load.load`: it shows the function."""

    def __setattr__(self, name: str, value: object) -> None:
        """Keep what a module is named after in its place, when Python puts the module there."""
        named_after = getattr(value, name, None) if isinstance(value, ModuleType) else None
        super().__setattr__(name, value if named_after is None else named_after)


class late:
    """Stands for a module until something of it is first used, then gives the module its place.

    Type checkers see the module itself: stand this under `if not TYPE_CHECKING`.
    """

    def __init__(self, name: str) -> None:
        self._module = name
        self._names = sys._getframe(1).f_globals

    def __getattr__(self, name: str) -> object:
        """Import the module, put it where this stood, and give what was asked for."""
        module = _imported(self._module)
        for known, value in [*self._names.items()]:
            if value is self:
                self._names[known] = module
        return getattr(module, name)


class TypeLater:
    """The type of a Pydantic field, said when Pydantic builds the class: `Annotated[Any, TypeLater(lambda: ...)]`.

    Type checkers see the type itself: stand this, too, under `if not TYPE_CHECKING`.
    """

    def __init__(self, say: Callable[[], object]) -> None:
        self._say = say

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:  # noqa: ANN401
        """Give the schema of the type, as if it had stood there."""
        return handler.generate_schema(self._say())


def _imported(name: str, package: str | None = None) -> ModuleType:
    """Import a module with the collector at rest.

    What an import makes is there to stay: the collector would look through it some seventy times and find nothing.
    Then it is told that all of it is old (frozen and thawed), or it would look through it once more at once.
    """
    if not gc.isenabled():
        return import_module(name, package)
    gc.disable()
    try:
        return import_module(name, package)
    finally:
        if gc.get_freeze_count() == 0:  # or somebody keeps things frozen
            gc.freeze()
            gc.unfreeze()
        gc.enable()
