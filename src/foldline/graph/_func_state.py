"""The state of an entrypoint's thread, in the form of a graph of one node. A thread's values are what a run saved.

Of the records of a flow, three are checkpoints: the input of a run, its end with a result, and a change from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from foldline._config import RunnableConfig
from foldline._run import Run
from foldline.checkpoint.base import Entry
from foldline.exceptions import InvalidUpdateError, SchemaError, UsageError
from foldline.graph.types import END, GraphTask, StateSnapshot, StateUpdate, TaskError
from foldline.workflows._flow_run import pack_arguments
from foldline.workflows._journal import FORM, KINDS, Journal, decode_error, read_body
from foldline.workflows._thread_log import chain_of, thread_of
from foldline.workflows.interrupts import Interrupt
from foldline.workflows.steps import digest_of
from foldline.workflows.values import pack, unpack

if TYPE_CHECKING:
    from foldline.workflows.flow import Workflow

__all__ = ["EntrypointThread"]

BEFORE_INPUT = -2
"""The step of a thread without checkpoints."""
INPUT = "__input__"
Body = dict[str, Any]


@dataclass
class _Step:
    """A run of the entrypoint's function: its input, and what became of it."""

    id: str
    body: Body
    questions: list[Interrupt] = field(default_factory=list)
    error: Exception | None = None
    end: Body | None = None


@dataclass(frozen=True)
class _Checkpoint:
    """A position of the thread, after one of its records."""

    id: str | None = None
    parent: str | None = None
    source: str = ""
    step: int = BEFORE_INPUT
    at: str | None = None
    saved: tuple[Any, Any] | None = None
    """What was saved, as JSON, and its type."""
    next: _Step | None = None
    """The run that is to come, or is not finished."""
    open_questions: tuple[Interrupt, ...] = ()


class EntrypointThread:
    """Reads and changes one thread of an entrypoint."""

    def __init__(self, flow: Workflow[Any, Any], saves: object, run: Run) -> None:
        if flow.checkpointer is None:
            raise UsageError(f"{flow.flow_name} has no checkpointer: @entrypoint(checkpointer=…)")
        self.flow = flow
        self.saves = saves
        """The type of what a run saves."""
        self.run = run
        self.saver = flow.checkpointer
        self.thread_id = thread_of(run.configurable, flow.flow_name)
        self.at: str | None = run.configurable.get("checkpoint_id")

    # -- reading

    async def state(self) -> StateSnapshot:
        """Return the present state, or the state at a checkpoint."""
        entries = await self.run.io.call(self.saver.read, self.thread_id, "")
        points = self._fold(entries)
        if self.at is not None:
            chain_of(entries, self.at)  # raises if there is no such record
            return self._snapshot(points[self.at], is_present=False)
        last = points[entries[-1].id] if entries else _Checkpoint()
        return self._snapshot(last, is_present=True)

    async def history(
        self, filter: Mapping[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> list[StateSnapshot]:
        """Return the checkpoints, the newest first; all branches, or those before a checkpoint."""
        entries = await self.run.io.call(self.saver.read, self.thread_id, "")
        points = self._fold(entries)
        if self.at is not None:
            entries = chain_of(entries, self.at)
        checkpoints = [points[entry.id] for entry in entries if points[entry.id].id == entry.id]
        before_id = (before or {}).get("configurable", {}).get("checkpoint_id")
        places = [place for place, point in enumerate(checkpoints) if point.id == before_id]
        snapshots: list[StateSnapshot] = []
        for point in checkpoints[: places[0] if places else None][::-1]:
            if limit is not None and len(snapshots) >= limit:
                break
            snapshot = self._snapshot(point, is_present=False)
            metadata = snapshot.metadata or {}
            if all(metadata.get(key) == value for key, value in (filter or {}).items()):
                snapshots.append(snapshot)
        return snapshots

    def _fold(self, entries: Sequence[Entry]) -> dict[str | None, _Checkpoint]:
        """Return the position after each record, by the record's id."""
        points: dict[str | None, _Checkpoint] = {None: _Checkpoint()}
        for entry in entries:
            body = read_body(entry, KINDS, "a flow", form=FORM)
            before = points.get(entry.parent, points[None])
            try:
                points[entry.id] = self._after(before, entry.id, body)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise SchemaError(
                    f"record {entry.id} of thread {self.thread_id!r} is damaged: {error}"
                ) from error
        return points

    def _after(self, point: _Checkpoint, id: str, body: Body) -> _Checkpoint:
        """Return the position after a record."""
        kind, step = body["kind"], point.next
        moved = replace(
            point, id=id, parent=point.id, step=point.step + 1, at=body.get("at"), open_questions=()
        )
        if kind == "flow":
            return replace(moved, source="input", next=_Step(id, body))
        if kind == "update":
            first = max(moved.step, 0)
            return replace(moved, source="update", step=first, saved=self._saved(body), next=None)
        if kind == "end" and step is not None:
            return self._after_end(point, moved, step, body)
        return point if step is None else self._within(point, step, id, body)

    def _within(self, point: _Checkpoint, step: _Step, id: str, body: Body) -> _Checkpoint:
        """Return the position after a record of the unfinished run."""
        if body["kind"] == "stop":
            questions = [Interrupt(unpack(value, id), key) for key, value in body["interrupts"]]
            step.questions += [item for item in questions if item not in step.questions]
            return replace(point, open_questions=tuple(questions))
        if body["kind"] == "resume":
            answers = body["answers"]
            remaining = tuple(item for item in point.open_questions if item.id not in answers)
            return replace(point, open_questions=remaining)
        return point

    def _after_end(
        self, point: _Checkpoint, moved: _Checkpoint, step: _Step, body: Body
    ) -> _Checkpoint:
        if "value" in body:
            step.end = body
            return replace(moved, source="loop", saved=self._saved(body), next=None)
        encoded = body.get("error") or body.get("failed") or {}
        step.error = decode_error(encoded, self.flow.flow_name)
        return replace(point, open_questions=(), next=None if "failed" in body else step)

    def _saved(self, body: Body) -> tuple[Any, Any]:
        if "saved" in body:
            return body["saved"], self.saves
        return body["value"], self.flow.returns

    def _snapshot(self, point: _Checkpoint, *, is_present: bool) -> StateSnapshot:
        names = {"thread_id": self.thread_id, "checkpoint_ns": ""}
        if point.id is None:
            return StateSnapshot({}, (), {"configurable": names})
        tasks = (
            () if point.next is None else (self._task(point, point.next, is_present=is_present),)
        )
        parent = point.parent
        return StateSnapshot(
            values=None if point.saved is None else unpack(point.saved[0], "the state", point.saved[1]),
            next=tuple(task.name for task in tasks),
            config={"configurable": {**names, "checkpoint_id": point.id}},
            metadata={"source": point.source, "step": point.step, "parents": {}},
            created_at=point.at,
            parent_config=None if parent is None else {"configurable": {**names, "checkpoint_id": parent}},
            tasks=tasks,
            interrupts=tasks[0].interrupts if tasks else (),
        )  # fmt: skip

    def _task(self, point: _Checkpoint, step: _Step, *, is_present: bool) -> GraphTask:
        questions = point.open_questions if is_present else tuple(step.questions)
        name, result = self.flow.flow_name, None
        if step.end is not None and not is_present:
            result = unpack(step.end["value"], "the result", self.flow.returns)
        error = None if step.error is None or step.end is not None else TaskError(step.error)
        return GraphTask(step.id, name, ("__pregel_pull", name), error, questions, None, result)

    # -- changing

    async def update(self, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Save values as if runs had returned them, all or none; no run is unfinished and no question open then."""
        io = self.run.io
        changes = [self._change(updates) for updates in supersteps]
        if not changes:
            raise InvalidUpdateError("bulk_update_state needs at least one superstep")
        journal = Journal(self.saver, self.thread_id)
        assert journal.owner is not None
        async with journal.owner.owned(io):
            await journal.load(io, self.at)
            for kind, fields in changes:
                journal.note(kind, **fields)
            await journal.flush(io)
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": "",
                "checkpoint_id": journal.head,
            }
        }

    def _change(self, updates: Sequence[StateUpdate]) -> tuple[str, dict[str, Any]]:
        flow = self.flow
        if len(updates) != 1:
            raise InvalidUpdateError(
                f"{flow.flow_name} is one node: a superstep has one update of it, not {len(updates)}"
            )
        values, node = updates[0].values, updates[0].as_node
        if node == INPUT:
            arguments = flow.arguments(values)
            packed = pack_arguments(flow, arguments)
            fields = {"name": flow.flow_name, "version": flow.version, "input": packed}
            return "flow", {**fields, "args": digest_of(*arguments)}
        if node not in (None, flow.flow_name, END):
            raise InvalidUpdateError(
                f"update_state(as_node={node!r}): an entrypoint has one node, {flow.flow_name!r}; use that, "
                f"END, {INPUT!r} or nothing"
            )
        return "update", {"saved": pack(values, "update_state", self.saves)}
