"""Lazy exports: the names of a package are imported when they are first used (PEP 562).

A package exports far more than most programs need: `from foldline.messages import HumanMessage` must not import the
grammar checker. Its `__init__` writes each name once, as an import statement that exports it (`X as X`, PEP 484):

    with lazy_exports(__name__):
        from foldline.messages.human import HumanMessage as HumanMessage

Editors, type checkers and the layer check read these statements as what they are. Python records them instead of doing
them, and `__getattr__`, `__dir__` and `__all__` of the package follow from the record. Python 3.15 has the same as a
statement, `lazy from ... import ...` (PEP 810), which can replace the blocks when no older version is supported.

Why a block that replaces `__import__` for some microseconds, which is no small thing to do? What was weighed:

- Stubs (`__init__.pyi`) from which `__init__` reads its names when it is imported: twice as many files, a parse at
  every import, nothing for the layer check, and no source to read in a frozen program.
- Imports under `TYPE_CHECKING`, read from the source or from the bytecode: the same parse, or a dependence on what the
  compiler happens to write.
- A generated table: a second copy, which somebody forgets.

The block costs the import of a package nothing that can be measured, and needs nothing that Python does not document.
"""

from __future__ import annotations

import builtins
import sys

# Not `threading`: importing it takes a millisecond, and nothing waits here for longer than an import statement.
from _thread import allocate_lock
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, cast, get_type_hints

FIELDS = frozenset({"__dataclass_fields__", "__pydantic_fields__"})
"""Attributes of a class that has fields."""

_recording = allocate_lock()
"""Held while a block runs. Nothing is imported meanwhile, so it cannot meet the locks of imports in another order."""


class _Unloaded:
    """What an import statement of a block gets in place of the module: any name can be taken from it."""

    def __getattr__(self, name: str) -> None:
        return None


@contextmanager
def lazy_exports(module: str) -> Iterator[None]:
    """Export the names that the block imports; each is imported when it is first used."""
    package = sys.modules[module]
    namespace, homes, unloaded = package.__dict__, dict[str, str](), _Unloaded()

    def record(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: tuple[str, ...] | None = (),
        level: int = 0,
    ) -> object:
        if globals is not namespace:  # another thread, or a finalizer
            return real_import(name, globals, locals, fromlist or (), level)
        homes.update(dict.fromkeys(fromlist or (), name))
        return unloaded

    with _recording:
        real_import = builtins.__import__
        builtins.__import__ = cast("Any", record)
        try:
            yield
        finally:
            builtins.__import__ = real_import
    for name in homes:
        del namespace[name]
    if "__path__" in namespace:
        namespace["__all__"] = sorted(homes)
    _load_when_used(package, homes)


def forward_names(module: str, names_by_home: Mapping[str, str]) -> None:
    """Let a module have names of other modules too, imported when they are first used.

    Written as data, which no checker follows: for LangChain's paths of names whose modules import this one.
    """
    homes = {name: home for home, names in names_by_home.items() for name in names.split()}
    _load_when_used(sys.modules[module], homes)


def _load_when_used(package: ModuleType, homes: Mapping[str, str]) -> None:
    """Give a module `__getattr__` and `__dir__`: `homes` maps each name to its module."""
    namespace, module = package.__dict__, package.__name__
    is_package = "__path__" in namespace
    if any(home == f"{module}.{name}" for name, home in homes.items()):
        package.__class__ = ExportModule

    def load(name: str) -> object:
        if (home := homes.get(name)) is not None:
            value: object = getattr(import_module(home), name)
            if isinstance(value, type) and not FIELDS.isdisjoint(value.__dict__):
                describe_fields(value)
        elif is_package and name[0] != "_" and _module_exists(f"{module}.{name}"):
            value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(package, name, value)  # the next lookup finds it directly
        return value

    def names() -> list[str]:
        if (
            is_package
        ):  # for editors and notebooks: the public names, without the imports of the `__init__`
            return sorted({*homes, *({"__version__"} & namespace.keys())})
        return sorted({*homes, *namespace})

    namespace["__getattr__"] = load
    namespace["__dir__"] = names


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
    """The docstring of a class with fields: `cls.__doc__`, which `?` shows, has those of the fields too.

    Python asks a `__doc__` that has a `__get__` for the text; only then the source of the class is read. As a `str` it
    is what stands in the class: `help()` finds this text for a class whose metaclass is not `type`, such as Pydantic's.
    """

    __slots__ = ()

    def __get__(self, instance: object, owner: type) -> str:
        """Return the text with that of the fields."""
        reader = import_module("foldline.utils._class_doc")
        text: str = reader.class_doc(owner, str(self))
        return text


def describe_fields(cls: type) -> None:
    """Let `?` and `inspect.getdoc` show the docstrings of the fields of a class of foldline."""
    text = cls.__dict__.get("__doc__")
    if cls.__module__.startswith("foldline.") and not isinstance(text, ClassDoc):
        type.__setattr__(cls, "__doc__", ClassDoc(text or ""))


def _module_exists(module: str) -> bool:
    from importlib.util import find_spec  # noqa: PLC0415  few ask for a module through its package

    return find_spec(module) is not None


class ExportModule(ModuleType):
    """A package with a module and a function of the same name, such as `foldline.load.load`: it shows the function."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; when Python sets a submodule, set the function of the same name instead."""
        function = getattr(value, name, None) if isinstance(value, ModuleType) else None
        super().__setattr__(name, value if function is None else function)
