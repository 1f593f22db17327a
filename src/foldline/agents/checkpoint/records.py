"""What the entries of a thread say, and the state they add up to. Pure; a stored entry is hostile input.

    input      values given by a caller, and the step to begin with
    fork       a run goes on from an earlier record
    node       a step is done: its update of the state, and the step after it
    update     somebody changed the state from outside, and the step under way stays under way
    tool       one tool call of the step under way is done: its messages, so that it never runs twice
    start      a tool call that must not run twice begins
    interrupt  the run stopped for these questions
    resume     the answers to them
    claim      somebody carries on (after a crash)

Values are written through `foldline.load` (messages) and as plain JSON (the rest), and read back by the types of the
agent's state schema: nothing in a checkpoint can name code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from foldline.agents.state import StateSchema, Values
from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.load import dumpd, load
from foldline.messages import BaseMessage
from foldline.workflows.interrupts import Interrupt
from foldline.workflows.journal import VERSION, read_body
from foldline.workflows.thread_state import ThreadState

__all__ = ["Codec", "Record", "Thread"]

KINDS = frozenset(
    {"input", "fork", "node", "update", "start", "tool", "interrupt", "resume", "claim"}
)
BASES = frozenset({"input", "fork", "node"})
"""The kinds after which another step comes."""


@dataclass(slots=True)
class Record:
    """An entry, read."""

    kind: str
    id: str = ""
    """Its name in the log; given when it is written."""
    parent: str | None = None
    step: int = 0
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    node: str | None = None
    next: str | None = None
    values: Values = field(default_factory=dict)
    call_id: str | None = None
    interrupts: list[Interrupt] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Thread(ThreadState):
    """Where a thread stands: the sum of its records."""

    values: Values = field(default_factory=dict)
    next: str | None = None
    """The step to take; None before the first input and after the last step."""
    finished: dict[str, Values] = field(default_factory=dict)
    """What the finished tool calls of the step under way gave, by call."""
    started: set[str] = field(default_factory=set)
    """Calls of the step under way that must not run twice, and began."""

    @property
    def is_unfinished(self) -> bool:
        """Whether a step comes."""
        return self.next is not None

    def take(self, record: Record, schema: StateSchema) -> None:
        """Add a record."""
        self.come_to(record)
        if record.kind == "tool":
            self.finished[record.call_id or ""] = record.values
        elif record.kind == "start":
            self.started.add(record.call_id or "")
        elif record.kind == "interrupt":
            self.interrupts = record.interrupts
            self.started = set()  # what asks is called again, from its beginning
        elif record.kind == "resume":
            self.take_answers(record.answers)
        elif record.kind == "update":
            self.values = schema.update(self.values, record.values)
        elif record.kind in ("input", "node"):
            self.values = schema.update(self.values, record.values)
            self.next = record.next
            self.step = record.step
        if record.kind in BASES:
            self.finished, self.started = {}, set()
            self.forget_questions()

    def come_to(self, record: Record) -> None:
        """Go on to a record of the log."""
        self.head, self.at = record.id, record.at
        if record.kind in BASES:
            self.base, self.chain = record.id, {record.id}
        else:
            self.chain.add(record.id)

    def step_done(self, node: str | None, following: str | None, update: Values) -> Record:
        """Make the record that a step is done."""
        return Record("node", step=self.step + 1, node=node, next=following, values=update)


class Codec:
    """Writes and reads records for one agent."""

    def __init__(self, schema: StateSchema, structured: Callable[[Any], Any] | None = None) -> None:
        self._schema = schema
        self._structured = structured
        """Makes the structured answer out of JSON again; None where the agent has none."""

    def body(self, record: Record) -> dict[str, Any]:
        """Return a record as JSON; empty fields are left out."""
        body: dict[str, Any] = {
            "v": VERSION, "kind": record.kind, "step": record.step, "at": record.at,
            "node": record.node, "next": record.next, "call_id": record.call_id,
            "interrupts": [[one.id, _plain(one.value, "an interrupt")] for one in record.interrupts],
            "answers": {key: _plain(one, "an answer") for key, one in record.answers.items()},
            "values": self.encode(record.values),
        }  # fmt: skip
        return {key: one for key, one in body.items() if one not in (None, [], {})}

    def record(self, entry: Entry) -> Record:
        """Read an entry; one of another form or a damaged one is refused."""
        body = read_body(entry, KINDS, "an agent")
        try:
            return Record(
                kind=body["kind"],
                id=entry.id,
                parent=entry.parent,
                step=int(body.get("step", 0)),
                at=str(body["at"]),
                node=body.get("node"),
                next=body.get("next"),
                call_id=body.get("call_id"),
                interrupts=[Interrupt(value, id) for id, value in body.get("interrupts", ())],
                answers=dict(body.get("answers", {})),
                values=self.decode(body.get("values", {})),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"record {entry.id} is damaged and was not read: {error}") from error

    def encode(self, values: Values) -> dict[str, Any]:
        """Return some values of the state as JSON."""
        return {key: self._packed(key, value) for key, value in values.items()}

    def decode(self, packed: dict[str, Any]) -> Values:
        """Return values of the state."""
        return {key: self._unpacked(key, value) for key, value in packed.items()}

    def _packed(self, key: str, value: Any) -> object:  # noqa: ANN401  values of a state, whose types its schema says
        if key == "messages":
            return [dumpd(message) for message in value]
        if isinstance(value, BaseMessage):
            return dumpd(value)
        return _plain(value, f"the state's {key!r}")

    def _unpacked(self, key: str, value: Any) -> object:  # noqa: ANN401  values of a state, whose types its schema says
        if key == "messages":
            return [_message(one) for one in value]
        if key == "structured_response" and self._structured is not None:
            return self._structured(value)
        return self._schema.read(key, value)


def _message(value: object) -> BaseMessage:
    message = load(value)
    if not isinstance(message, BaseMessage):
        raise SchemaError(f"a checkpoint's messages hold a {type(message).__name__}")
    return message


def _plain(value: object, what: str) -> object:
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise SchemaError(f"{what} cannot be kept in a checkpoint: {error}") from error
