"""The records of an agent's thread, and the state they add up to. No I/O; stored entries are untrusted input.

    input      a caller's input, and the first step
    fork       a run continues from an earlier record
    node       a step is done: its update of the state, and the next step
    update     the state was changed from outside; the current step stays current
    tool       one tool call of the current step is done: its messages, so that it never runs twice
    call       a tool call begins whose repetition must be decided: its place, tool and arguments (once named `start`)
    interrupt  the run stopped for these questions
    resume     the answers to them
    claim      a process continues the run (after a crash)

Messages are written in their compact form or with `foldline.load`, other values as plain JSON, and read back by the
types of the agent's state schema: nothing in a checkpoint can name code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from foldline.agents.state import StateSchema, Values
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.load import dumpd, load
from foldline.load._compact import compact_message, read_message
from foldline.messages import BaseMessage
from foldline.workflows._journal import read_body
from foldline.workflows._thread_state import ThreadState
from foldline.workflows.interrupts import Interrupt

__all__ = ["Codec", "Record", "Thread"]

FORM = 2
"""In form 1, messages are written by `foldline.load`; in form 2, most of them have their compact form."""
KINDS = frozenset(
    {"input", "fork", "node", "update", "call", "start", "tool", "interrupt", "resume", "claim"}
)
BASES = frozenset({"input", "fork", "node"})
"""The kinds after which a new step begins."""


@dataclass(slots=True)
class Record:
    """A decoded entry."""

    kind: str
    id: str = ""
    """Its id in the log, assigned when it is written."""
    parent: str | None = None
    step: int = 0
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    node: str | None = None
    next: str | None = None
    values: Values = field(default_factory=dict)
    call_id: str | None = None
    """The place of a tool call in its step."""
    tool: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    interrupts: list[Interrupt] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    lineage: Sequence[Sequence[Any]] | None = None
    """How far each older branch counts, if the record begins a branch."""
    inbox: str | None = None
    """The message to the thread that it takes."""


@dataclass(slots=True)
class Thread(ThreadState):
    """The state of a thread: the sum of its records."""

    values: Values = field(default_factory=dict)
    next: str | None = None
    """The next step; None before the first input and after the last step."""
    finished: dict[str, Values] = field(default_factory=dict)
    """Results of the finished tool calls of the current step, by call id."""
    started: set[str] = field(default_factory=set)
    """Calls of the current step that have begun, and may have taken effect."""

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a next step."""
        return self.next is not None

    def take_next(self, record: Record, schema: StateSchema) -> None:
        """Add the next record of the log."""
        self.advance(record.id, record.lineage)
        self.take(record, schema)

    def take(self, record: Record, schema: StateSchema) -> None:
        """Add a record that is the last one already."""
        self.move_to(record)
        if record.inbox is not None:
            self.inbox = record.inbox
        if record.kind == "tool":
            self.finished[record.call_id or ""] = record.values
        elif record.kind in ("call", "start"):
            self.started.add(record.call_id or "")
        elif record.kind == "interrupt":
            self.open_questions(record.interrupts)
            self.started = set()  # the tool that asks is called again from its beginning
        elif record.kind == "resume":
            self.take_answers(record.answers, record.at)
        elif record.kind == "update":
            self.values = schema.update(self.values, record.values, self.indexes)
        elif record.kind in ("input", "node"):
            self.values = schema.update(self.values, record.values, self.indexes)
            self.next = record.next
            self.step = record.step
        if record.kind in BASES:
            self.finished, self.started = {}, set()
            self.clear_questions()

    def move_to(self, record: Record) -> None:
        """Note the time of the last record, and the step that it begins."""
        self.at = record.at
        if record.kind in BASES:
            self.base, self.chain = record.id, {record.id}

    def step_done(self, node: str | None, next_node: str | None, update: Values) -> Record:
        """Return the record of a finished step."""
        return Record("node", step=self.step + 1, node=node, next=next_node, values=update)


class Codec:
    """Encodes and decodes the records of one agent."""

    def __init__(self, schema: StateSchema, structured: Callable[[Any], Any] | None = None) -> None:
        self._schema = schema
        self._structured = structured
        """Returns the structured answer for its JSON form; None if the agent has no response format."""

    def body(self, record: Record) -> dict[str, Any]:
        """Return a record as JSON; empty fields are left out."""
        body: dict[str, Any] = {
            "v": FORM, "kind": record.kind, "step": record.step, "at": record.at,
            "node": record.node, "next": record.next,
            "place" if record.kind == "call" else "call_id": record.call_id,
            "tool": record.tool, "args": _to_json(record.args, "the arguments of a call"),
            "interrupts": [_question(item) for item in record.interrupts],
            "answers": {key: _to_json(item, "an answer") for key, item in record.answers.items()},
            "values": self.encode(record.values),
            "lineage": record.lineage,
            "inbox": record.inbox,
        }  # fmt: skip
        return {key: item for key, item in body.items() if item not in (None, [], {})}

    def record(self, entry: Entry) -> Record:
        """Decode an entry; raise `SchemaError` if it has another form or is damaged."""
        body = read_body(entry, KINDS, "an agent", form=FORM)
        try:
            return Record(
                kind=body["kind"],
                id=entry.id,
                parent=entry.parent,
                step=int(body.get("step", 0)),
                at=str(body["at"]),
                node=body.get("node"),
                next=body.get("next"),
                call_id=body.get("place" if body["kind"] == "call" else "call_id"),
                tool=body.get("tool"),
                args=dict(body.get("args", {})),
                interrupts=[_read_question(row) for row in body.get("interrupts", ())],
                answers=dict(body.get("answers", {})),
                values=self.decode(body.get("values", {})),
                lineage=body.get("lineage"),
                inbox=body.get("inbox"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"record {entry.id} is damaged and was not read: {error}") from error

    def encode(self, values: Values) -> dict[str, Any]:
        """Return values of the state as JSON."""
        return {key: self._encode_value(key, value) for key, value in values.items()}

    def decode(self, packed: dict[str, Any]) -> Values:
        """Return values of the state."""
        return {key: self._decode_value(key, value) for key, value in packed.items()}

    def _encode_value(self, key: str, value: Any) -> object:  # noqa: ANN401  values of a state, whose schema has their types
        if key == "messages":
            return [compact_message(message) or dumpd(message) for message in value]
        if isinstance(value, BaseMessage):
            return dumpd(value)
        return _to_json(value, f"the state's {key!r}")

    def _decode_value(self, key: str, value: Any) -> object:  # noqa: ANN401  values of a state, whose schema has their types
        if key == "messages":
            return [_message(message) for message in value]
        if key == "structured_response" and self._structured is not None:
            return self._structured(value)
        return self._schema.read(key, value)


def _message(value: object) -> BaseMessage:
    message = read_message(value) if isinstance(value, list) else load(value)
    if not isinstance(message, BaseMessage):
        raise SchemaError(f"a checkpoint's messages hold a {type(message).__name__}")
    return message


def _question(question: Interrupt) -> list[Any]:
    """Return a question as JSON, in the form of `question_row`; an agent's questions have no task."""
    row = [question.id, _to_json(question.value, "an interrupt")]
    if question.response_schema is None:
        return row
    return [*row, None, question.response_schema, question.check]


def _read_question(row: Sequence[Any]) -> Interrupt:
    id, value, _, schema, check = [*row, None, None, None][:5]
    return Interrupt(value, id, response_schema=schema, check=check or "schema")


def _to_json(value: object, what: str) -> object:
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise SchemaError(f"{what} cannot be stored in a checkpoint: {error}") from error
