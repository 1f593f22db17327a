"""The records of a graph's thread, and the state they add up to. Stored records are untrusted input.

input     a caller's input as it came; the next step is START
plan      the input is merged into the state: the tasks of the first step
task      one task of a step with several is done: its update, and its targets
fail      a task of the current step failed: its error
step      a step is done: the updates of its tasks, and the tasks of the next step
update    the state was changed from outside (update_state)
fork      a run continues from an earlier checkpoint; or a copy of it, beside it
exit      all checkpoints of a run with durability="exit", as one
pause     the run stopped at a breakpoint, of this graph or of a nested one
stop      the run stopped for these questions
resume    the answers to them
claim     a process continues the run (after a crash)

A thread may have branches. A record that begins one (its parent is not the last record of a branch) stores the
`lineage`: how far each older branch counts. The position of a record is its branch (the id of the record that began it,
"0" for the first) and its number there. A nested log stores with each record the position of the outer run, so what
belongs to a branch is found by comparing numbers. In records of form 1 an `input` has the first tasks too, and nested
logs store the id of an outer record.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from foldline.checkpoint.base import Entry
from foldline.exceptions import SchemaError
from foldline.graph.schema import StateKeys
from foldline.graph.types import END, START, Send
from foldline.workflows._journal import VERSION, decode_error, read_body
from foldline.workflows._thread_state import ThreadState
from foldline.workflows.interrupts import Interrupt, question_of_row
from foldline.workflows.values import pack, to_text, unpack

__all__ = [
    "GraphThread",
    "PlannedTask",
    "TaskOutcome",
    "decode_target",
    "encode_target",
    "plain_metadata",
    "record",
]

Values = dict[str, Any]
Target = str | Send
FORM = 2
BASES = frozenset({"input", "plan", "step", "update", "fork", "exit"})
"""The kinds after which a new step begins: the checkpoints."""
STARTS = frozenset({"input", "update", "fork", "resume", "claim"})
"""The kinds that begin a run; they have the metadata of its caller."""
STEP_FIELDS = (
    "seed",
    "finished",
    "task_questions",
    "interrupts",
    "answered_at",
    "answers",
    "chain",
    "base_branch",
)
"""What belongs to the tasks of a step, and stays if an update keeps them."""
KINDS = BASES | {"task", "fail", "pause", "stop", "resume", "claim"}


@dataclass(slots=True)
class PlannedTask:
    """A node that runs in a step."""

    name: str
    id: str
    path: tuple[Any, ...]
    arg: Any = None
    """The input of a `Send`."""
    is_push: bool = False


@dataclass(slots=True)
class TaskOutcome:
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
    step: int = field(default=-2, kw_only=True)
    seed: str | None = None
    """The seed of the ids of the next step's tasks."""
    base_parent: str | None = None
    parents: dict[str, str] = field(default_factory=dict)
    """The checkpoints of the outer runs when the last one was written, by namespace."""
    run_metadata: dict[str, Any] = field(default_factory=dict)
    """The metadata of the caller of the last run."""
    base_metadata: dict[str, Any] = field(default_factory=dict)
    """The same of the run that wrote the last checkpoint."""
    source: str = "input"
    input: Values | None = None
    """The input of a round that has not begun: the next step is START."""
    finished: dict[str, TaskOutcome] = field(default_factory=dict)
    """Results of the finished tasks of the current step."""
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Errors of its failed tasks, until the run continues."""
    task_questions: dict[str, list[Interrupt]] = field(default_factory=dict)
    """The questions that its tasks have asked, answered or not, by task."""
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

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the last checkpoint."""
        own = {"source": self.source, "step": self.step, "parents": self.parents}
        return {**self.base_metadata, **own}

    def copy(self) -> GraphThread:
        """Return a copy that takes records of its own; values are shared."""
        new = copy.copy(self)
        new.finished, new.failures = dict(self.finished), dict(self.failures)
        new.task_questions = {
            task: list(questions) for task, questions in self.task_questions.items()
        }
        new.answers, new.chain = dict(self.answers), set(self.chain)
        return new

    # -- records

    def take_entry(self, entry: Entry, place: int | None = None) -> str:
        """Add an entry, which has this place in its log; return its kind."""
        body = read_body(entry, KINDS, "a graph", form=FORM)
        try:
            self._take_next(entry.id, body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SchemaError):
                raise
            raise SchemaError(f"record {entry.id} is damaged and was not read: {error}") from error
        if body["v"] == VERSION and place is not None:
            self.seq = place  # form 1 has no branches: positions are places in the log
            if body["kind"] in BASES:
                self.base_seq = place
        return str(body["kind"])

    def take(self, id: str, body: Mapping[str, Any]) -> None:
        """Add a record that is the last one already."""
        kind = body["kind"]
        if kind in STARTS:
            self.run_metadata = body.get("metadata", {})
            self.inbox = body.get("inbox", self.inbox)
        if kind == "task":
            self.finished[body["id"]] = self.outcome_of(body, f"record {id}")
        elif kind == "fail":
            self.failures[body["id"]] = dict(body["error"])
        elif kind == "stop":
            self._take_questions(body)
        elif kind == "resume":
            self.take_answers(
                {key: unpack(answer, "an answer") for key, answer in body["answers"].items()},
                body["at"],
            )
            self.failures = {}
        elif kind == "claim":
            self.failures = {}
        elif kind == "pause":
            self.is_paused = True
        elif kind in BASES:
            self._take_base(id, body)

    def _take_next(self, id: str, body: Mapping[str, Any]) -> None:
        if body["kind"] != "exit":
            self.advance(id, body.get("lineage"))
            self.take(id, body)
            return
        parent = self.base
        for step_id, step_body in body["steps"]:
            self._take_next(step_id, step_body)
        self.base_parent = parent
        self.source = "loop"

    def _take_questions(self, body: Mapping[str, Any]) -> None:
        rows = [question_of_row(row) for row in body.get("questions") or body["interrupts"]]
        self.open_questions([question for question, _ in rows])
        for question, task_id in rows:  # form 1: no task
            self.ask(task_id, question)

    def ask(self, task_id: str | None, question: Interrupt) -> None:
        """Note the question of a task; one that it has asked before stays as it is."""
        questions = self.task_questions.setdefault(task_id or "", [])
        if all(question.id != known.id for known in questions):
            questions.append(question)

    def questions_of(self, task_id: str) -> list[Interrupt]:
        """Return the questions that a task of the current step has asked; those of form 1 belong to all tasks."""
        return [*self.task_questions.get(task_id, ()), *self.task_questions.get("", ())]

    @property
    def questions(self) -> list[Interrupt]:
        """The questions that an answer may be for: the open ones; those of a task that failed after its answer."""
        return self.interrupts or [
            question
            for task_id in self.failures
            for question in self.questions_of(task_id)
            if question.id in self.answers
        ]

    def _take_base(self, id: str, body: Mapping[str, Any]) -> None:
        kind, where = body["kind"], f"record {id}"
        outcomes = [self.outcome_of(task, where) for task in body.get("tasks", ())]
        outcomes += [self.finished[task_id] for task_id in body.get("done", ())]
        if outcomes:
            self.values = self.keys.join(
                self.values, [(outcome.name, outcome.update) for outcome in outcomes]
            )
        if kind == "input":
            self.input = self.keys.decode(body.get("values", {}), where)
        elif kind == "update":
            self.input = None
        if kind == "plan" or (kind == "input" and "next" in body):
            self.merge_input()
        kept = {name: getattr(self, name) for name in STEP_FIELDS} if body.get("keeps") else {}
        self._move_by(id, body)
        if kind != "fork":
            self.last_nodes = [outcome.name for outcome in outcomes]
        self.is_paused = bool(body.get("paused"))
        for name, value in kept.items():  # the next tasks are the same: questions and results stay
            setattr(self, name, value)
        self.parents = body.get("parents", {})
        self.source = "loop" if kind in ("step", "plan") else str(kind)
        self.at = body["at"]

    def _move_by(self, id: str, body: Mapping[str, Any]) -> None:
        """Go to the tasks that a record names; an input without them waits at START, other records fork."""
        if "next" in body:
            targets = [decode_target(target, self.keys) for target in body["next"]]
            step, waiting = int(body["step"]), body.get("waiting", {})
            self.move(id, targets, step, waiting, body.get("deferred", []))
        elif body["kind"] == "input":
            self.move(id, [START], int(body["step"]), {}, [])
        else:
            self._fork(id, is_sibling=bool(body.get("sibling")))

    def _fork(self, id: str, *, is_sibling: bool) -> None:
        """Begin the same step again on a new branch; a sibling stands beside its checkpoint, with tasks of its own."""
        seed, parent = self.seed, self.base_parent
        self.move(id, self.next, self.step + 1, self.waiting, self.deferred)
        if is_sibling:
            self.base_parent = parent
        else:
            self.seed = seed

    def merge_input(self) -> None:
        """Merge the input of a round into the state."""
        self.values = self.keys.join(self.values, [("the input", self.input or {})])
        self.input = None

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
        self.base_branch, self.base_seq = self.branch, self.seq
        self.base_metadata = self.run_metadata
        self.next, self.step, self.waiting, self.deferred = targets, step, waiting, deferred
        self.finished, self.failures, self.task_questions = {}, {}, {}
        self.clear_questions()
        self.chain = set() if id is None else {id}
        self.is_paused = False

    def values_now(self, tasks: Sequence[PlannedTask]) -> Values:
        """Return the state with the results of the tasks of the current step that are finished."""
        if not self.finished:
            return self.values
        done = [self.finished[task.id] for task in tasks if task.id in self.finished]
        values = self.keys.own_values(self.values)
        return self.keys.join(values, [(outcome.name, outcome.update) for outcome in done])

    def outcome_of(self, body: Mapping[str, Any], where: str) -> TaskOutcome:
        """Return the result of a task from its record."""
        return TaskOutcome(
            body["name"],
            self.keys.decode(body.get("update", {}), where),
            [decode_target(target, self.keys) for target in body.get("goto", ())],
        )

    def error_of(self, task_id: str) -> Exception | None:
        """Return the error of a failed task of the current step."""
        encoded = self.failures.get(task_id)
        return None if encoded is None else decode_error(encoded, f"the task {task_id}")

    def tasks(self, place: str) -> list[PlannedTask]:
        """Return the tasks of the next step: nodes by name, then `Send`s in their order."""
        names = sorted({name for name in self.next if isinstance(name, str) and name != END})
        sends = [target for target in self.next if isinstance(target, Send)]
        seed = f"{place}/{self.seed or self.step}"
        tasks = [
            PlannedTask(name, _task_id(seed, name, ""), ("__pregel_pull", name)) for name in names
        ]
        return tasks + [
            PlannedTask(
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
    return {"v": FORM, "kind": kind, "at": datetime.now(UTC).isoformat(), **body}


def plain_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the part of a caller's metadata that can be stored: what is JSON."""
    return {key: value for key, value in (metadata or {}).items() if _is_json(value)}


def _is_json(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)


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


def one_checkpoint(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a run with its checkpoints as one, which has the id of the last (durability="exit")."""
    bodies = [read_body(entry, KINDS, "a graph", form=FORM) for entry in entries]
    bases = [number for number, body in enumerate(bodies) if body["kind"] in BASES]
    if len(bases) < 2:
        return list(entries)
    last = bases[-1]
    steps = [[entries[number].id, bodies[number]] for number in range(last + 1)]
    body = record("exit", steps=steps, under=bodies[last].get("under"))
    rest = list(entries[last + 1 :])
    return [Entry(entries[last].id, entries[0].parent, to_text(body)), *rest]
