"""`CompiledStateGraph`: a graph that runs; its threads can be read, changed, and gone on with from any point."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel, create_model

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
from foldline.graph.records import GraphThread, Outcome, encode_target, record
from foldline.graph.runtime import Runtime
from foldline.graph.schema import ROOT
from foldline.graph.store.base import BaseStore
from foldline.graph.threads import load_thread
from foldline.graph.types import END, START, GraphTask, StateSnapshot
from foldline.runnables.graph import Graph
from foldline.workflows.journal import chain_of
from foldline.workflows.log import Log, thread_of
from foldline.workflows.loop_runnable import LoopRunnable
from foldline.workflows.nesting import within

if TYPE_CHECKING:
    from foldline.graph.builder import StateGraph

__all__ = ["CompiledStateGraph"]

Values = dict[str, Any]
SHOWN = ("input", "step", "update", "fork")


class CompiledStateGraph(LoopRunnable[Any, Any]):
    """A graph that runs. Made by `StateGraph.compile`."""

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
        """Name the graph and its nodes."""
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
        """The schema of what this graph takes as a node of another."""
        return self.plan.input.schema

    # -- running

    def _loop(self, run: Run, wants: frozenset[str]) -> GraphLoop:
        return GraphLoop(self, run, wants=wants, outer=within.get())

    # -- threads

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return where a thread stands, or stood at `configurable.checkpoint_id`."""
        return drive(self._state(Run.blocking(config), subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return where a thread stands, or stood at `configurable.checkpoint_id`."""
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
        """Change a thread as if a node had; returns the config of the new checkpoint."""
        return drive(self._update(Run.blocking(config), values, as_node))

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,  # noqa: ANN401  a dict, or the one value that the state is
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Change a thread as if a node had; returns the config of the new checkpoint."""
        return await self._update(Run.asynchronous(config), values, as_node)

    def _log(self, run: Run) -> tuple[CompiledStateGraph, Log]:
        """Return the graph that a config names (this one, or one inside), and its log."""
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
        """Return a thread as callers see it."""
        config = _config(thread_id, namespace, thread.base)
        parent = (
            None
            if thread.base_parent is None
            else _config(thread_id, namespace, thread.base_parent)
        )
        tasks = []
        for task in thread.tasks(namespace):
            place = f"{namespace}|{task.name}:{task.id}" if namespace else f"{task.name}:{task.id}"
            is_graph = self.plan.nodes[task.name].is_graph
            done = thread.finished.get(task.id)
            tasks.append(
                GraphTask(
                    task.id,
                    task.name,
                    task.path,
                    thread.error_of(task.id),
                    interrupts=() if done else tuple(thread.interrupts),
                    state=_config(thread_id, place, None) if is_graph else None,
                    result=None if done is None else done.update,
                )
            )
        shown = self.plan.state.names
        return StateSnapshot(
            values=self.plan.keys.without_root(
                {key: thread.values[key] for key in shown if key in thread.values}
            ),
            next=tuple(one.name for one in tasks),
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
        """Describe a checkpoint for `stream_mode="checkpoints"`."""
        snapshot = self.snapshot(thread, thread_id, "|".join(namespace))
        return {
            "config": snapshot.config,
            "parent_config": snapshot.parent_config,
            "values": snapshot.values,
            "metadata": snapshot.metadata,
            "next": list(snapshot.next),
            "tasks": [
                {"id": one.id, "name": one.name, "interrupts": one.interrupts, "state": None}
                for one in snapshot.tasks
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
        found: list[StateSnapshot] = []
        chain = chain_of(entries, run.configurable.get("checkpoint_id"))
        for entry in chain:
            kind = thread.take_entry(entry)
            if kind in SHOWN:
                found.append(graph.snapshot(thread, log.thread_id, log.namespace))
            elif found:  # what came of the step: its finished tasks, its questions
                found[-1] = graph.snapshot(thread, log.thread_id, log.namespace)
        found.reverse()
        if before is not None:
            last = before.get("configurable", {}).get("checkpoint_id")
            ids = [one.config["configurable"].get("checkpoint_id") for one in found]
            found = found[ids.index(last) + 1 :] if last in ids else found
        if filter:
            found = [
                one
                for one in found
                if all((one.metadata or {}).get(key) == value for key, value in filter.items())
            ]
        return found[:limit]

    async def _update(
        self,
        run: Run,
        values: Any,  # noqa: ANN401  as in update_state
        as_node: str | None,
    ) -> RunnableConfig:
        graph, log = self._log(run)
        plan = graph.plan
        thread = await load_thread(graph, log, run.io, run.configurable.get("checkpoint_id"))
        node = as_node or graph._author(thread)
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
                    "next": [encode_target(one, plan.keys) for one in thread.next],
                }
        else:
            if node != START and node not in plan.nodes:
                raise InvalidUpdateError(f"update_state(as_node={node!r}): there is no such node")
            joined = plan.keys.join(thread.values, [(node, update)])
            goto = []
            if node in plan.branches:
                loop = GraphLoop(graph, run.patched(kwargs={}), wants=frozenset(), outer=None)
                goto = await loop.ask_branches(
                    plan.branches[node], node, joined, run, Runtime(store=graph.store)
                )
            outcome = Outcome(node, update, goto)
            targets, waiting, deferred = plan.next_targets(
                [outcome], thread.waiting, thread.deferred
            )
            body["tasks"] = [{"name": node, "update": plan.keys.encode(update, "update_state")}]
            body |= {
                "step": thread.step + 1,
                "next": [encode_target(one, plan.keys) for one in targets],
                "waiting": waiting,
                "deferred": deferred,
            }
        if thread.is_paused:
            body["paused"] = True
        if body["next"] == [encode_target(one, plan.keys) for one in thread.next]:
            body["keeps"] = True
        pending = log.add(body, thread.head)
        await log.flush(run.io, pending)
        return _config(log.thread_id, log.namespace, pending.entry.id)

    def _author(self, thread: GraphThread) -> str | None:
        """Return the node that an update without a name counts as: the last one that ran, if it was one alone."""
        if thread.base is None:
            return START
        if thread.source == "input" and not thread.ran:
            return None
        ran = [one for one in thread.ran if one in self.plan.nodes]
        if len(set(ran)) == 1:
            return ran[0]
        if not ran:
            return None
        raise InvalidUpdateError(
            f"the last step ran {', '.join(sorted(set(ran)))}: say as which of them to update, update_state(…, "
            f"as_node=…)"
        )

    # -- looking at it

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return nodes and edges, to be drawn; `xray` draws the graphs inside too."""
        return draw_plan(self.plan, int(xray) if xray is not True else 99)

    async def aget_graph(
        self, config: RunnableConfig | None = None, *, xray: int | bool = False
    ) -> Graph:
        """Return nodes and edges, to be drawn; `xray` draws the graphs inside too."""
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
            root: type[BaseModel] = RootModel[self.plan.keys.types[ROOT]]  # type: ignore[name-defined]
            return root
        fields: dict[str, Any] = {key: (self.plan.keys.types[key], None) for key in names}
        model: type[BaseModel] = create_model(f"{self.name}{suffix}", **fields)
        return model

    def with_config(self, config: RunnableConfig | None = None, **kwargs: object) -> Any:  # noqa: ANN401  a binding, which takes the graph's methods over
        """Return this graph with a config bound, under which it is still a graph."""
        return super().with_config(config, **kwargs)


def _config(thread_id: str, namespace: str, checkpoint: str | None) -> RunnableConfig:
    names: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint is not None:
        names["checkpoint_id"] = checkpoint
    return {"configurable": names}


def _with_config(run: Run, config: RunnableConfig) -> Run:
    return Run.root(run.io, config, {})


def _replace(snapshot: StateSnapshot, *, tasks: tuple[GraphTask, ...]) -> StateSnapshot:
    return StateSnapshot(
        snapshot.values, snapshot.next, snapshot.config, snapshot.metadata, snapshot.created_at,
        snapshot.parent_config, tasks, snapshot.interrupts,
    )  # fmt: skip
