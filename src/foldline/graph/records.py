"""The records of a graph's thread, and the state they add up to. Stored records are untrusted input.

input     a caller's input, and the tasks of the first step
task      one task of a step with several is done: its update, and its targets
fail      a task of the current step failed: its error
step      a step is done: the updates of its tasks, and the tasks of the next step
update    the state was changed from outside (update_state)
fork      a run continues from an earlier checkpoint
pause     the run stopped before a node (interrupt_before)
stop      the run stopped for these questions
resume    the answers to them
claim     a process continues the run (after a crash)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.graph.schema import StateKeys
from foldline.graph.types import END, Send
from foldline.workflows.interrupts import Interrupt
from foldline.workflows.journal import VERSION, decode_error, read_body
from foldline.workflows.thread_state import ThreadState
from foldline.workflows.values import pack, unpack

__all__ = ["GraphThread", "Outcome", "Task", "decode_target", "encode_target", "record"]

Values = dict[str, Any]
Target = str | Send
KINDS = frozenset(
    {"input", "task", "fail", "step", "update", "fork", "pause", "stop", "resume", "claim"}
)
BASES = frozenset({"input", "step", "update", "fork"})
"""The kinds after which a new step begins."""


@dataclass(slots=True)
class Task:
    """A node that runs in a step."""

    name: str
    id: str
    path: tuple[Any, ...]
    arg: Any = None
    """The input of a `Send`."""
    is_push: bool = False


@dataclass(slots=True)
class Outcome:
    """The result of a task: an update of the state, and targets in addition to its edges."""

    name: str
    update: Values
    goto: list[Target] = field(default_factory=list)
    result: Any = None
    """The node's result, for `stream_mode="updates"`."""


@dataclass(slots=True)
class GraphThread(ThreadState):
    """The state of a thread: the sum of its records."""

    keys: StateKeys
    values: Values
    next: list[Target] = field(default_factory=list)
    step: int = field(default=-1, kw_only=True)
    seed: str | None = None
    """The seed of the ids of the next step's tasks."""
    base_parent: str | None = None
    source: str = "input"
    finished: dict[str, Outcome] = field(default_factory=dict)
    """Results of the finished tasks of the current step."""
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Errors of its failed tasks, until the run continues."""
    waiting: dict[str, list[str]] = field(default_factory=dict)
    """Edges from several nodes: which of these have run."""
    deferred: list[str] = field(default_factory=list)
    is_paused: bool = False
    last_nodes: list[str] = field(default_factory=list)
    """The nodes of the last step."""

    @property
    def is_unfinished(self) -> bool:
        """Whether there is a next step."""
        return bool(self.next)

    def take_entry(self, entry: Entry) -> str:
        """Add an entry; return its kind."""
        body = read_body(entry, KINDS, "a graph")
        try:
            self.take(entry.id, body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"record {entry.id} is damaged and was not read: {error}") from error
        return str(body["kind"])

    def take(self, id: str, body: Mapping[str, Any]) -> None:
        """Add a record."""
        kind = body["kind"]
        self.head = id
        self.chain.add(id)
        if kind == "task":
            self.finished[body["id"]] = self._outcome(body, f"record {id}")
        elif kind == "fail":
            self.failures[body["id"]] = dict(body["error"])
        elif kind == "stop":
            self.interrupts = [
                Interrupt(unpack(value, "a question"), key) for key, value in body["interrupts"]
            ]
        elif kind == "resume":
            self.take_answers(
                {key: unpack(answer, "an answer") for key, answer in body["answers"].items()}
            )
            self.failures = {}
        elif kind == "claim":
            self.failures = {}
        elif kind == "pause":
            self.is_paused = True
        elif kind in BASES:
            self._take_base(id, body)

    def _take_base(self, id: str, body: Mapping[str, Any]) -> None:
        where = f"record {id}"
        current_step = (
            self.seed,
            self.finished,
            self.interrupts,
            self.answered_questions,
            self.answers,
            self.chain,
        )
        outcomes = [self._outcome(task, where) for task in body.get("tasks", ())]
        outcomes += [self.finished[task_id] for task_id in body.get("done", ())]
        if outcomes:
            self.values = self.keys.join(
                self.values, [(outcome.name, outcome.update) for outcome in outcomes]
            )
        if body["kind"] == "input" and "values" in body:
            update = self.keys.decode(body["values"], where)
            self.values = self.keys.join(self.values, [("the input", update)])
        if "next" in body:
            targets = [decode_target(target, self.keys) for target in body["next"]]
            self.move(
                id, targets, int(body["step"]), body.get("waiting", {}), body.get("deferred", [])
            )
        else:
            self.move(id, self.next, self.step, self.waiting, self.deferred)
        self.last_nodes = [outcome.name for outcome in outcomes]
        self.is_paused = bool(body.get("paused"))
        if body.get("keeps"):  # the next tasks are the same: their questions and results stay
            (
                self.seed,
                self.finished,
                self.interrupts,
                self.answered_questions,
                self.answers,
                self.chain,
            ) = current_step
        self.source = "loop" if body["kind"] == "step" else str(body["kind"])
        self.at = body["at"]

    def move(
        self,
        id: str | None,
        targets: list[Target],
        step: int,
        waiting: dict[str, list[str]],
        deferred: list[str],
    ) -> None:
        """Begin the next step."""
        self.base_parent, self.base, self.seed = self.base, id, id
        self.next, self.step, self.waiting, self.deferred = targets, step, waiting, deferred
        self.finished, self.failures = {}, {}
        self.clear_questions()
        self.chain = set() if id is None else {id}
        self.is_paused = False

    def _outcome(self, body: Mapping[str, Any], where: str) -> Outcome:
        return Outcome(
            body["name"],
            self.keys.decode(body.get("update", {}), where),
            [decode_target(target, self.keys) for target in body.get("goto", ())],
        )

    def error_of(self, task_id: str) -> Exception | None:
        """Return the error of a failed task of the current step."""
        encoded = self.failures.get(task_id)
        return None if encoded is None else decode_error(encoded, f"the task {task_id}")

    def tasks(self, place: str) -> list[Task]:
        """Return the tasks of the next step: nodes by name, then `Send`s in their order."""
        names = sorted({name for name in self.next if isinstance(name, str) and name != END})
        sends = [target for target in self.next if isinstance(target, Send)]
        seed = f"{place}/{self.seed or self.step}"
        tasks = [Task(name, _task_id(seed, name, ""), ("__pregel_pull", name)) for name in names]
        return tasks + [
            Task(
                send.node,
                _task_id(seed, send.node, str(number)),
                ("__pregel_push", number),
                send.arg,
                is_push=True,
            )
            for number, send in enumerate(sends)
        ]


def _task_id(seed: str, name: str, number: str) -> str:
    digest = hashlib.blake2b(f"{seed}/{name}/{number}".encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def record(kind: str, **fields: object) -> dict[str, Any]:
    """Make the body of a record; empty fields are left out."""
    body = {key: value for key, value in fields.items() if value not in (None, [], {})}
    return {"v": VERSION, "kind": kind, "at": datetime.now(UTC).isoformat(), **body}


def encode_target(target: Target, keys: StateKeys) -> object:
    """Return a target as JSON; the input of a `Send` is encoded by the types of its keys."""
    if not isinstance(target, Send):
        return target
    where = f"the input of Send({target.node!r})"
    if isinstance(target.arg, dict) and all(isinstance(key, str) for key in target.arg):
        types = keys.types
        packed = {
            key: pack(value, f"{where}, {key!r}", types.get(key, Any))
            for key, value in target.arg.items()
        }
        return [target.node, "keys", packed]
    return [target.node, "value", pack(target.arg, where, keys.inputs.get(target.node, Any))]


def decode_target(packed: str | list[Any], keys: StateKeys) -> Target:
    """Return the target of its JSON form."""
    if isinstance(packed, str):
        return packed
    node, form, arg = packed
    where = f"the input of Send({node!r})"
    if form == "value":
        return Send(str(node), unpack(arg, where, keys.inputs.get(node, Any)))
    types = keys.types
    return Send(
        str(node), {key: unpack(value, where, types.get(key, Any)) for key, value in arg.items()}
    )
