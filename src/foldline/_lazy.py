"""Lazy exports: the names of a package are imported when they are first used (PEP 562).

A package exports far more than most programs need: `from foldline.messages import HumanMessage` must not import the
grammar checker. The names are also imported under `TYPE_CHECKING`, for editors, type checkers and the layer check.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import SupportsIndex, TypeAlias, cast, get_type_hints

Loader: TypeAlias = Callable[[str], object]
"""A module's `__getattr__`."""
FIELDS = frozenset({"__dataclass_fields__", "__pydantic_fields__"})
"""Attributes of a class that has fields."""


def lazy_exports(module: str, homes: Mapping[str, str]) -> Loader:
    """Return a module's `__getattr__`: `homes` maps each module (a path or `.sibling`) to the names in it."""
    package = sys.modules[module]
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    if any(home.rpartition(".")[2] == name for name, home in home_of.items()):
        package.__class__ = ExportModule

    def load(name: str) -> object:
        if (home := home_of.get(name)) is not None:
            value: object = getattr(import_module(home, package.__package__), name)
            if isinstance(value, type) and not FIELDS.isdisjoint(value.__dict__):
                describe_fields(value)
        elif (
            "__path__" in package.__dict__ and name[0] != "_" and _module_exists(f"{module}.{name}")
        ):
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(package, name, value)  # the next lookup finds it directly
        return value

    if "__path__" in package.__dict__:
        # For editors and notebooks: the public names of a package, without its imports.
        package.__dict__["__dir__"] = lambda: sorted(
            {*package.__dict__.get("__all__", ()), *home_of}
        )
    else:
        package.__dict__["__dir__"] = lambda: sorted({*package.__dict__, *home_of})
    return load


def publish(module: str, *values: object) -> None:
    """Set the public module of classes and functions that are defined in a private one."""
    for value in values:
        if "__dataclass_fields__" in vars(value):
            _resolve_fields(cast("type", value))
        value.__module__ = module


def _resolve_fields(dataclass: type) -> None:
    """Replace the texts of annotations by their types: Pydantic would look the names up in the public module."""
    hints = get_type_hints(dataclass, include_extras=True)
    dataclass.__annotations__ = {name: hints[name] for name in dataclass.__annotations__}
    for name, field in vars(dataclass)["__dataclass_fields__"].items():
        field.type = hints[name]


class ClassDoc(str):
    """The docstring of a class; `help()` and `?` show those of its fields too.

    Both call `inspect.cleandoc`, which begins with `expandtabs`: only then the source of the class is read.
    """

    __slots__ = ("owner",)
    owner: type

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        """Return the text with that of the fields."""
        reader = import_module("foldline.utils.class_doc")
        text: str = reader.class_doc(self.owner, super().expandtabs(tabsize))
        return text


def describe_fields(cls: type) -> None:
    """Let `help()` and `?` show the docstrings of the fields of a class of foldline."""
    text = cls.__dict__.get("__doc__")
    if cls.__module__.startswith("foldline.") and not isinstance(text, ClassDoc):
        doc = ClassDoc(text or "")
        doc.owner = cls
        type.__setattr__(cls, "__doc__", doc)


def _module_exists(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  few ask for a module through its package

    return find_spec(module) is not None


class ExportModule(ModuleType):
    """A package with a module and a function of the same name, such as `foldline.load.load`: it shows the function."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; when Python sets a submodule, set the function of the same name instead."""
        function = getattr(value, name, None) if isinstance(value, ModuleType) else None
        super().__setattr__(name, value if function is None else function)
