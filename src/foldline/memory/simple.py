"""Memories with fixed values, of several memories, and a read-only view of another memory."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from foldline._run import Run
from foldline.exceptions import UsageError
from foldline.memory.base import BaseMemory

__all__ = ["CombinedMemory", "ReadOnlySharedMemory", "SimpleMemory"]


class SimpleMemory(BaseMemory):
    """Returns fixed values and saves nothing."""

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
    """Combines several memories with distinct variables."""

    memories: list[BaseMemory]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = self.memory_variables
        if len(names) != len(set(names)):
            raise UsageError(f"two of these memories have the same variable: {sorted(names)}")
        return self

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return [name for memory in self.memories for name in memory.memory_variables]

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        variables: dict[str, Any] = {}
        for memory in self.memories:
            variables.update(await memory._call_method("load_memory_variables", run, inputs))
        return variables

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        for memory in self.memories:
            await memory._call_method("save_context", run, inputs, outputs)

    async def _clear(self, run: Run) -> None:
        for memory in self.memories:
            await memory._call_method("clear", run)


class ReadOnlySharedMemory(BaseMemory):
    """A read-only view of another memory."""

    memory: BaseMemory

    @property
    def memory_variables(self) -> list[str]:
        """The names this memory adds to a chain's inputs."""
        return self.memory.memory_variables

    async def _load(self, inputs: dict[str, Any], run: Run) -> dict[str, Any]:
        variables: dict[str, Any] = await self.memory._call_method(
            "load_memory_variables", run, inputs
        )
        return variables

    async def _save(self, inputs: dict[str, Any], outputs: dict[str, Any], run: Run) -> None:
        pass

    async def _clear(self, run: Run) -> None:
        pass
