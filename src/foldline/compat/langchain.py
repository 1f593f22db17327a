"""An import hook: programs and packages that import `langchain_core` run on foldline, unmodified.

Importing this module installs it, for `langchain_core` alone: a real langgraph or langchain-openai stays real, and
works on our messages, models and runnables. Three ways, before anything imports LangChain:

- `import foldline.compat.langchain`, the first line of a program
- `python -m foldline.compat app.py`
- `pytest -p foldline.compat.langchain`
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from foldline.compat._private_names import PRIVATE_MODULES, PRIVATE_NAMES
from foldline.compat.names import find_home, find_module, is_mapped, rows
from foldline.exceptions import UsageError

__all__ = ["install", "is_installed"]

PACKAGES = (
    "foldline.messages",
    "foldline.runnables",
    "foldline.tools",
    "foldline.prompts",
    "foldline.prompt_values",
    "foldline.documents",
    "foldline.outputs",
    "foldline.callbacks",
    "foldline.language_models",
)
DEFAULT = ("langchain_core",)


class StandIn(ModuleType):
    """A module with the name of one of LangChain's and the contents of ours."""

    def __getattr__(self, name: str) -> object:
        value = _value(self.__name__, name)
        setattr(self, name, value)  # the next lookup needs no `__getattr__`
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_names(self.__name__)})


def _value(module: str, name: str) -> object:
    if name == "__all__":
        return _names(module)
    private = PRIVATE_MODULES.get(module, {})
    if name in private:
        return private[name]
    if f"{module}.{name}" in PRIVATE_NAMES:
        return PRIVATE_NAMES[f"{module}.{name}"]
    home = None if name.startswith("__") else find_home(module, name)
    if home is None:
        if _is_there(f"{module}.{name}"):
            return importlib.import_module(f"{module}.{name}")
        for package in PACKAGES:  # modules of LangChain also hold the classes that they import
            if name[0].isupper() and hasattr(importlib.import_module(package), name):
                value: object = getattr(importlib.import_module(package), name)
                return value
        raise AttributeError(f"{module}.{name} has no counterpart in foldline")
    home_value: object = getattr(importlib.import_module(home.module), home.name)
    return home_value


def _names(module: str) -> list[str]:
    sources = (row.source.rpartition(".") for row in rows() if row.home is not None)
    return sorted(name for path, _, name in sources if path == module)


def _is_there(module: str) -> bool:
    if module in PRIVATE_MODULES or find_module(module) is not None:
        return True
    return any(row.source.startswith(f"{module}.") for row in rows())


class Finder:
    """Finds the modules of the packages that foldline stands in for."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = set(packages)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return the stand-in for a module; None for modules of other packages."""
        if fullname.partition(".")[0] not in self.packages:
            return None
        if "." in fullname and not _is_there(fullname):
            raise ModuleNotFoundError(f"{fullname} has no counterpart in foldline", name=fullname)
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the stand-in."""
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up at their first use."""


def install(replace: Sequence[str] = DEFAULT) -> None:
    """Replace packages of LangChain from now on; raise `UsageError` where one of them is already imported."""
    for package in replace:
        if not is_mapped(package) or "." in package:
            raise UsageError(
                f"foldline has no map of {package!r}: name a package such as langchain_core"
            )
        loaded = sys.modules.get(package)
        if loaded is not None and not isinstance(loaded, StandIn):
            raise UsageError(
                f"{package} is already imported: install foldline.compat.langchain before anything imports it, "
                "as the first line of the program or with `python -m foldline.compat app.py`"
            )
    finder = _finder()
    if finder is None:
        sys.meta_path.insert(0, Finder(replace))
    else:
        finder.packages |= set(replace)


def _finder() -> Finder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, Finder)), None)


def is_installed(package: str = "langchain_core") -> bool:
    """Whether foldline stands in for a package."""
    finder = _finder()
    return finder is not None and package in finder.packages


install()
