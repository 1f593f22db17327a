"""`AgentContext`: what the parts of one run of an agent share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.agents._agent_definition import Setup
from foldline.agents._run_limits import RunBounds
from foldline.agents.checkpoint._records import Record, Thread
from foldline.agents.runtime import Runtime
from foldline.workflows import runtime as task_runtime
from foldline.workflows._nesting import Parent, enter_step
from foldline.workflows._run_context import RunContext
from foldline.workflows.runtime import ExecutionInfo, current_task, read_context

__all__ = ["AgentContext"]

Values = dict[str, Any]
RUN_KEYS = frozenset({"callbacks", "run_id", "run_name"})
"""Keys of the config that belong to the agent's own run: code inside a tool has those of the tool's run."""


class AgentContext(RunContext[Thread]):
    """One run: the agent and its caller, the thread and its store, and the event output."""

    def __init__(
        self, setup: Setup, run: Run, *, wants: frozenset[str], outer: Parent | None
    ) -> None:
        super().__init__(
            run,
            Thread(),
            name=setup.name,
            checkpointer=setup.checkpointer,
            wants=wants,
            outer=outer,
        )
        self.setup = setup
        self.is_observed: bool = bool(self.wants) or run.manager is not None
        """Whether events of a step are visible before the step is stored."""
        self.bounds = RunBounds(setup.name, setup.limits, run)
        outer_task = current_task.get()  # a nested agent inherits context and store
        store = setup.store
        if store is None and outer_task is not None:
            store = outer_task.store
        self.runtime: Runtime[Any] = Runtime(
            context=read_context(setup.context_schema, run.kwargs["context"], setup.name)
            if "context" in run.kwargs
            else getattr(outer_task, "context", None),
            store=store,
            stream_writer=self.output.write,
            config=run.call_config,
            thread_id=self.thread_id,
            namespace=self.namespace,
        )

    async def keep(self, *records: Record) -> None:
        """Write records and wait until they are stored; raise if another process has continued this thread."""
        bodies = [self.setup.codec.body(record) for record in records] if self.log else []
        for record, entry in zip(records, await self.append(*bodies), strict=False):
            record.id, record.parent = entry.id, entry.parent
            self.thread.move_to(record)

    def transcript(self) -> Values:
        """Return the state with the results of the current step."""
        values = self.thread.values
        results = [
            message for update in self.thread.finished.values() for message in update["messages"]
        ]
        return (
            {**values, "messages": [*values.get("messages", ()), *results]} if results else values
        )

    @contextmanager
    def enter(self, node: str, call_id: str | None = None) -> Generator[Parent, None, None]:
        """Set the context for the code of a step; it must not be held across a `yield` to a caller.

        The tasks that the code starts are those of the parent; `finish_tasks` waits for them.
        """
        parent = self.parent_for(node, call_id)
        runtime = self.runtime
        config = cast(
            "RunnableConfig",
            {key: value for key, value in runtime.config.items() if key not in RUN_KEYS},
        )
        info = ExecutionInfo(self.thread_id, parent.key, "|".join(self.namespace), self.thread.step)
        task: task_runtime.Runtime[Any] = task_runtime.Runtime(
            runtime.context, runtime.store, runtime.stream_writer, None, config, info
        )
        token = current_task.set(task)
        try:
            interrupts = self.interrupt_scope(parent.key)
            with enter_step(parent, interrupts, self.io), self.bounds.active():
                yield parent
        finally:
            current_task.reset(token)

    def parent_for(self, node: str, call_id: str | None = None) -> Parent:
        """Return the parent of the agents, graphs, flows and steps that a step calls."""
        label = f"{node}:{call_id}" if call_id else node
        place = f"{label}@{self.thread.base or ''}.{self.thread.step}"
        return self.make_parent(label, place, tool_call_id=call_id)
