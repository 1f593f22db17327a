"""`ThreadStates`: reading and changing the threads of a graph or an entrypoint, sync and async."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from foldline._config import RunnableConfig
from foldline._io.drive import drive
from foldline._run import Run
from foldline.graph.types import StateSnapshot, StateUpdate

__all__ = ["ThreadStates"]


class ThreadStates(ABC):
    """What callers do with stored threads."""

    @abstractmethod
    async def _state(self, run: Run, *, subgraphs: bool) -> StateSnapshot:
        """Return the state of a thread."""

    @abstractmethod
    async def _history(
        self,
        run: Run,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[StateSnapshot]:
        """Return the states of a thread, the newest first."""

    @abstractmethod
    async def _update(
        self, run: Run, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Change a thread; return the config of the last checkpoint."""

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread, or its state at `configurable.checkpoint_id`."""
        return drive(self._state(Run.blocking(config), subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread, or its state at `configurable.checkpoint_id`."""
        return await self._state(Run.asynchronous(config), subgraphs=subgraphs)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Return the states of a thread, the newest first."""
        return iter(drive(self._history(Run.blocking(config), filter, before, limit)))

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: Mapping[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Return the states of a thread, the newest first."""
        for snapshot in await self._history(Run.asynchronous(config), filter, before, limit):
            yield snapshot

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,  # noqa: ANN401  a dict, or the one value that the state is
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Change a thread as if a node had; return the config of the new checkpoint.

        The saved value of an entrypoint is what its next run reads as `previous`.
        """
        update = StateUpdate(values, as_node, task_id)
        return drive(self._update(Run.blocking(config), [[update]]))

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,  # noqa: ANN401  a dict, or the one value that the state is
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Change a thread as if a node had; return the config of the new checkpoint."""
        update = StateUpdate(values, as_node, task_id)
        return await self._update(Run.asynchronous(config), [[update]])

    def bulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Change a thread by several steps, all or none; return the config of the last checkpoint."""
        return drive(self._update(Run.blocking(config), supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Change a thread by several steps, all or none; return the config of the last checkpoint."""
        return await self._update(Run.asynchronous(config), supersteps)
