"""The closed registry: which ids may be built, and by which class.

It grows only by `register_loadable`, a call in code. Data can name a row, never add one, and a module is imported only
because a row names it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal, TypeVar, overload

from pydantic import BaseModel

from foldline.exceptions import SchemaError, UsageError
from foldline.load.mapping import HOMES, LANGCHAIN_NAMES, LANGCHAIN_ROOTS, LOADABLE, Group
from foldline.load.serializable import class_id

__all__ = [
    "register_loadable",
]

AllowedObjects = Iterable[type[BaseModel]] | Literal["all", "core", "messages"] | None
ClassId = tuple[str, ...]
ModelClass = TypeVar("ModelClass", bound=type[BaseModel])


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One row: where the class is (`"module:Class"`, or the class itself) and who may build it."""

    target: str | type[BaseModel]
    group: Group


REGISTRY: dict[ClassId, RegistryEntry] = {
    (*module.split("."), name): RegistryEntry(
        f"{HOMES.get(f'{module}.{name}') or HOMES.get(module, module)}:{name}", group
    )
    for group, modules in LOADABLE.items()
    for module, row in modules.items()
    for name in row.split()
}

VALUE_MODULES = frozenset({"messages", "documents", "outputs", "prompt_values", "structured_query"})

# "all" is not a group of rows, but all groups.
OPEN_GROUPS: dict[str, frozenset[Group]] = {
    "messages": frozenset({"messages"}),
    "core": frozenset({"messages", "core"}),
    "all": frozenset({"messages", "core", "provider"}),
}


@overload
def register_loadable(cls: ModelClass, *, group: Group = "core") -> ModelClass: ...
@overload
def register_loadable(
    cls: None = None, *, group: Group = "core"
) -> Callable[[ModelClass], ModelClass]: ...
def register_loadable(
    cls: ModelClass | None = None, *, group: Group = "core"
) -> ModelClass | Callable[[ModelClass], ModelClass]:
    """Allow dumps of `cls` to be loaded; also a class decorator.

    Pass `group="provider"` if building it from hostile arguments could do harm (it holds a key, a URL, a file): then a
    caller of `load` must allow it by class or by `allowed_objects="all"`.
    """
    if cls is None:
        return lambda decorated: register_loadable(decorated, group=group)
    key = tuple(class_id(cls))
    entry = REGISTRY.get(key)
    if entry is not None and resolve(entry.target) is not cls:
        raise UsageError(
            f"{'.'.join(key)} is already registered for another class. "
            "Give yours its own `get_lc_namespace`."
        )
    REGISTRY[key] = RegistryEntry(cls, group)
    return cls


def resolve(target: str | type[BaseModel]) -> type[BaseModel] | None:
    """Import the class of a row; None if this build of foldline does not have it."""
    if isinstance(target, type):
        return target
    module, _, name = target.partition(":")
    try:
        cls = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise  # the module exists, but something it imports does not
    return cls if isinstance(cls, type) and issubclass(cls, BaseModel) else None


def our_id(key: ClassId) -> ClassId:
    """Return our id for one of LangChain's, or the id itself."""
    if key not in REGISTRY and len(key) > 1 and key[0] in LANGCHAIN_ROOTS:
        return LANGCHAIN_NAMES.get(key[-1], key)
    return key


def belongs_to_another_class(cls: type[BaseModel], key: ClassId) -> bool:
    """Return whether a dump under `key` would come back as another class than `cls`."""
    entry = REGISTRY.get(our_id(key))
    if entry is None:
        return False
    registered: object = entry.target
    if isinstance(registered, str):
        module, _, name = registered.partition(":")
        if module not in sys.modules:
            return True  # its module was never imported, so `cls` cannot be from there
        registered = getattr(sys.modules[module], name, None)
    return registered not in (None, cls, cls.__pydantic_generic_metadata__["origin"])


def is_registered(cls: type[BaseModel]) -> bool:
    """Return whether the registry would build `cls` from its id."""
    key = tuple(class_id(cls))
    return key in REGISTRY and not belongs_to_another_class(cls, key)


def is_provider(key: ClassId) -> bool:
    """Return whether an id is of a class that the caller must allow explicitly."""
    entry = REGISTRY.get(our_id(key))
    return entry is not None and entry.group == "provider"


def loadable_fields(key: ClassId) -> frozenset[str] | None:
    """Return the arguments that a provider's class lets data set; None if it does not declare them."""
    declared_fields = getattr(resolve(REGISTRY[our_id(key)].target), "loadable_fields", None)
    fields: frozenset[str] | None = None if declared_fields is None else declared_fields()
    return fields


@cache
def is_value(cls: type[BaseModel]) -> bool:
    """Return whether objects of `cls` are data that must come back complete, not a behaviour."""
    return any(
        base.__module__.startswith("foldline.") and base.__module__.split(".")[1] in VALUE_MODULES
        for base in cls.__mro__
    )


def is_message(cls: type[BaseModel]) -> bool:
    """Return whether objects of `cls` are messages, to which programs attach objects."""
    return any(
        base.__module__ == "foldline.messages.base" and base.__name__ == "BaseMessage"
        for base in cls.__mro__
    )


class Allowance:
    """The classes that one call of `load` may build."""

    def __init__(
        self,
        allowed_objects: AllowedObjects = None,
        valid_namespaces: list[str] | None = None,
        additional_import_mappings: dict[ClassId, ClassId] | None = None,
    ) -> None:
        self._namespaces = tuple(tuple(name.split(".")) for name in valid_namespaces or ())
        self._classes: dict[ClassId, type[BaseModel]] | None = None
        self._groups = OPEN_GROUPS["core"]
        self._mappings = {
            tuple(key): f"{'.'.join(path[:-1])}:{path[-1]}"
            for key, path in (additional_import_mappings or {}).items()
        }
        if isinstance(allowed_objects, str):
            if allowed_objects not in OPEN_GROUPS:
                raise UsageError(
                    f"allowed_objects={allowed_objects!r}: write 'messages', 'core', 'all' or a "
                    "list of classes"
                )
            self._groups = OPEN_GROUPS[allowed_objects]
        elif allowed_objects is not None:
            self._classes = {tuple(class_id(cls)): cls for cls in allowed_objects}

    def find(self, key: ClassId) -> type[BaseModel]:
        """Return the class of an id; raise a SchemaError if it may not be built."""
        foldline_id = our_id(key)
        if self._classes is not None and foldline_id in self._classes:
            return self._classes[foldline_id]
        entry = REGISTRY.get(foldline_id)
        if key in self._mappings and self._allows(resolve(self._mappings[key])):
            target: str | type[BaseModel] = self._mappings[key]
        elif entry is not None and self._is_open(foldline_id, entry):
            target = entry.target
        else:
            raise SchemaError(self._refusal(key, is_registered=entry is not None))
        cls = resolve(target)
        if cls is None:
            raise SchemaError(f"{'.'.join(key)} is not in this build of foldline")
        return cls

    def _allows(self, mapped: type[BaseModel] | None) -> bool:
        return self._classes is None or mapped in self._classes.values()

    def _is_open(self, key: ClassId, entry: RegistryEntry) -> bool:
        if any(key[: len(namespace)] == namespace for namespace in self._namespaces):
            return True
        return self._classes is None and entry.group in self._groups

    def _refusal(self, key: ClassId, *, is_registered: bool) -> str:
        name = ".".join(key)
        if not is_registered:
            return (
                f"{name} is not a class that may be loaded; not allowed by the registry: "
                "see foldline.load.register_loadable"
            )
        return f"{name} may not be loaded here: not allowed. Name its class in `allowed_objects` if you trust the data"
