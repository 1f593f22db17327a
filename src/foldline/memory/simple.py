"""Memories made of others: fixed values, several at once, one that chains may read and not write."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.memory.base import BaseMemory

__all__ = ["CombinedMemory", "ReadOnlySharedMemory", "SimpleMemory"]


class SimpleMemory(BaseMemory):
    """Gives fixed values and remembers nothing."""

    memories: dict[str, Any] = Field(default_factory=dict)

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return list(self.memories)

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        return dict(self.memories)

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        pass

    async def _clear(self, run: Run) -> None:
        pass


class CombinedMemory(BaseMemory):
    """Several memories, each with variables of its own."""

    memories: list[BaseMemory]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = self.memory_variables
        if len(names) != len(set(names)):
            raise UsageError(f"two of these memories give the same variable: {sorted(names)}")
        return self

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [name for memory in self.memories for name in memory.memory_variables]

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        loaded: dict[str, Any] = {}
        for memory in self.memories:
            loaded.update(await memory._ask("load_memory_variables", run, inputs))
        return loaded

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        for memory in self.memories:
            await memory._ask("save_context", run, inputs, outputs)

    async def _clear(self, run: Run) -> None:
        for memory in self.memories:
            await memory._ask("clear", run)


class ReadOnlySharedMemory(BaseMemory):
    """Another memory, which the chain may read and not write."""

    memory: BaseMemory

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return self.memory.memory_variables

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        loaded: dict[str, Any] = await self.memory._ask("load_memory_variables", run, inputs)
        return loaded

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        pass

    async def _clear(self, run: Run) -> None:
        pass
