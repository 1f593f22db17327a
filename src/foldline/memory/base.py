"""`BaseMemory`: state that a chain keeps between calls.

A memory adds variables to the inputs before a call, and saves inputs and outputs after it. A user's subclass implements
`load_memory_variables`, `save_context` and `clear`, and their async forms if they can wait without a thread. foldline's
memories implement `_load`, `_save` and `_clear` instead, one body for sync and async calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

from foldline._io.drive import drive
from foldline._run import Run
from foldline.load.serializable import Serializable

__all__ = ["BaseMemory"]

BODIES = {"load_memory_variables": "_load", "save_context": "_save", "clear": "_clear"}
"""LangChain's methods -> foldline's body for sync and async calls."""


class BaseMemory(Serializable, ABC):
    """Base of memories: state that a chain keeps between calls."""

    @property
    @abstractmethod
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""

    # -- bodies for sync and async calls

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} must implement `load_memory_variables`")

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        raise NotImplementedError(f"{type(self).__name__} must implement `save_context`")

    async def _clear(self, run: Run) -> None:
        raise NotImplementedError(f"{type(self).__name__} must implement `clear`")

    async def _call_method(self, name: str, run: Run, *arguments: object) -> Any:  # noqa: ANN401  what the method of that name returns
        """Call the method of a subclass if it is nearer in the MRO than foldline's body, else the body."""
        method = _author_method(type(self), name, blocking=run.io.blocking)
        if method is not None:
            return await run.io.call(getattr(self, method), *arguments)
        return await getattr(self, BODIES[name])(*arguments, run)

    async def _async_method(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  what the method of that name returns
        """Call a method from its async form; a subclass may implement only the sync form."""
        run, cls = Run.asynchronous(), type(self)
        sync_method = _author_method(cls, name, blocking=True)
        if sync_method is not None and getattr(cls, f"a{name}") is getattr(BaseMemory, f"a{name}"):
            return await run.io.call(getattr(self, sync_method), *arguments)
        return await getattr(self, BODIES[name])(*arguments, run)

    # -- the public methods

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the variables for a chain's next call."""
        return drive(self._load(inputs, Run.blocking()))

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the variables for a chain's next call."""
        variables: dict[str, Any] = await self._async_method("load_memory_variables", inputs)
        return variables

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Save the inputs and outputs of a call."""
        drive(self._save(inputs, outputs, Run.blocking()))

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Save the inputs and outputs of a call."""
        await self._async_method("save_context", inputs, outputs)

    def clear(self) -> None:
        """Delete everything."""
        drive(self._clear(Run.blocking()))

    async def aclear(self) -> None:
        """Delete everything."""
        await self._async_method("clear")


@cache
def _author_method(cls: type[BaseMemory], name: str, *, blocking: bool) -> str | None:
    """Return the name of a subclass's method if it is nearer in the MRO than foldline's body, else None."""
    for ancestor in cls.__mro__:
        if ancestor is BaseMemory or BODIES[name] in ancestor.__dict__:
            return None
        for method in (name,) if blocking else (f"a{name}", name):
            if method in ancestor.__dict__:
                return method
    return None
