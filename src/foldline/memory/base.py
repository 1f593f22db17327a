"""`BaseMemory`: what a chain remembers between calls. It gives variables before a call and takes both sides after.

An author writes `load_memory_variables`, `save_context` and `clear` (an async twin where it can wait without a thread);
foldline's own memories write the bodies `_load`, `_save`, `_clear`, once for both colours.
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
"""LangChain's methods, and the body of both colours behind each."""


class BaseMemory(Serializable, ABC):
    """What a chain remembers between calls."""

    @property
    @abstractmethod
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""

    # -- bodies: one for both colours

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} must implement `load_memory_variables`")

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        raise NotImplementedError(f"{type(self).__name__} must implement `save_context`")

    async def _clear(self, run: Run) -> None:
        raise NotImplementedError(f"{type(self).__name__} must implement `clear`")

    async def _ask(self, name: str, run: Run, *arguments: object) -> Any:  # noqa: ANN401  what the method of that name returns
        """Do what the nearest class says: a method that an author wrote, or our body."""
        own = _author_method(type(self), name, blocking=run.io.blocking)
        if own is not None:
            return await run.io.call(getattr(self, own), *arguments)
        return await getattr(self, BODIES[name])(*arguments, run)

    async def _async_method(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  what the method of that name returns
        """The awaited twin of a method that an author may have written in the blocking colour alone."""
        run, cls = Run.asynchronous(), type(self)
        own = _author_method(cls, name, blocking=True)
        if own is not None and getattr(cls, f"a{name}") is getattr(BaseMemory, f"a{name}"):
            return await run.io.call(getattr(self, own), *arguments)
        return await getattr(self, BODIES[name])(*arguments, run)

    # -- what chains and people call

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the variables for a chain's next call."""
        return drive(self._load(inputs, Run.blocking()))

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the variables for a chain's next call."""
        loaded: dict[str, Any] = await self._async_method("load_memory_variables", inputs)
        return loaded

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Remember what went in and what came out."""
        drive(self._save(inputs, outputs, Run.blocking()))

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Remember what went in and what came out."""
        await self._async_method("save_context", inputs, outputs)

    def clear(self) -> None:
        """Forget everything."""
        drive(self._clear(Run.blocking()))

    async def aclear(self) -> None:
        """Forget everything."""
        await self._async_method("clear")


@cache
def _author_method(cls: type[BaseMemory], name: str, *, blocking: bool) -> str | None:
    """Return the method that an author wrote nearer than our body for it."""
    for ancestor in cls.__mro__:
        if ancestor is BaseMemory or BODIES[name] in ancestor.__dict__:
            return None
        for one in (name,) if blocking else (f"a{name}", name):
            if one in ancestor.__dict__:
                return one
    return None
