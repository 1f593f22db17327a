"""`Journal`: the log of one flow on one thread. What is stored here is never done again.

    flow     a run begins: the name and version of the flow, and its input
    step     a step at a place is done: the hash of its arguments, and its result
    fail     a step at a place failed finally: its error
    stop     the run stopped for these questions
    resume   the answers to them
    claim    a process continues the run (after a crash)
    end      the run is done: its result; or it failed: its error, and the failed steps that the next attempt repeats
    update   what the next run can read was changed from outside; the run before it is over

A place is `parent/name#n`: the n-th call of a step of that name under its parent. A flow that the flow calls is such a
step too, and its steps are places under it; in records of form 1 it has a journal of its own.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from foldline._io import IO, mutex
from foldline.checkpoint.base import BaseCheckpointSaver, Entry
from foldline.exceptions import FlowChangedError, SchemaError
from foldline.workflows._flow_entries import recent_entries
from foldline.workflows._thread_log import Lineage, Log, PendingEntry
from foldline.workflows._thread_owner import ThreadOwner
from foldline.workflows.interrupts import Interrupt, question_of_row
from foldline.workflows.values import from_text, pack

__all__ = ["Journal", "decode_error", "encode_error", "read_body"]

VERSION = 1
FORM = 2
"""The form of the records of flows; in form 1 nested flows have journals of their own."""
KINDS = frozenset({"flow", "step", "fail", "stop", "resume", "claim", "end", "update"})


@dataclass
class Journal:
    """The log of one flow on one thread, and its contents so far."""

    saver: BaseCheckpointSaver
    thread_id: str
    namespace: str = ""
    lineage: Lineage | None = None
    """The position of the outer run."""
    old_namespace: str | None = None
    """The namespace that an earlier version gave this journal."""
    owner: ThreadOwner | None = None
    """The run that owns the thread."""
    is_open: bool = False
    head: str | None = None
    """The last record of the chain."""
    run: dict[str, Any] | None = None
    """The record that began the run; None before the first run."""
    run_id: str = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The records of finished and failed steps of this run, by place, in the order of writing."""
    claimed: set[str] = field(default_factory=set)
    answers: dict[str, Any] = field(default_factory=dict)
    interrupts: list[Interrupt] = field(default_factory=list)
    answered_at: str | None = None
    """When questions of this run were last answered."""
    ending: dict[str, Any] | None = None
    previous: Any = None
    """The result of the previous run, as JSON."""
    step: int = -1
    """The number of the step that the current run is, counted as a graph of one node counts."""
    checkpoint: str | None = None
    """The last record that is a checkpoint of a graph of one node: an input, a result or an update."""
    checkpoint_before: str | None = None
    has_saved_value: bool = False
    """Whether `previous` is a value that the previous run saved beside its result."""
    on_write: Callable[[Entry, dict[str, Any]], None] | None = None
    """Called with every record that is stored."""

    def __post_init__(self) -> None:
        self._lock = mutex()
        self._loading: Any = None
        self._log = Log(self.saver, self.thread_id, self.namespace, self.lineage, self.owner)
        self.owner = self._log.owner
        self._log.old_namespace = self.old_namespace
        self._under: dict[str, list[str]] = {}
        """The places of records under a place, at any depth."""
        self._chain: set[str] = set()
        """The records of this run."""

    def mark(self) -> object:
        """Return the position of this run, which the logs of agents and graphs that it calls store."""
        return self._log.current

    def covers(self, mark: object) -> bool:
        """Whether a nested record was written by this run."""
        return mark in self._chain

    def set_durability(self, durability: str | None) -> None:
        """Set when records are written: before the run continues, during the next step, or when the run ends."""
        self._log.set_durability(durability)

    async def release(self, io: IO) -> None:
        """Write the remaining records, and wait for those being written."""
        await self._log.release(io)

    @property
    def is_done(self) -> bool:
        """Whether the run has ended with a result."""
        return self.ending is not None and "value" in self.ending

    @property
    def is_unfinished(self) -> bool:
        """Whether a run began and can continue: it has not ended, or with an error that the next attempt repeats."""
        return self.run is not None and (self.ending is None or "error" in self.ending)

    @property
    def has_nested_flows(self) -> bool:
        """Whether flows that the flow calls are places of this journal."""
        return self.run is not None and self.run.get("v") != VERSION

    @property
    def ends_with_question(self) -> bool:
        """Whether the last record that was read is a question."""
        return self._log.ends_with_question

    async def check_owner(self, io: IO) -> None:
        """Raise `ThreadConflictError` if the run has lost its thread: another one may have the next effect."""
        await self._log.owner.check(io)

    # -- reading

    async def load(self, io: IO, at: str | None = None) -> None:
        """Load the log, once: tasks that begin together wait for the first of them."""
        if self.is_open:
            return
        with self._lock:
            if self._loading is None:
                self._loading = io.lock()
        async with self._loading:
            if self.is_open:
                return
            recent = await recent_entries(self._log, io, at)
            self.namespace = self._log.namespace
            for entry in recent.entries:
                body = read_body(entry, KINDS, "a flow", form=FORM)
                if body["kind"] == "flow":
                    self.step, self.checkpoint = (
                        recent.start
                    )  # after earlier runs, which are left out
                self._take(entry.id, body)
            self.is_open = True

    def _take(self, id: str, body: dict[str, Any]) -> None:
        self.head = id
        self._chain.add(id)
        kind = body["kind"]
        try:
            if kind == "flow":
                self._begin(id, body)
            elif kind in ("step", "fail"):
                self._take_step(body["place"], body)
            elif kind == "stop":
                self.interrupts = [question_of_row(row)[0] for row in body["interrupts"]]
                for question in self.interrupts:  # an earlier answer did not fit
                    self.answers.pop(question.id, None)
            elif kind == "resume":
                self.answers |= body["answers"]
                self.interrupts, self.answered_at = [], body.get("at")
            elif kind == "end":
                self._end(id, body)
            elif kind == "update":
                self.interrupts, self.step = [], max(self.step, 0)
                self._end(id, {**body, "value": body["saved"]})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SchemaError(
                f"record {id} of thread {self.thread_id!r} is damaged: {error}"
            ) from error

    def _take_step(self, place: str, body: dict[str, Any]) -> None:
        self.steps[place] = body
        parent = place.rpartition("/")[0]
        while parent:
            self._under.setdefault(parent, []).append(place)
            parent = parent.rpartition("/")[0]

    def _begin(self, id: str, body: dict[str, Any]) -> None:
        self.run, self.run_id = body, id
        self.step += 1
        self.checkpoint_before, self.checkpoint = self.checkpoint, id
        self._chain.clear()
        self._chain.add(id)
        self.steps, self.claimed = {}, set()
        self._under.clear()
        self.answers, self.interrupts, self.answered_at, self.ending = {}, [], None, None

    def _end(self, id: str, body: dict[str, Any]) -> None:
        self.ending = body
        if "value" in body:
            self.step += 1
            self.checkpoint_before, self.checkpoint = self.checkpoint, id
            self.previous = body.get("saved", body["value"])
            self.has_saved_value = "saved" in body
        for place in body.get("again", ()):
            self.steps.pop(place, None)

    # -- replaying

    def has_steps_under(self, place: str) -> bool:
        """Whether steps under a place are in the journal."""
        return place in self._under

    def claim(self, place: str) -> None:
        """Mark a place, and all places under it, as reached by the flow again."""
        if place in self.steps:
            self.claimed.add(place)
        if place in self._under:
            self.claimed.update(key for key in self._under[place] if key in self.steps)

    def forget_failures(self, place: str) -> None:
        """Let the failed steps under a place run again: their enclosing step is retried."""
        prefix = f"{place}/"
        for key in [key for key, body in self.steps.items() if body["kind"] == "fail"]:
            if key.startswith(prefix):
                del self.steps[key]
                self.claimed.discard(key)

    def unclaimed(self, parent: str | None = None) -> str | None:
        """Return the first place of the journal that the flow did not reach, under a parent or anywhere."""
        if len(self.claimed) == len(self.steps):
            return None
        for place in self.steps:
            if place not in self.claimed and (
                parent is None or place.rpartition("/")[0] == parent.rstrip("/")
            ):
                return place
        return None

    def check_arguments(self, place: str, record: dict[str, Any], digest: str) -> None:
        """Raise if a step is called with other arguments than those in the journal."""
        if record.get("args") != digest:
            raise FlowChangedError(
                f"thread {self.thread_id!r}: the first place that differs is {place}: it was called with other "
                "arguments than its journal has. Use the code that began this thread, or begin a new one"
            )

    # -- writing

    def note(self, kind: str, **fields: object) -> None:
        """Write a record together with the next one; it is stored before any later step runs."""
        self._add(kind, fields)

    def _add(self, kind: str, fields: dict[str, Any]) -> PendingEntry:
        body = {"v": FORM, "kind": kind, "at": datetime.now(UTC).isoformat(), **fields}
        with self._lock:
            pending = self._log.add(body, self.head)
            self._take(pending.entry.id, body)
            if kind in ("step", "fail"):
                self.claimed.add(fields["place"])
        return pending

    async def write(self, io: IO, kind: str, **fields: object) -> str:
        """Write a record and wait until it is stored; return its id."""
        pending = self._add(kind, fields)
        await self._log.flush(io, pending)
        if self.on_write is not None:
            self.on_write(pending.entry, {"kind": kind, **fields})
        return pending.entry.id

    async def flush(self, io: IO) -> None:
        """Wait until all records are stored."""
        await self._log.flush(io)


def read_body(
    entry: Entry, kinds: frozenset[str], what: str, *, form: int = VERSION
) -> dict[str, Any]:
    """Return the body of an entry; raise `SchemaError` for a newer form, or a kind that is not in `kinds`."""
    body = from_text(entry.body, f"record {entry.id}")
    if body["v"] not in range(1, form + 1):
        raise SchemaError(
            f"record {entry.id} was written by another version of foldline (form {body['v']!r}, this one reads "
            f"{form}): use that version to finish the thread, or begin a new one"
        )
    if body["kind"] not in kinds:
        raise SchemaError(
            f"record {entry.id} is of kind {body['kind']!r:.40}, which {what} does not write: another program "
            "uses this thread, or the log is damaged"
        )
    return body


# -- errors of steps


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return the error of a step as JSON."""
    kind = type(error)
    try:
        arguments = pack(list(error.args), "the error")
    except SchemaError:
        arguments = [str(error)]
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "args": arguments}


def decode_error(encoded: dict[str, Any], where: str) -> Exception:
    """Return the error of a step, of its class if that is imported, without calling its `__init__`."""
    error_class = next(_error_classes(str(encoded.get("type"))), None)
    arguments = encoded.get("args")
    arguments = arguments if isinstance(arguments, list) else []
    if error_class is None:
        return SchemaError(
            f"{where} failed with {encoded.get('type')}, whose class is not loaded: import it before the flow continues"
        )
    error = error_class.__new__(error_class, *arguments)
    error.args = tuple(arguments)
    return error


def _error_classes(name: str) -> Iterator[type[Exception]]:
    module, _, qualname = name.rpartition(".")
    value: Any = builtins if module == "builtins" else sys.modules.get(module)
    while value is None and "." in module:
        module, _, outer = module.rpartition(".")
        qualname = f"{outer}.{qualname}"
        value = sys.modules.get(module)
    for part in qualname.split("."):
        value = getattr(value, part, None)
    if isinstance(value, type) and issubclass(value, Exception):
        yield value
