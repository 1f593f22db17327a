"""`BaseMemory`: what a chain remembers between calls. It gives variables before a call and takes both sides after.

An author writes `load_memory_variables`, `save_context` and `clear` (an async twin where it can wait without a thread);
weft's own memories write the bodies `_load`, `_save`, `_clear`, once for both colours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from weft._drive import drive
from weft._run import Run
from weft.load.serializable import Serializable

__all__ = ["BaseMemory"]


class BaseMemory(Serializable, ABC):
    """What a chain remembers between calls."""

    @property
    @abstractmethod
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""

    # -- bodies: one for both colours

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        loaded: dict[str, Any] = await self._by_hand("load_memory_variables", run, inputs)
        return loaded

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        await self._by_hand("save_context", run, inputs, outputs)

    async def _clear(self, run: Run) -> None:
        await self._by_hand("clear", run)

    async def _by_hand(self, name: str, run: Run, *arguments: Any) -> Any:
        """Call what an author wrote: the twin of the right colour if there is one."""
        twin = f"a{name}"
        if not run.io.blocking and _is_own(self, twin):
            return await getattr(self, twin)(*arguments)
        if _is_own(self, name):
            return await run.io.call(getattr(self, name), *arguments)
        raise NotImplementedError(f"{type(self).__name__} must implement `{name}`")

    # -- what chains and people call

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Give the variables for a chain's next call."""
        return drive(self._load(inputs, Run.blocking()))

    async def aload_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Give the variables for a chain's next call."""
        return await self._load(inputs, Run.asynchronous())

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Remember what went in and what came out."""
        drive(self._save(inputs, outputs, Run.blocking()))

    async def asave_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        """Remember what went in and what came out."""
        await self._save(inputs, outputs, Run.asynchronous())

    def clear(self) -> None:
        """Forget everything."""
        drive(self._clear(Run.blocking()))

    async def aclear(self) -> None:
        """Forget everything."""
        await self._clear(Run.asynchronous())


def _is_own(memory: BaseMemory, name: str) -> bool:
    return getattr(type(memory), name) is not getattr(BaseMemory, name)
