"""`FlowOutput`: publishes the events of a flow's run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldline.checkpoint.base import Entry
from foldline.workflows._flow_scope import FlowContext, current_scope
from foldline.workflows._journal import Journal
from foldline.workflows._tokens import TokenHandler
from foldline.workflows.interrupts import Interrupt, request_data
from foldline.workflows.values import unpack_plain

__all__ = ["FlowOutput"]

END_KEY = "__end__"
"""The key of a flow's result in `stream_mode="tasks"`, as in LangGraph."""


class FlowOutput:
    """Publishes the start, stop, end or failure of a flow, and its stored records."""

    def __init__(
        self,
        context: FlowContext,
        journal: Journal | None,
        task_id: str | None = None,
        *,
        read_saved: Callable[[], Any] | None = None,
    ) -> None:
        self.context = context
        self.journal = journal
        self.task_id = task_id
        """The id of a nested flow in its events."""
        if journal is not None and "checkpoints" in context.wants:
            is_node = read_saved is not None
            journal.on_write = self._publish_checkpoint if is_node else self._publish_record
        self.read_saved = read_saved
        """Returns the state of a flow that is shown as a graph of one node; None for other flows."""

    def token_handler(self) -> TokenHandler | None:
        """Return the handler that streams the models inside; None if their tokens are not requested."""
        context = self.context
        if "tokens" not in context.wants or context.emit is None:
            return None

        def call_metadata() -> dict[str, Any]:
            scope = current_scope.get()
            path = "" if scope is None else scope.path
            node = path.rstrip("/").rpartition("/")[2].partition("#")[0] or context.name
            return {"langgraph_node": node, "thread_id": context.thread_id}

        return TokenHandler(context.emit, context.namespace, call_metadata)

    def publish_start(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Publish that the flow is called."""
        flow_input = args[0] if len(args) == 1 and not kwargs else (args, kwargs)
        self._publish_task({"type": "task", "input": flow_input, "triggers": ("__start__",)})

    def publish_end(self, value: object) -> None:
        """Publish that the flow is done."""
        context = self.context
        context.publish("updates", context.name, {"node": context.name, "values": value})
        self.publish_result(result={END_KEY: value})
        context.publish("values", None, value)

    def publish_stop(self, interrupts: list[Interrupt]) -> None:
        """Publish that the flow stopped for these questions."""
        for item in interrupts:
            self.context.publish("input.requested", None, request_data(item))
        self.context.publish("values", None, {"__interrupt__": tuple(interrupts)})
        self.publish_result(interrupts=interrupts)

    def publish_result(
        self,
        *,
        result: object = None,
        error: Exception | None = None,
        interrupts: list[Interrupt] | None = None,
    ) -> None:
        """Publish the outcome of the flow."""
        questions = [{"value": item.value, "id": item.id} for item in interrupts or ()]
        outcome = {"error": error, "result": result or {}, "interrupts": questions}
        self._publish_task({"type": "task_result", **outcome})

    def _publish_task(self, data: dict[str, Any]) -> None:
        name = self.context.name
        id = self.task_id or (name if self.journal is None else self.journal.run_id)
        self.context.publish("tasks", name, {"step": 0, "id": id, "name": name, **data})

    def publish_unfinished(self) -> None:
        """Publish the checkpoint at which an entrypoint's run goes on."""
        if self.journal is not None:
            self._publish_node(self.journal, "input", has_next=True)

    def _publish_checkpoint(self, _: Entry, body: dict[str, Any]) -> None:
        """Publish a record that is a checkpoint of an entrypoint."""
        assert self.journal is not None
        if body["kind"] == "flow":
            self.publish_unfinished()
        elif body["kind"] == "end" and "value" in body:
            self._publish_node(self.journal, "loop", has_next=False)

    def _publish_node(self, journal: Journal, source: str, *, has_next: bool) -> None:
        if self.read_saved is None or "checkpoints" not in self.context.wants:
            return
        name, names = self.context.name, {"thread_id": self.context.thread_id, "checkpoint_ns": ""}
        data: dict[str, Any] = {
            key: None if id is None else {"configurable": {**names, "checkpoint_id": id}}
            for key, id in (
                ("config", journal.checkpoint),
                ("parent_config", journal.checkpoint_before),
            )
        }
        questions = tuple({"value": item.value, "id": item.id} for item in journal.interrupts)
        task = {"id": journal.run_id, "name": name, "interrupts": questions, "state": None}
        data["values"] = self.read_saved()
        data["metadata"] = {"source": source, "step": journal.step - 1, "parents": {}}
        data |= {"next": [name] if has_next else [], "tasks": [task] if has_next else []}
        self.context.publish("checkpoints", None, data)

    def _publish_record(self, entry: Entry, body: dict[str, Any]) -> None:
        """Publish that a record was written; a thread can be forked from it."""
        names = {"thread_id": self.context.thread_id, "checkpoint_ns": ""}
        data: dict[str, Any] = {
            key: None if id is None else {"configurable": {**names, "checkpoint_id": id}}
            for key, id in (("config", entry.id), ("parent_config", entry.parent))
        }
        data["values"] = unpack_plain(body.get("value"), f"record {entry.id}")
        data["metadata"] = {"source": body["kind"], "step": 0, "place": body.get("place")}
        self.context.publish("checkpoints", None, {**data, "next": [], "tasks": []})
