"""`AgentContext`: what the parts of one run of an agent share."""

from __future__ import annotations

from typing import Any

from foldline._run import Run
from foldline.agents.checkpoint.records import Record, Thread
from foldline.agents.limits import Bounds
from foldline.agents.runtime import Runtime
from foldline.agents.setup import Setup
from foldline.workflows.nesting import Parent
from foldline.workflows.run_context import RunContext

__all__ = ["AgentContext"]

Values = dict[str, Any]


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
        self.is_observed = bool(self.wants) or run.manager is not None
        """Whether events of a step are visible before the step is stored."""
        self.bounds = Bounds(setup.name, setup.limits, run)
        self.runtime: Runtime[Any] = Runtime(
            context=run.kwargs.get("context"),
            store=setup.store,
            stream_writer=self.output.write,
            config=run.given,
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

    def parent_for(self, node: str, call_id: str | None = None) -> Parent:
        """Return the parent of the agents, graphs, flows and steps that a step calls."""
        label = f"{node}:{call_id}" if call_id else node
        place = f"{label}@{self.thread.base or ''}.{self.thread.step}"
        return self.make_parent(label, place, tool_call_id=call_id)
