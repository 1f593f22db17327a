"""Entries of the tracer's queue as records of runs: what began, what happened, what ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any
from uuid import UUID

from foldline.callbacks._observers import PAUSE
from foldline.callbacks.stdout import name_of
from foldline.tracers._rows import TraceRow
from foldline.tracers.core import describe_retry, llm_outputs

__all__ = [
    "ENDINGS",
    "INTERRUPTS",
    "INTERRUPT_CLASSES",
    "Action",
    "Entry",
    "OpenRuns",
    "questions_of",
]

INTERRUPTS = "__interrupt__"
"""The key under which agents, graphs and flows return the questions for which they stopped."""

INTERRUPT_CLASSES = frozenset({"FlowInterrupt", "FlowInterruptedError"})
"""What `interrupt()` raises inside a run, and what a flow that was called as a function raises: no failures."""


class Action(IntEnum):
    """The kind of an entry in the queue; an entry that starts a run has the type of the run instead."""

    FIRST = 1
    RETRY = 2
    REQUEST = 3
    END = 4
    ANSWER = 5
    FAIL = 6
    EVENT = 7


Entry = tuple[Any, float, Any, Any, Any]
ENDINGS = frozenset({Action.END, Action.ANSWER, Action.FAIL})


class OpenRuns:
    """The records of running runs, by id."""

    def __init__(self) -> None:
        self._open: dict[UUID, TraceRow] = {}
        self.lost_children: set[UUID] = set()
        """Running runs of which a child could not be queued."""
        self.incomplete: set[str] = set()
        """Traces that lack a run, to be marked."""

    def begin(self, entry: Entry) -> TraceRow:
        """Make the record of a run that starts."""
        run_type, start, serialized, inputs, extra = entry
        run_id: UUID = extra.pop("run_id")
        parent_id: UUID | None = extra.pop("parent_run_id", None)
        parent = self._open.get(parent_id) if parent_id is not None else None
        record = TraceRow(str(run_id), parent, run_type, start)
        if parent_id is not None and parent is None:
            extra["parent_run_id"] = str(parent_id)  # a run that this tracer did not see start
        record.serialized = serialized
        record.inputs = inputs
        record.tags = extra.pop("tags", None) or []
        record.name = extra.pop("name", None) or name_of(serialized, {})
        record.config = extra.pop("config", None)
        if not extra.get("metadata"):
            extra.pop("metadata", None)
        record.extra = extra
        record.outer = self._open.get(run_id)
        self._open[run_id] = record
        return record

    def apply(self, entry: Entry) -> TraceRow | None:
        """Apply an entry to the record of its run; return the record if the run has ended."""
        action, at, run_id, content, inputs = entry
        record = self._open.get(run_id)
        if record is None:  # its beginning was dropped
            return None
        if action not in ENDINGS:
            _note(record, action, at, content)
            return None
        record.end = at
        if action is Action.FAIL:
            inputs = _fail(record, content)
        else:
            is_answer = action is Action.ANSWER
            record.outputs = llm_outputs(content, dump=False) if is_answer else content
            record.interrupts = None if is_answer else questions_of(content) or record.interrupts
        if inputs is not None:
            record.is_written = False  # the whole row is written, again if it was before
            record.inputs = inputs if isinstance(inputs, dict) else {"input": inputs}
        if record.outer is None:
            del self._open[run_id]
        else:
            self._open[run_id] = record.outer
        if self.lost_children and run_id in self.lost_children:
            self.lost_children.discard(run_id)
            self.incomplete.add(record.trace_id)
        return record

    def forget_marked(self, traces: Iterable[str]) -> None:
        """Forget traces that are marked as incomplete, but for those whose root may be written yet."""
        self.incomplete.difference_update(
            trace for trace in traces if UUID(trace) not in self._open
        )


def _note(record: TraceRow, action: Action, at: float, content: Any) -> None:  # noqa: ANN401  by the action
    if action is Action.FIRST:
        record.first = record.first or at
    elif action is Action.REQUEST:
        record.request = content
    else:
        event = (
            {"name": "retry", "time": at, "kwargs": describe_retry(content)}
            if action is Action.RETRY
            else {**content, "time": at}
        )
        record.events = [*(record.events or []), event]
        if event["name"] == PAUSE:
            record.interrupts = [{"id": None, "value": event["kwargs"]}]


def _fail(record: TraceRow, failure: tuple[Any, ...]) -> Any:  # noqa: ANN401  the inputs of the run, of any type
    """Note how a run failed, or for which questions it stopped; return the inputs that are known only now."""
    record.error, record.error_class, record.error_message, record.interrupts, response, inputs = (
        failure
    )
    if response is not None and getattr(response, "generations", None):
        record.outputs = llm_outputs(response, dump=False)
    return inputs


def questions_of(outputs: object) -> list[Any] | None:
    """Return the questions for which a run stopped; None where it did not."""
    if not isinstance(outputs, Mapping):
        return None
    questions = outputs.get(INTERRUPTS)
    return list(questions) if isinstance(questions, list | tuple) and questions else None
