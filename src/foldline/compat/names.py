"""The map from LangChain's public names to ours: one file of data, read once."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any, NamedTuple

__all__ = [
    "find_home",
    "rows",
    "versions",
]

OTHER_PACKAGES = (
    "langchain_community",
    "langchain_experimental",
    "langserve",
    "langmem",
    "langgraph_sdk",
)
"""Packages of LangChain's that have no place here, or only a part of one."""


class Home(NamedTuple):
    """Where a name of LangChain's lives in foldline."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """The dotted path."""
        return f"{self.module}.{self.name}"


class Row(NamedTuple):
    """One line of the map: a name of LangChain's with its home, or with advice where it has none."""

    source: str
    home: Home | None
    advice: str


@cache
def _data() -> dict[str, Any]:
    text = resources.files("foldline.compat").joinpath("langchain.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@cache
def _packages() -> frozenset[str]:
    return frozenset(_data()["versions"])


def is_mapped(module: str) -> bool:
    """Say whether a module belongs to a package whose names the map knows, in part at least."""
    package = module.partition(".")[0]
    return package in _packages() or package == "langchain_community"


def is_langchain(module: str) -> bool:
    """Say whether a module belongs to LangChain or to one of the packages around it."""
    package = module.partition(".")[0]
    return is_mapped(module) or package in OTHER_PACKAGES or package.startswith("langchain_")


def find_module(module: str) -> str | None:
    """Return the module of ours that stands in the place of one of LangChain's; None where there is none."""
    home: str | None = _data()["modules"].get(module, {}).get("home")
    if home is None and module.partition(".")[0] == "langchain_core":
        home = "foldline" + module.removeprefix("langchain_core")
        return home if _import(home) is not None else None
    return home


def find_home(module: str, name: str) -> Home | None:
    """Return where a name of one of LangChain's modules lives here; None where it has no home.

    A name that the map does not list (a private one, or one of a newer version) is looked for in the module's home.
    """
    entry = _data()["modules"].get(module, {})
    elsewhere = entry.get("elsewhere", {}).get(name)
    if elsewhere is not None:
        return Home(*elsewhere.rpartition(".")[::2])
    if name in entry.get("names", "").split():
        return Home(entry["home"], name)
    if name in entry.get("missing", "").split():
        return None
    return _unlisted(module, name)


def _unlisted(module: str, name: str) -> Home | None:
    home = find_module(module)
    home_module = _import(home) if home is not None else None
    if home is not None and home_module is not None and hasattr(home_module, name):
        return Home(home, name)
    if find_module(f"{module}.{name}") is not None:  # a module, imported as a name
        target = str(find_module(f"{module}.{name}"))
        parent, _, last = target.rpartition(".")
        return Home(parent, last) if parent else None
    return None


def _import(path: str) -> ModuleType | None:
    try:
        return importlib.import_module(path)
    except ImportError:
        return None


def advice_for(module: str, name: str = "") -> str:
    """Return what to do about a name that has no home."""
    path = f"{module}.{name}" if name else module
    advice: dict[str, str] = _data()["advice"]
    keys = [key for key in advice if path == key or path.startswith(f"{key}.") or not key]
    if not is_mapped(module):
        return "not part of foldline: keep the package and run the program with `python -m foldline.compat`"
    return advice[max(keys, key=len)]


def keywords_of(source: str) -> dict[str, str]:
    """Return the keywords of a class or function that are called differently here."""
    keywords: dict[str, str] = _data()["keywords"].get(source, {})
    return keywords


def rows() -> Iterator[Row]:
    """Return every line of the map."""
    for module, entry in _data()["modules"].items():
        for name in entry.get("names", "").split():
            yield Row(f"{module}.{name}", Home(entry["home"], name), "")
        for name, path in entry.get("elsewhere", {}).items():
            yield Row(f"{module}.{name}", Home(*path.rpartition(".")[::2]), "")
        for name in entry.get("missing", "").split():
            yield Row(f"{module}.{name}", None, advice_for(module, name))


def versions() -> dict[str, str]:
    """Return the versions of LangChain's packages from which the map was made."""
    return dict(_data()["versions"])
