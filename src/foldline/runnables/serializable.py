"""`RunnableSerializable`: a runnable that is also a Pydantic model, so it can be dumped, loaded and configured."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

from pydantic import ConfigDict

from foldline.load.serializable import Serializable
from foldline.runnables.base import Runnable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableSerializable(Serializable, Runnable[Input, Output]):
    """A runnable whose settings are Pydantic fields."""

    name: str | None = None
    """The name of this runnable in traces."""

    model_config = ConfigDict(protected_namespaces=(), arbitrary_types_allowed=True)

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Any = None,
    ) -> bool | None:
        """Build the schema now, as Pydantic does when it is first needed.

        Pydantic also builds it whenever a class is subscripted, as in `class Mine(Runnable...[str, int])`: for classes
        whose schema nobody needs yet that was a tenth of the time to import a provider.
        """
        if not force and sys._getframe(1).f_code.co_name == "__class_getitem__":
            return None
        return super().model_rebuild(
            force=force,
            raise_errors=raise_errors,
            _parent_namespace_depth=_parent_namespace_depth + 1,  # for the frame of this method
            _types_namespace=_types_namespace,
        )

    def _serialized(self) -> dict[str, Any] | None:
        return None
