"""`RunnableSerializable`: a runnable that is a Pydantic model, so it can be dumped, loaded and configured."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

from pydantic import ConfigDict

from foldline.load.serializable import Serializable
from foldline.runnables._legacy import PATCHABLE, rebind_overrides
from foldline.runnables.base import Chunk, Input, Output, Runnable

if TYPE_CHECKING:
    # Pydantic's metaclass is private; to a type checker ours is the same.
    from pydantic._internal._model_construction import ModelMetaclass as PatchableType
else:

    class PatchableType(type(Serializable)):
        """Detects a public method that is set on a finished class, as `mock.patch.object` does."""

        def __setattr__(cls, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name in PATCHABLE:
                rebind_overrides(cls)

        def __delattr__(cls, name: str) -> None:
            super().__delattr__(name)
            if name in PATCHABLE:
                rebind_overrides(cls)


class RunnableSerializable(Serializable, Runnable[Input, Output, Chunk], metaclass=PatchableType):
    """A runnable whose settings are Pydantic fields."""

    name: str | None = None
    """The name of this runnable in traces."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        protected_namespaces=(), arbitrary_types_allowed=True
    )

    if not TYPE_CHECKING:
        # `RunnableSerializable[str, int]` declares the types of input and output. Pydantic would make a class of it, in
        # the ancestry of every subclass; the parameters are hidden from Pydantic, because no field depends on them.

        def __class_getitem__(cls, parameters: object) -> GenericAlias:
            return GenericAlias(cls, parameters)

        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
            # As a field of another model, with or without parameters.
            return handler(get_origin(source) or source)

        @classmethod
        def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
            cls.__pydantic_generic_metadata__ = {"origin": None, "args": (), "parameters": ()}

    def _serialized(self) -> dict[str, Any] | None:
        return None


RunnableSerializable.__pydantic_generic_metadata__ = {"origin": None, "args": (), "parameters": ()}
