"""`FlowOutput`: what a run of a flow says to whoever streams it."""

from __future__ import annotations

from typing import Any

from foldline.checkpoint.base import Entry
from foldline.workflows.interrupts import Interrupt
from foldline.workflows.journal import Journal
from foldline.workflows.scope import FlowContext, current_scope
from foldline.workflows.tokens import TokenHandler
from foldline.workflows.values import unpack_plain

__all__ = ["FlowOutput"]

ENDED = "__end__"
"""The key of what a flow gave in `stream_mode="tasks"`, as LangGraph has it."""


class FlowOutput:
    """Says that a flow begins, stops, ends or fails, and what is kept of it."""

    def __init__(self, context: FlowContext, journal: Journal | None) -> None:
        self.context = context
        self.journal = journal
        if journal is not None and "checkpoints" in context.wants:
            journal.on_write = self._publish_record

    def token_handler(self) -> TokenHandler | None:
        """Return what listens to the models inside; None where nobody wants their words."""
        context = self.context
        if "tokens" not in context.wants or context.emit is None:
            return None

        def about() -> dict[str, Any]:
            scope = current_scope.get()
            path = "" if scope is None else scope.path
            node = path.rstrip("/").rpartition("/")[2].partition("#")[0] or context.name
            return {"langgraph_node": node, "thread_id": context.thread_id}

        return TokenHandler(context.emit, context.namespace, about)

    def publish_start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Say that the flow is called."""
        given = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
        self._publish_task({"type": "task", "input": given, "triggers": ("__start__",)})

    def publish_end(self, value: object) -> None:
        """Say that the flow is done."""
        context = self.context
        context.publish("updates", context.name, {"node": context.name, "values": value})
        self.publish_result(result={ENDED: value})
        context.publish("values", None, value)

    def publish_stop(self, interrupts: list[Interrupt]) -> None:
        """Say that the flow stopped for these questions."""
        for item in interrupts:
            data = {"interrupt_id": item.id, "payload": item.value}
            self.context.publish("input.requested", None, data)
        self.context.publish("values", None, {"__interrupt__": tuple(interrupts)})
        self.publish_result(interrupts=interrupts)

    def publish_result(
        self,
        *,
        result: object = None,
        error: Exception | None = None,
        interrupts: list[Interrupt] | None = None,
    ) -> None:
        """Say what came of the flow."""
        questions = [{"value": item.value, "id": item.id} for item in interrupts or ()]
        ending = {"error": error, "result": result or {}, "interrupts": questions}
        self._publish_task({"type": "task_result", **ending})

    def _publish_task(self, data: dict[str, Any]) -> None:
        name = self.context.name
        id = name if self.journal is None else self.journal.run_id
        self.context.publish("tasks", name, {"step": 0, "id": id, "name": name, **data})

    def _publish_record(self, entry: Entry, body: dict[str, Any]) -> None:
        """Say that a record was written: a thread can be forked from it."""
        names = {"thread_id": self.context.thread_id, "checkpoint_ns": ""}
        data: dict[str, Any] = {
            key: None if id is None else {"configurable": {**names, "checkpoint_id": id}}
            for key, id in (("config", entry.id), ("parent_config", entry.parent))
        }
        data["values"] = unpack_plain(body.get("value"), f"record {entry.id}")
        data["metadata"] = {"source": body["kind"], "step": 0, "place": body.get("place")}
        self.context.publish("checkpoints", None, {**data, "next": [], "tasks": []})
