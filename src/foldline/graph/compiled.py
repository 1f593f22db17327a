"""`CompiledStateGraph`: a graph that runs; its threads can be read, changed, and continued from any checkpoint."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, cast

from pydantic import BaseModel, create_model

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import UsageError
from foldline.graph._drawing import draw_plan
from foldline.graph._graph_loop import GraphLoop
from foldline.graph._graph_records import (
    GraphThread,
    PlannedTask,
)
from foldline.graph._node_spec import NodeSpec
from foldline.graph._plan import GraphPlan
from foldline.graph._run_start import check_command, check_message
from foldline.graph._state_updates import ThreadUpdate
from foldline.graph._thread_states import ThreadStates
from foldline.graph._threads import all_states, load_thread
from foldline.graph.cache import BaseCache
from foldline.graph.schema import ROOT
from foldline.graph.store.base import BaseStore
from foldline.graph.types import (
    START,
    Command,
    ContextT,
    GraphTask,
    InputT,
    OutputT,
    StateSnapshot,
    StateT,
    StateUpdate,
    TaskError,
)
from foldline.runnables.graph import Graph
from foldline.utils.strings import suggestion
from foldline.workflows._loop_runnable import LoopRunnable
from foldline.workflows._nesting import current_parent
from foldline.workflows._thread_log import Log, chain_of, thread_of
from foldline.workflows.interrupts import question_data
from foldline.workflows.values import adapter_of

__all__ = ["CompiledStateGraph"]

Values = dict[str, Any]


class CompiledStateGraph(
    ThreadStates,
    LoopRunnable[InputT | Command[Any] | None, OutputT],
    Generic[StateT, ContextT, InputT, OutputT],
):
    """A graph that runs. Made by `StateGraph.compile`."""

    _pause_options: ClassVar[tuple[str, ...]] = ("interrupt_before", "interrupt_after")
    _view_options: ClassVar[tuple[str, ...]] = ("subgraphs", "debug", "print_mode", "output_keys")

    def __init__(
        self,
        plan: GraphPlan,
        *,
        builder: Any,  # noqa: ANN401  the `StateGraph`, whose module imports this one
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

    def _log(self, run: Run) -> tuple[CompiledStateGraph, Log]:
        """Return the graph of a config (this one, or a nested one), and its log."""
        saver = self.checkpointer
        if not isinstance(saver, BaseCheckpointSaver):
            raise UsageError(f"{self.name} has no checkpointer: graph.compile(checkpointer=…)")
        namespace = run.configurable.get("checkpoint_ns") or ""
        graph: CompiledStateGraph[Any, Any, Any, Any] = self
        for part in namespace.split("|") if namespace else ():
            if (
                part.isdecimal()
            ):  # a further graph that the same task calls: of the kind found first
                continue
            nested = _graph_in(graph.plan.nodes.get(part.partition(":")[0]))
            if nested is None:
                raise UsageError(f"checkpoint_ns={namespace!r}: there is no graph at {part!r}")
            graph = nested
        return graph, Log(saver, thread_of(run.configurable, self.get_name()), namespace)

    def _thread_log(self, run: Run) -> Log:
        graph, log = self._log(run)
        if graph is not self:
            raise UsageError(
                f"checkpoint_ns={log.namespace!r:.80}: a message is sent to a thread, and not to a graph inside it"
            )
        return log

    def _check_message(self, value: object) -> None:
        check_message(self.plan, self.get_name(), value)

    def _check_command(self, command: Command[Any]) -> None:
        check_command(self.plan, command)

    async def _state(self, run: Run, *, subgraphs: bool) -> StateSnapshot:
        graph, log = self._log(run)
        at = run.configurable.get("checkpoint_id")
        thread = await load_thread(graph.plan, log, run.io, at, with_pending=True)
        snapshot = graph.snapshot(thread, log.thread_id, log.namespace, is_present=at is None)
        if not subgraphs:
            return snapshot
        tasks = []
        for task in snapshot.tasks:
            if task.state is not None:
                inner = await self._state(_with_config(run, task.state), subgraphs=True)
                task = dataclasses.replace(task, state=inner)
            tasks.append(task)
        return dataclasses.replace(snapshot, tasks=tuple(tasks))

    def snapshot(
        self, thread: GraphThread, thread_id: str, namespace: str, *, is_present: bool = False
    ) -> StateSnapshot:
        """Return the snapshot of a thread for callers.

        The present has the results of the finished tasks of the current step, which are not next any more, and only
        the open questions; a checkpoint has all tasks of its step, and all questions that they ever asked.
        """
        config = _config(thread_id, namespace, thread.base, thread.parents)
        parent = (
            None
            if thread.base_parent is None
            else _config(thread_id, namespace, thread.base_parent, thread.parents)
        )
        step_tasks = thread.tasks(namespace)
        tasks = []
        for task in step_tasks:
            state = self._task_state(task, thread, thread_id, namespace)
            tasks.append(self._graph_task(task, thread, state, is_present=is_present))
        public_keys = self.plan.state.names
        values = thread.values_now(step_tasks) if is_present else thread.values
        return StateSnapshot(
            values=self.plan.keys.without_root(
                {key: values[key] for key in public_keys if key in values}
            ),
            next=tuple(
                task.name for task in tasks if not is_present or task.id not in thread.finished
            ),
            config=config,
            metadata=thread.metadata if thread.head else None,
            created_at=thread.at,
            parent_config=parent,
            tasks=tuple(tasks),
            interrupts=tuple(thread.interrupts)
            if is_present
            else tuple(question for task in tasks for question in task.interrupts),
        )

    def _graph_task(
        self,
        task: PlannedTask,
        thread: GraphThread,
        state: RunnableConfig | None,
        *,
        is_present: bool,
    ) -> GraphTask:
        """Return a task of the step as callers see it: with its result, or what it asked, or why it failed."""
        outcome, error = thread.finished.get(task.id), thread.error_of(task.id)
        result = thread.input if task.name == START else None
        if outcome is not None:
            result = outcome.update
        questions = thread.questions_of(task.id)
        if is_present:
            open_ids = {question.id for question in thread.interrupts} if outcome is None else ()
            questions = [question for question in questions if question.id in open_ids]
        return GraphTask(
            task.id,
            task.name,
            task.path,
            None if error is None else TaskError(error),
            interrupts=tuple(questions),
            state=state,
            result=None if result is None else self.plan.keys.without_root(result),
        )

    def _task_state(
        self, task: PlannedTask, thread: GraphThread, thread_id: str, namespace: str
    ) -> RunnableConfig | None:
        """Return the config of the nested graph that a task runs; None if it runs none."""
        nested = _graph_in(self.plan.nodes.get(task.name))
        if nested is None:
            return None
        label = f"{task.name}:{task.id}"
        inner_namespace = f"{namespace}|{label}" if namespace else label
        if nested.checkpointer is True:
            inner_namespace = "|".join(
                part.partition(":")[0] for part in inner_namespace.split("|")
            )
        return _config(thread_id, inner_namespace, None)

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
                {
                    "id": task.id,
                    "name": task.name,
                    "interrupts": tuple(question_data(question) for question in task.interrupts),
                    "state": task.state,
                }
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
        at = run.configurable.get("checkpoint_id")
        if at is not None:
            entries = chain_of(entries, at)
        states = all_states(graph.plan.keys, entries, log.namespace)[::-1]
        before_id = (before or {}).get("configurable", {}).get("checkpoint_id")
        places = [place for place, state in enumerate(states) if state.base == before_id]
        if before_id is not None and places:
            states = states[places[0] + 1 :]
        snapshots: list[StateSnapshot] = []
        for state in states:
            if limit is not None and len(snapshots) >= limit:
                break
            metadata = state.metadata
            if all(metadata.get(key) == value for key, value in (filter or {}).items()):
                snapshots.append(graph.snapshot(state, log.thread_id, log.namespace))
        return snapshots

    async def _update(
        self, run: Run, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        graph, log = self._log(run)
        async with log.owner.owned(run.io):
            checkpoint, thread = await ThreadUpdate(graph, run, log).write(supersteps)
        outer = run.configurable.get("checkpoint_map") or thread.parents
        return _config(log.thread_id, log.namespace, checkpoint, outer)

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
            nested = _graph_in(spec)
            if nested is None:
                continue
            if namespace is None or namespace == name:
                yield name, nested
            if recurse:
                for inner, graph in nested.get_subgraphs(recurse=True):
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

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of the `context=` of a call; None if the graph has no context schema."""
        schema = self.plan.context_schema
        adapter = None if schema is None else adapter_of(schema)
        return None if adapter is None else adapter.json_schema()

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of the graph with other options, such as `{"checkpointer": saver}`; nodes are shared."""
        new = copy.copy(self)
        for name, value in (update or {}).items():
            if name not in self.__dict__:
                raise UsageError(
                    f"copy(update={{{name!r}: …}}): a graph has no option {name!r}{suggestion(name, self.__dict__)}"
                )
            setattr(new, name, value)
        return new

    def with_config(self, config: RunnableConfig | None = None, **kwargs: object) -> Any:  # noqa: ANN401  a binding that has the graph's methods
        """Return this graph with a config bound; the result has the methods of a graph."""
        return super().with_config(config, **kwargs)


def _graph_in(spec: NodeSpec | None) -> CompiledStateGraph[Any, Any, Any, Any] | None:
    """Return the graph that a node runs, the first if its code names several."""
    graphs = spec.subgraphs if spec is not None else ()
    return cast("CompiledStateGraph[Any, Any, Any, Any]", graphs[0]) if graphs else None


def _config(
    thread_id: str,
    namespace: str,
    checkpoint: str | None,
    parents: Mapping[str, str] | None = None,
) -> RunnableConfig:
    configurable: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint is not None:
        configurable["checkpoint_id"] = checkpoint
        if namespace:
            configurable["checkpoint_map"] = {**(parents or {}), namespace: checkpoint}
    return {"configurable": configurable}


def _with_config(run: Run, config: RunnableConfig) -> Run:
    return Run.root(run.io, config, {})
