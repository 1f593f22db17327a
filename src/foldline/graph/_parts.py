"""`GraphParts`: what a run needs of the graph that it runs, as the modules below `compiled` see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from foldline._items.base import BaseStore
    from foldline.checkpoint.base import BaseCheckpointSaver
    from foldline.graph._graph_records import GraphThread
    from foldline.graph._plan import GraphPlan
    from foldline.graph.cache import BaseCache

__all__ = ["GraphParts"]


class GraphParts(Protocol):
    """The plan of a graph, and where its runs store, cache and stop: a `CompiledStateGraph`."""

    name: str | None
    plan: GraphPlan
    checkpointer: BaseCheckpointSaver | bool | None
    cache: BaseCache | None
    store: BaseStore | None
    interrupt_before: list[str]
    interrupt_after: list[str]

    def get_name(self) -> str:
        """Return the name of the graph in traces."""

    def checkpoint_data(
        self, thread: GraphThread, thread_id: str, namespace: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the data of a checkpoint for `stream_mode="checkpoints"`."""
