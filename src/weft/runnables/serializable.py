"""`RunnableSerializable`: a runnable that is also a Pydantic model, so it can be dumped, loaded and configured."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ConfigDict

from weft.load.serializable import Serializable
from weft.runnables.base import Runnable

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)


class RunnableSerializable(Serializable, Runnable[Input, Output]):
    """A runnable whose settings are Pydantic fields."""

    name: str | None = None
    """The name of this runnable in traces."""

    model_config = ConfigDict(protected_namespaces=(), arbitrary_types_allowed=True)

    def _serialized(self) -> dict[str, Any] | None:
        return None
