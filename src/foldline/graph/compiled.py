"""`CompiledStateGraph`: a graph that runs; its threads can be read, changed, and continued from any checkpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, create_model

from foldline._config import RunnableConfig
from foldline._io.drive import drive
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import InvalidUpdateError, UsageError
from foldline.graph.cache import BaseCache
from foldline.graph.drawing import draw_plan
from foldline.graph.loop import GraphLoop
from foldline.graph.nodes import NodeSpec
from foldline.graph.plan import GraphPlan
from foldline.graph.records import GraphThread, TaskOutcome, encode_target, record
from foldline.graph.runtime import Runtime
from foldline.graph.schema import ROOT
from foldline.graph.store.base import BaseStore
from foldline.graph.threads import load_thread
from foldline.graph.types import END, START, GraphTask, StateSnapshot
from foldline.runnables.graph import Graph
from foldline.workflows.journal import chain_of
from foldline.workflows.log import Log, thread_of
from foldline.workflows.loop_runnable import LoopRunnable
from foldline.workflows.nesting import current_parent

if TYPE_CHECKING:
    from foldline.graph.builder import StateGraph

__all__ = ["CompiledStateGraph"]

Values = dict[str, Any]
CHECKPOINT_KINDS = ("input", "step", "update", "fork")


class CompiledStateGraph(LoopRunnable[Any, Any]):
    """A graph that runs. Made by `StateGraph.compile`."""

    _pause_options: ClassVar[tuple[str, ...]] = ("interrupt_before", "interrupt_after")

    def __init__(
        self,
        plan: GraphPlan,
        *,
        builder: StateGraph,
        name: str,
        checkpointer: BaseCheckpointSaver | bool | None,
        cache: BaseCache | None,
        store: BaseStore | None,
        interrupt_before: list[str],
        interrupt_after: list[str],
        debug: bool,
    ) -> None:
        self.plan = plan
        self.builder = builder
        self.name = name
        self.checkpointer = checkpointer
        self.cache = cache
        self.store = store
        self.interrupt_before = interrupt_before
        self.interrupt_after = interrupt_after
        self.debug = debug

    def __repr__(self) -> str:
        """Return the graph's name and its nodes."""
        return f"CompiledStateGraph({self.name!r}, nodes={[*self.plan.nodes]!r:.200})"

    def _repr_svg_(self) -> str:
        return self.get_graph().draw_svg()

    @property
    def graph_nodes(self) -> dict[str, NodeSpec]:
        """The nodes by name."""
        return self.plan.nodes

    @property
    def nodes(self) -> dict[str, NodeSpec]:
        """The nodes by name."""
        return self.plan.nodes

    @property
    def input_shape_schema(self) -> object:
        """The schema of this graph's input as a node of another graph."""
        return self.plan.input.schema

    # -- running

    def _loop(self, run: Run, wants: frozenset[str]) -> GraphLoop:
        return GraphLoop(self, run, wants=wants, outer=current_parent.get())

    # -- threads

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
        """Change a thread as if a node had; return the config of the new checkpoint."""
        return drive(self._update(Run.blocking(config), values, as_node))

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,  # noqa: ANN401  a dict, or the one value that the state is
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Change a thread as if a node had; return the config of the new checkpoint."""
        return await self._update(Run.asynchronous(config), values, as_node)

    def _log(self, run: Run) -> tuple[CompiledStateGraph, Log]:
        """Return the graph of a config (this one, or a nested one), and its log."""
        saver = self.checkpointer
        if not isinstance(saver, BaseCheckpointSaver):
            raise UsageError(f"{self.name} has no checkpointer: graph.compile(checkpointer=…)")
        namespace = run.configurable.get("checkpoint_ns") or ""
        graph = self
        for part in namespace.split("|") if namespace else ():
            inner = graph.plan.nodes.get(part.partition(":")[0])
            if inner is None or not isinstance(inner.action, CompiledStateGraph):
                raise UsageError(f"checkpoint_ns={namespace!r}: there is no graph at {part!r}")
            graph = inner.action
        return graph, Log(saver, thread_of(run.configurable, self.get_name()), namespace)

    async def _state(self, run: Run, *, subgraphs: bool) -> StateSnapshot:
        graph, log = self._log(run)
        at = run.configurable.get("checkpoint_id")
        thread = await load_thread(graph, log, run.io, at, with_pending=True)
        snapshot = graph.snapshot(thread, log.thread_id, log.namespace)
        if not subgraphs:
            return snapshot
        tasks = []
        for task in snapshot.tasks:
            if task.state is not None:
                inner = await self._state(_with_config(run, task.state), subgraphs=True)
                task = GraphTask(
                    task.id, task.name, task.path, task.error, task.interrupts, inner, task.result
                )
            tasks.append(task)
        return _replace(snapshot, tasks=tuple(tasks))

    def snapshot(self, thread: GraphThread, thread_id: str, namespace: str) -> StateSnapshot:
        """Return the snapshot of a thread for callers."""
        config = _config(thread_id, namespace, thread.base)
        parent = (
            None
            if thread.base_parent is None
            else _config(thread_id, namespace, thread.base_parent)
        )
        tasks = []
        for task in thread.tasks(namespace):
            task_namespace = (
                f"{namespace}|{task.name}:{task.id}" if namespace else f"{task.name}:{task.id}"
            )
            is_graph = self.plan.nodes[task.name].is_graph
            outcome = thread.finished.get(task.id)
            tasks.append(
                GraphTask(
                    task.id,
                    task.name,
                    task.path,
                    thread.error_of(task.id),
                    interrupts=() if outcome else tuple(thread.interrupts),
                    state=_config(thread_id, task_namespace, None) if is_graph else None,
                    result=None if outcome is None else outcome.update,
                )
            )
        public_keys = self.plan.state.names
        return StateSnapshot(
            values=self.plan.keys.without_root(
                {key: thread.values[key] for key in public_keys if key in thread.values}
            ),
            next=tuple(task.name for task in tasks),
            config=config,
            metadata={"source": thread.source, "step": thread.step, "parents": {}}
            if thread.head
            else None,
            created_at=thread.at,
            parent_config=parent,
            tasks=tuple(tasks),
            interrupts=tuple(thread.interrupts),
        )

    def checkpoint_data(
        self, thread: GraphThread, thread_id: str, namespace: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return the data of a checkpoint for `stream_mode="checkpoints"`."""
        snapshot = self.snapshot(thread, thread_id, "|".join(namespace))
        return {
            "config": snapshot.config,
            "parent_config": snapshot.parent_config,
            "values": snapshot.values,
            "metadata": snapshot.metadata,
            "next": list(snapshot.next),
            "tasks": [
                {"id": task.id, "name": task.name, "interrupts": task.interrupts, "state": None}
                for task in snapshot.tasks
            ],
        }

    async def _history(
        self,
        run: Run,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> list[StateSnapshot]:
        graph, log = self._log(run)
        entries = await log.read(run.io)
        thread = GraphThread(graph.plan.keys, graph.plan.keys.empty())
        snapshots: list[StateSnapshot] = []
        chain = chain_of(entries, run.configurable.get("checkpoint_id"))
        for entry in chain:
            kind = thread.take_entry(entry)
            if kind in CHECKPOINT_KINDS:
                snapshots.append(graph.snapshot(thread, log.thread_id, log.namespace))
            elif snapshots:  # results of the step: its finished tasks, its questions
                snapshots[-1] = graph.snapshot(thread, log.thread_id, log.namespace)
        snapshots.reverse()
        if before is not None:
            before_id = before.get("configurable", {}).get("checkpoint_id")
            ids = [snapshot.config["configurable"].get("checkpoint_id") for snapshot in snapshots]
            snapshots = snapshots[ids.index(before_id) + 1 :] if before_id in ids else snapshots
        if filter:
            snapshots = [
                snapshot
                for snapshot in snapshots
                if all((snapshot.metadata or {}).get(key) == value for key, value in filter.items())
            ]
        return snapshots[:limit]

    async def _update(
        self,
        run: Run,
        values: Any,  # noqa: ANN401  as in update_state
        as_node: str | None,
    ) -> RunnableConfig:
        graph, log = self._log(run)
        plan = graph.plan
        thread = await load_thread(graph, log, run.io, run.configurable.get("checkpoint_id"))
        node = as_node or graph._default_node(thread)
        update = plan.keys.check(plan.keys.as_update(values), "update_state")
        body = record("update")
        if node is None or node == END:
            body["tasks"] = [
                {"name": "update_state", "update": plan.keys.encode(update, "update_state")}
            ]
            if node == END:
                body |= {"step": thread.step + 1, "next": []}
            else:
                body |= {
                    "step": thread.step + 1,
                    "next": [encode_target(target, plan.keys) for target in thread.next],
                }
        else:
            if node != START and node not in plan.nodes:
                raise InvalidUpdateError(f"update_state(as_node={node!r}): there is no such node")
            values_after = plan.keys.join(thread.values, [(node, update)])
            goto = []
            if node in plan.branches:
                loop = GraphLoop(graph, run.patched(kwargs={}), wants=frozenset(), outer=None)
                goto = await loop.ask_branches(
                    plan.branches[node], node, values_after, run, Runtime(store=graph.store)
                )
            outcome = TaskOutcome(node, update, goto)
            targets, waiting, deferred = plan.next_targets(
                [outcome], thread.waiting, thread.deferred
            )
            body["tasks"] = [{"name": node, "update": plan.keys.encode(update, "update_state")}]
            body |= {
                "step": thread.step + 1,
                "next": [encode_target(target, plan.keys) for target in targets],
                "waiting": waiting,
                "deferred": deferred,
            }
        if thread.is_paused:
            body["paused"] = True
        if body["next"] == [encode_target(target, plan.keys) for target in thread.next]:
            body["keeps"] = True
        pending = log.add(body, thread.head)
        await log.flush(run.io, pending)
        return _config(log.thread_id, log.namespace, pending.entry.id)

    def _default_node(self, thread: GraphThread) -> str | None:
        """Return the node that an update without a name counts as: the last node that ran, if it was the only one."""
        if thread.base is None:
            return START
        if thread.source == "input" and not thread.last_nodes:
            return None
        nodes = [name for name in thread.last_nodes if name in self.plan.nodes]
        if len(set(nodes)) == 1:
            return nodes[0]
        if not nodes:
            return None
        raise InvalidUpdateError(
            f"the last step ran {', '.join(sorted(set(nodes)))}: choose one of them, update_state(…, as_node=…)"
        )

    # -- inspection

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return the drawable graph of nodes and edges; `xray` includes nested graphs."""
        return draw_plan(self.plan, int(xray) if xray is not True else 99)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """Return the drawable graph of nodes and edges; `xray` includes nested graphs."""
        return self.get_graph(config, xray=xray)

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledStateGraph]]:
        """Return the graphs that are nodes of this one, by their names."""
        for name, spec in self.plan.nodes.items():
            if not isinstance(spec.action, CompiledStateGraph):
                continue
            if namespace is None or namespace == name:
                yield name, spec.action
            if recurse:
                for inner, graph in spec.action.get_subgraphs(recurse=True):
                    yield f"{name}|{inner}", graph

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input as a Pydantic model."""
        return self._model("Input", self.plan.input.names, self.plan.input.schema)

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the output as a Pydantic model."""
        return self._model("Output", self.plan.output.names, self.plan.output.schema)

    def _model(self, suffix: str, names: list[str], schema: object) -> type[BaseModel]:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            return schema
        if self.plan.keys.is_root:
            from pydantic import RootModel  # noqa: PLC0415  it builds a schema when it is imported

            root: type[BaseModel] = RootModel[self.plan.keys.types[ROOT]]  # type: ignore[name-defined]
            return root
        fields: dict[str, Any] = {key: (self.plan.keys.types[key], None) for key in names}
        model: type[BaseModel] = create_model(f"{self.name}{suffix}", **fields)
        return model

    def with_config(self, config: RunnableConfig | None = None, **kwargs: object) -> Any:  # noqa: ANN401  a binding that has the graph's methods
        """Return this graph with a config bound; the result has the methods of a graph."""
        return super().with_config(config, **kwargs)


def _config(thread_id: str, namespace: str, checkpoint: str | None) -> RunnableConfig:
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint is not None:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def _with_config(run: Run, config: RunnableConfig) -> Run:
    return Run.root(run.io, config, {})


def _replace(snapshot: StateSnapshot, *, tasks: tuple[GraphTask, ...]) -> StateSnapshot:
    return StateSnapshot(
        snapshot.values, snapshot.next, snapshot.config, snapshot.metadata, snapshot.created_at,
        snapshot.parent_config, tasks, snapshot.interrupts,
    )  # fmt: skip
