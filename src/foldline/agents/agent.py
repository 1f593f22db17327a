"""`Agent`: the runnable that `create_agent` returns; each of its runs is a `Loop`.

`invoke` returns the last state, `stream` yields views of the run (see `views`), `run_events` the events of the run in
the published protocol's form. With a checkpointer, `get_state`, `get_state_history` and `update_state` read and change
threads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from pydantic import BaseModel, create_model

from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline.agents._agent_definition import END, MODEL, TOOLS, Setup
from foldline.agents._agent_loop import Loop
from foldline.agents._run_start import check_command, check_message, load_thread
from foldline.agents._trace_form import describe_agent
from foldline.agents.checkpoint._records import Record, Thread
from foldline.agents.state import BaseAgentState
from foldline.exceptions import UsageError
from foldline.runnables.graph import Graph
from foldline.runnables.schema import EventsVersion, StreamEvent
from foldline.tools.base import BaseTool
from foldline.tools.structured import StructuredTool
from foldline.workflows._loop_runnable import LoopRunnable
from foldline.workflows._nesting import current_parent
from foldline.workflows._thread_log import Log, chain_of, thread_of
from foldline.workflows.durability import ENGINE, check_call_option, refuse_stream
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt
from foldline.workflows.values import pack, unpack

__all__ = ["Agent", "StateSnapshot"]

Values = dict[str, Any]
StateT = TypeVar("StateT", bound=BaseAgentState)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state of a thread at a checkpoint."""

    values: Values
    next: tuple[str, ...]
    """The next step; empty if the thread is finished."""
    config: RunnableConfig
    """Identifies this checkpoint: pass it to `invoke` or `update_state` to continue from here."""
    created_at: str | None = None
    interrupts: tuple[Interrupt, ...] = field(default=())
    step: int = 0


class Agent(LoopRunnable[Any, StateT]):
    """A model that calls tools until it has an answer. Made by `create_agent`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.name = setup.name
        self._trace_form: dict[str, Any] | None = None
        if setup.durability is not None:
            setup.durability.register(setup.name, self._durable_body)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the agent's name."""
        base_name = name or self.setup.name
        return f"{base_name}_{suffix}" if suffix else base_name

    def __repr__(self) -> str:
        """Return the agent's name, its model and its tools."""
        return f"Agent({self.setup.name!r}, model={self._model_label!r}, tools={[*self.setup.tools]!r:.200})"

    def _repr_html_(self) -> str:
        from foldline._display.parts import fold  # noqa: PLC0415  for notebooks only
        from foldline._display.runs import agent_html  # noqa: PLC0415

        tools = [
            (tool.name, tool.description.strip().partition(chr(10))[0])
            for tool in self.setup.tools.values()
        ]
        middleware = [(part.name, "") for part in self.setup.middleware]
        prompt = self.setup.system_message
        parts = [
            ("model", self._model_label),
            ("tools", tools),
            ("middleware", middleware),
            ("system prompt", str(prompt.text)[:1000] if prompt is not None else ""),
            ("answers with", getattr(self.setup.response_format, "__name__", "")),
        ]
        return agent_html(f"agent · {self.setup.name}", parts) + fold(
            "steps", self.get_graph().draw_svg()
        )

    @property
    def _model_label(self) -> str:
        model = getattr(self.setup.model, "bound", self.setup.model)
        provider, name = getattr(model, "_provider", None), getattr(model, "_model_name", None)
        return ":".join(part for part in (provider, name) if part) or type(model).__name__

    def _serialized(self) -> dict[str, Any]:
        """Return the form of this agent for traces: digests of its prompt, its tools and its settings."""
        if self._trace_form is None:
            self._trace_form = describe_agent(self.setup, self._model_label)
        return dict(self._trace_form)

    # -- running

    async def _invoke_body(self, input: object, run: Run) -> Any:  # noqa: ANN401  the state in the form of its schema
        durability = self.setup.durability
        if durability is None or ENGINE.get() is not None:
            return await super()._invoke_body(input, run)
        check_call_option(self.setup.name, durability, run.kwargs.get("durability"))
        payload = pack(input, f"the input of {self.setup.name}", type(input))
        thread = run.configurable.get("thread_id")
        packed = await durability.invoke(self.setup.name, thread, payload, run.io)
        return self.setup.codec.decode(packed)

    async def _durable_body(self, payload: object, io: IO) -> object:
        """Run inside the engine; input and last state are JSON."""
        value = unpack(payload, f"the input of {self.setup.name}")
        state: Any = await super()._invoke_body(value, Run.root(io, None, {}))
        if "__interrupt__" in state:
            raise FlowInterrupt(state["__interrupt__"])
        return self.setup.codec.encode(state)

    def _loop(self, run: Run, wants: frozenset[str]) -> Loop:
        if wants and ENGINE.get() is None:
            refuse_stream(self.setup.name, self.setup.durability)
        return Loop(self.setup, run, wants=wants, outer=current_parent.get())

    def run_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> Iterator[dict[str, Any]]:
        """Run once; yield the events of the run and its sub-agents in the published protocol's form.

        `channels=["messages", "tools"]` selects some channels; by default all are included.
        """
        return self.stream(input, config, stream_mode="events", **kwargs)

    def arun_events(
        self, input: object, config: RunnableConfig | None = None, **kwargs: object
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Run once; yield the events of the run and its sub-agents in the published protocol's form."""
        return self.astream(input, config, stream_mode="events", **kwargs)

    @overload
    def stream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **kwargs: object,
    ) -> Iterator[StreamEvent]: ...
    @overload
    def stream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v3"],
        **kwargs: object,
    ) -> Iterator[Values]: ...
    def stream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: EventsVersion = "v2",
        **kwargs: object,
    ) -> Iterator[StreamEvent] | Iterator[Values]:
        """Return all events of the run; `version="v3"` in the published protocol's form."""
        if version == "v3":
            return self.run_events(input, config, **kwargs)
        return super().stream_events(input, config, version=version, **kwargs)

    @overload
    def astream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v1", "v2"] = "v2",
        **kwargs: object,
    ) -> AsyncGenerator[StreamEvent, None]: ...
    @overload
    def astream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: Literal["v3"],
        **kwargs: object,
    ) -> AsyncGenerator[Values, None]: ...
    def astream_events(
        self,
        input: object,
        config: RunnableConfig | None = None,
        *,
        version: EventsVersion = "v2",
        **kwargs: object,
    ) -> AsyncGenerator[StreamEvent, None] | AsyncGenerator[Values, None]:
        """Return all events of the run; `version="v3"` in the published protocol's form."""
        if version == "v3":
            return self.arun_events(input, config, **kwargs)
        return super().astream_events(input, config, version=version, **kwargs)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return this agent as a tool of another: it takes a task as text and returns its final answer."""
        if args_schema is not None or arg_types is not None:
            tool: BaseTool = super().as_tool(
                args_schema, name=name, description=description, arg_types=arg_types
            )
            return tool

        def ask(task: str) -> str:
            return str(self.invoke({"messages": task})["messages"][-1].text)

        async def aask(task: str) -> str:
            return str((await self.ainvoke({"messages": task}))["messages"][-1].text)

        label = name or self.setup.name
        return StructuredTool.from_function(
            ask, aask, name=label, description=description or f"Give {label} a task, in words."
        )

    # -- threads

    def get_state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of a thread, or its state at `configurable.checkpoint_id`."""
        return drive(self._state(Run.blocking(config)))

    async def aget_state(self, config: RunnableConfig) -> StateSnapshot:
        """Return the state of a thread, or its state at `configurable.checkpoint_id`."""
        return await self._state(Run.asynchronous(config))

    def get_state_history(
        self, config: RunnableConfig, *, limit: int | None = None
    ) -> Iterator[StateSnapshot]:
        """Return the states of a thread, the newest first."""
        return iter(drive(self._history(Run.blocking(config), limit)))

    async def aget_state_history(
        self, config: RunnableConfig, *, limit: int | None = None
    ) -> AsyncIterator[StateSnapshot]:
        """Return the states of a thread, the newest first."""
        for snapshot in await self._history(Run.asynchronous(config), limit):
            yield snapshot

    def update_state(
        self, config: RunnableConfig, values: Mapping[str, Any], as_node: str | None = None
    ) -> RunnableConfig:
        """Change a thread as if a step had; return the config of the new checkpoint."""
        return drive(self._update(Run.blocking(config), values, as_node))

    async def aupdate_state(
        self, config: RunnableConfig, values: Mapping[str, Any], as_node: str | None = None
    ) -> RunnableConfig:
        """Change a thread as if a step had; return the config of the new checkpoint."""
        return await self._update(Run.asynchronous(config), values, as_node)

    def _thread_log(self, run: Run) -> Log:
        return self._log(run)

    def _check_message(self, value: object) -> None:
        check_message(self.setup, value)

    def _check_command(self, command: Command[Any]) -> None:
        check_command(self.setup, command)

    def _log(self, run: Run) -> Log:
        if self.setup.checkpointer is None:
            raise UsageError(
                f"{self.setup.name} has no checkpointer: create_agent(..., checkpointer=…)"
            )
        return Log(self.setup.checkpointer, thread_of(run.configurable, self.setup.name), "")

    async def _state(self, run: Run) -> StateSnapshot:
        log, at = self._log(run), run.configurable.get("checkpoint_id")
        thread = await load_thread(self.setup, log, run.io, at)
        return self._snapshot(thread, log.thread_id)

    def _snapshot(self, thread: Thread, thread_id: str) -> StateSnapshot:
        configurable: dict[str, Any] = {"thread_id": thread_id}
        if thread.head is not None:
            configurable["checkpoint_id"] = thread.head
        return StateSnapshot(
            values=self.setup.schema.public_values(thread.values),
            next=() if thread.next in (None, END) else (thread.next,),
            config={"configurable": configurable},
            created_at=thread.at,
            interrupts=tuple(thread.interrupts),
            step=thread.step,
        )

    async def _history(self, run: Run, limit: int | None) -> list[StateSnapshot]:
        log = self._log(run)
        entries = await log.read(run.io)
        thread, snapshots = Thread(), []
        for entry in chain_of(entries, run.configurable.get("checkpoint_id")):
            record = self.setup.codec.record(entry)
            thread.take_next(record, self.setup.schema)
            if record.kind in ("input", "node", "update", "interrupt"):
                snapshots.append(self._snapshot(thread, log.thread_id))
        return snapshots[::-1][:limit]

    async def _update(
        self, run: Run, values: Mapping[str, Any], as_node: str | None
    ) -> RunnableConfig:
        log = self._log(run)
        async with log.owner.owned(run.io):
            return await self._write_update(run, log, values, as_node)

    async def _write_update(
        self, run: Run, log: Log, values: Mapping[str, Any], as_node: str | None
    ) -> RunnableConfig:
        at = run.configurable.get("checkpoint_id")
        thread = await load_thread(self.setup, log, run.io, at)
        node = as_node or (MODEL if thread.next is None else None)
        update = self.setup.schema.prepare(values, "update_state")
        if node is None:  # the current step stays current, with its finished calls and questions
            record = Record("update", step=thread.step, values=update)
        else:
            values = self.setup.schema.update(thread.values, update)
            record = thread.step_done(node, self.setup.next_step(node, values), update)
        if thread.head != log.last:
            thread.begin_branch(with_step=True)
            record.lineage = thread.take_fork()
        pending = log.add(self.setup.codec.body(record), thread.head)
        await log.flush(run.io, pending)
        return {"configurable": {"thread_id": log.thread_id, "checkpoint_id": pending.entry.id}}

    # -- inspection

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """Return the graph of the agent's steps."""
        return graph_of(self.setup)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel]:
        """Return the input as a Pydantic model."""
        return create_model(self.get_name("input"), messages=(list[Any], ...))


def graph_of(setup: Setup) -> Graph:
    """Return the graph of an agent's steps."""
    graph = Graph()
    names = ["__start__", *setup.hooks, MODEL, *([TOOLS] if setup.tools else []), "__end__"]
    nodes = {name: graph.add_node(None, id=name) for name in names}
    graph.add_edge(nodes["__start__"], nodes[setup.entry])
    for source, target in setup.follows.items():
        graph.add_edge(nodes[source], nodes[target])
    last = _last_model_step(setup)
    if setup.tools:
        graph.add_edge(nodes[last], nodes[TOOLS], conditional=True)
        graph.add_edge(nodes[TOOLS], nodes[setup.head])
    graph.add_edge(nodes[last], nodes[setup.exit], conditional=bool(setup.tools))
    return graph


def _last_model_step(setup: Setup) -> str:
    """Return the step after which the answer decides the next one: the last `after_model` hook, or the model."""
    name = MODEL
    while setup.follows.get(name, "").endswith(".after_model"):
        name = setup.follows[name]
    return name
