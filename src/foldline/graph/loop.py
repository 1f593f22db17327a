"""`GraphLoop`: one run of a graph, step by step.

The tasks of a step run at once, see the same state, and join it together; a step is kept before the next one begins.
`events()` gives what happens as it happens; where nobody listens it gives nothing, and `result()` counts.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._io import IO
from foldline._run import Run
from foldline.checkpoint.base import BaseCheckpointSaver
from foldline.exceptions import GraphRecursionError, UsageError
from foldline.graph.nodes import call_function
from foldline.graph.plan import Branch, check_target
from foldline.graph.records import (
    GraphThread,
    Outcome,
    Target,
    Task,
    decode_target,
    encode_target,
    record,
)
from foldline.graph.runtime import Runtime, current_task
from foldline.graph.task_run import ParentCommand, TaskRun
from foldline.graph.threads import load_thread
from foldline.graph.types import START
from foldline.runnables.base import Runnable
from foldline.workflows.event_output import EventOutput
from foldline.workflows.events import FlowEvent
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt, answers_for
from foldline.workflows.log import Lineage, Log, thread_of
from foldline.workflows.nesting import Within
from foldline.workflows.values import pack

if TYPE_CHECKING:
    from foldline.graph.compiled import CompiledStateGraph

__all__ = ["GraphLoop"]

Json = Any
Values = dict[str, Any]
LIVE = frozenset({"custom", "tokens", "tasks"})
"""What is said while a step runs, and not after it."""
MOST_STEPS = 10_007


class GraphLoop:
    """One run of a graph."""

    def __init__(
        self, graph: CompiledStateGraph, run: Run, *, wants: frozenset[str], outer: Within | None
    ) -> None:
        self.graph = graph
        self.plan = graph.plan
        self.run = run
        self.io: IO = run.io
        self.outer = outer
        self.wants = wants if outer is None or outer.emit is None else wants | outer.wants
        around = current_task.get()  # a graph inside a node has its context and store
        self.context = run.kwargs.get("context", None if around is None else around.context)
        self.store = graph.store if graph.store is not None or around is None else around.store
        self.namespace: tuple[str, ...] = ()
        self.key = ""
        """Names this run where it is kept, inside others."""
        if outer is not None:
            self.namespace, self.key = outer.next_place()
        self.lineage: Lineage | None = None
        self.saver, self.thread_id, self.is_inner = self._place()
        self.output = EventOutput(self.io, self.namespace, self.wants)
        self.thread = GraphThread(self.plan.keys, self.plan.keys.empty())
        self.log: Log | None = None
        self.tasks: list[Task] = []
        self.before = _names(
            run.kwargs.get("interrupt_before"), graph.interrupt_before, self.plan.nodes
        )
        self.after = _names(
            run.kwargs.get("interrupt_after"), graph.interrupt_after, self.plan.nodes
        )
        given = run.given.get("recursion_limit")
        is_set = given is not None and (given != DEFAULT_RECURSION_LIMIT or run.origin is None)
        # A config that was filled in for a nested call carries the limit of runnables; a graph may take more steps.
        self.limit: int = given if given is not None and is_set else MOST_STEPS
        self._taken = 0
        self._current: Any = None
        self.is_stopped = False

    def _place(self) -> tuple[BaseCheckpointSaver | None, str | None, bool]:
        own = self.graph.checkpointer
        if own is False:
            return None, None, False
        outer = self.outer
        if outer is not None and outer.checkpointer is not None:
            if own is True:  # its threads outlive the task that calls it
                self.namespace = tuple(part.partition(":")[0] for part in self.namespace)
                self.key = "|".join(self.namespace)
            else:
                self.lineage = outer.lineage
            return outer.checkpointer, outer.thread_id, True
        if isinstance(own, BaseCheckpointSaver):
            return own, thread_of(self.run.configurable, self.graph.get_name()), False
        return None, None, False

    # -- the loop

    async def events(self, value: Json) -> AsyncGenerator[FlowEvent, None]:
        """Run; give what happens."""
        try:
            await self._open(value)
            for event in self.output.take_held():
                yield event
            is_live = bool(self.wants & LIVE)
            while self.thread.next and not self.is_stopped and not self.thread.interrupts:
                async with aclosing(self.output.during(self._step, is_live=is_live)) as said:
                    async for event in said:
                        yield event
        finally:
            if self.log is not None and self.log.holds_back:
                await self.log.release(self.io)

    async def _step(self) -> None:
        """Take one step: run its tasks, join what they gave, keep it."""
        thread = self.thread
        self.tasks = thread.tasks("|".join(self.namespace))
        if (
            self.before
            and not thread.is_paused
            and any(one.name in self.before for one in self.tasks)
        ):
            await self._append(record("pause", nodes=[one.name for one in self.tasks]))
            thread.is_paused = self.is_stopped = True
            self._tell_pause()
            return
        if self._taken >= self.limit:
            raise GraphRecursionError(
                f"{self.graph.name} took {self.limit} steps and did not come to its end (next: "
                f"{', '.join(one.name for one in self.tasks)}): give config={{'recursion_limit': …}} if it needs more"
            )
        self._taken += 1
        outcomes = await self._run_tasks()
        if outcomes is not None:
            await self._commit(outcomes)

    async def _run_tasks(self) -> list[Outcome] | None:
        """Run the tasks that are not finished; None where some of them stopped for a person."""
        finished = self.thread.finished
        waiting = [task for task in self.tasks if task.id not in finished]
        if len(self.tasks) == 1 and waiting:
            try:
                outcome = await TaskRun(self, waiting[0]).outcome()
            except FlowInterrupt as stop:
                await self._stop(stop.interrupts)
                return None
            self._tell_result(waiting[0], outcome)
            return [outcome]
        interrupts: dict[int, list[Interrupt]] = {}
        errors: dict[int, BaseException] = {}
        outcomes = self.io.as_completed(
            lambda number: self._run_beside(waiting[number]), range(len(waiting)), limit=self.run.max_concurrency
        )  # fmt: skip
        async with aclosing(outcomes):
            async for number, _, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    interrupts[number] = error.interrupts
                elif isinstance(error, Exception | ParentCommand):
                    errors[number] = error
                elif error is not None:
                    raise error
        if errors:
            raise errors[min(errors)]
        if interrupts:
            await self._stop([one for number in sorted(interrupts) for one in interrupts[number]])
            return None
        return [finished[task.id] for task in self.tasks]

    async def _run_beside(self, task: Task) -> None:
        """Run one of several tasks; it is kept at once, so that it is not repeated if another one fails or stops."""
        outcome = await TaskRun(self, task).outcome()
        if self.saver is not None:
            body = record("task", id=task.id, **self._encode(outcome))
            await self._append(body)
        self.thread.finished[task.id] = outcome
        self._tell_result(task, outcome)

    # -- keeping

    async def _commit(self, outcomes: list[Outcome]) -> None:
        """Join the updates of a step into the state, and keep it with the tasks of the next one."""
        thread, plan = self.thread, self.plan
        updates = [(f"the node {one.name!r}", one.update) for one in outcomes]
        values = plan.keys.join(thread.values, updates)
        targets, waiting, deferred = plan.next_targets(outcomes, thread.waiting, thread.deferred)
        id = None
        if self.saver is not None:
            is_alone = len(outcomes) == 1 and not thread.finished
            body = record(
                "step",
                tasks=[self._encode(outcomes[0])] if is_alone else None,
                done=None if is_alone else [one.id for one in self.tasks],
                waiting=waiting,
                deferred=deferred,
            )
            body["step"] = thread.step + 1
            body["next"] = [encode_target(one, plan.keys) for one in targets]
            id = await self._append(body)
            thread.at = body["at"]
        thread.values = values
        thread.move(id, targets, thread.step + 1, waiting, deferred)
        thread.source, thread.ran = "loop", [one.name for one in outcomes]
        for one in outcomes:
            self.output.tell(
                "updates",
                one.name,
                {
                    "node": one.name,
                    "values": one.result
                    if one.result is not None or not one.update
                    else one.update,
                },
            )
        self._tell_state()
        if self.after and any(one.name in self.after for one in outcomes) and targets:
            self.is_stopped = True
            self._tell_pause()

    def _encode(self, outcome: Outcome) -> dict[str, Json]:
        where = f"the update of {outcome.name!r}"
        body: dict[str, Json] = {"name": outcome.name}
        if outcome.update:
            body["update"] = self.plan.keys.encode(outcome.update, where)
        if outcome.goto:
            body["goto"] = [encode_target(one, self.plan.keys) for one in outcome.goto]
        return body

    def encode_cached(self, outcome: Outcome) -> str:
        """Return what a task gave as text for a cache."""
        return json.dumps(self._encode(outcome))

    def decode_cached(self, name: str, text: str) -> Outcome:
        """Return what a task gave before."""
        body, keys = json.loads(text), self.plan.keys
        update = keys.decode(body.get("update", {}), f"the cache of {name!r}")
        return Outcome(name, update, [decode_target(one, keys) for one in body.get("goto", ())])

    async def _append(self, body: dict[str, Json]) -> str | None:
        if self.log is None:
            return None
        pending = self.log.add(body, self.thread.head)
        self.thread.head = pending.entry.id
        self.thread.chain.add(pending.entry.id)
        await self.log.flush(self.io, pending)
        return pending.entry.id

    async def _stop(self, interrupts: list[Interrupt]) -> None:
        self.thread.interrupts = interrupts
        questions = [[one.id, pack(one.value, "a question")] for one in interrupts]
        await self._append(record("stop", interrupts=questions))
        for one in interrupts:
            data = {"interrupt_id": one.id, "payload": one.value}
            self.output.tell("input.requested", None, data)
        self.output.tell("values", None, {"__interrupt__": tuple(interrupts)})

    # -- the beginning

    async def _open(self, value: Json) -> None:
        if self.saver is not None:
            at = None if self.is_inner else self.run.configurable.get("checkpoint_id")
            key = self.key if self.is_inner else ""
            self.log = Log(self.saver, self.thread_id or "", key, self.lineage)
            resumes = isinstance(value, Command) and value.resume is not None
            self.thread = await load_thread(self.graph, self.log, self.io, at, with_pending=resumes)
            self.log.set_durability(self.run.kwargs.get("durability"))
            if at is not None and value is None:
                await self._go_back(at)
        is_unfinished = bool(self.thread.next)
        if (
            self.is_inner
            and self.thread.head is not None
            and (is_unfinished or self.graph.checkpointer is not True)
        ):
            await self._carry_on_inside()
        elif isinstance(value, Command):
            await self._take_command(value)
        elif value is None:
            await self._carry_on()
        else:
            await self._take_input(value)

    async def _go_back(self, at: str) -> None:
        """Go on from a checkpoint: where it is the last one, as without naming it; else as a fork."""
        assert self.log is not None
        latest = await load_thread(self.graph, self.log, self.io, at, with_pending=True)
        if latest.head == self.log.last:
            self.thread = latest
        else:
            await self._begin(record("fork"))

    async def _begin(self, body: dict[str, Json]) -> None:
        id = await self._append(body)
        self.thread.take(id or "", body)

    async def _take_input(self, value: Json, goto: list[Target] | None = None) -> None:
        keys = self.plan.keys
        update = keys.check(self._input_values(value), "the input")
        thread = self.thread
        values = keys.join(thread.values, [("the input", update)])
        found = list(goto or ())
        branches = self.plan.branches.get(START)
        if branches:
            runtime = Runtime(self.context, self.store)
            found += await self.ask_branches(branches, START, values, self.run, runtime)
        targets, waiting, deferred = self.plan.next_targets([Outcome(START, {}, found)], {}, [])
        if self.saver is not None:
            body = record("input", values=keys.encode(update, "the input"))
            body["step"] = thread.step + 1
            body["next"] = [encode_target(one, keys) for one in targets]
            id = await self._append(body)
            thread.at = body["at"]
        else:
            id = None
        thread.values = values
        thread.move(id, targets, thread.step + 1, waiting, deferred)
        thread.source = "input"
        self._tell_state()

    def _input_values(self, value: Json) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        shape = self.plan.input
        if isinstance(shape.schema, type) and isinstance(value, shape.schema):
            return {key: getattr(value, key) for key in shape.names if hasattr(value, key)}
        raise UsageError(
            f"{self.graph.name} takes a dict with some of {', '.join(shape.names)}, not {type(value).__name__}: "
            f"{value!r:.80}"
        )

    async def _carry_on(self) -> None:
        if not self.thread.next:
            raise UsageError(
                f"{self.graph.name} was invoked with None, which carries on with an unfinished thread, and there is "
                f"none"
            )
        if not self.thread.interrupts and self.thread.source != "fork":
            await self._append(record("claim"))
        self._tell_state(only_values=True)

    async def _take_command(self, command: Command[Any]) -> None:
        questions = self.thread.interrupts or self.thread.asked
        if command.update is not None and questions:
            update = self.plan.keys.check(_as_update(command.update), "the Command")
            values = self.plan.keys.join(self.thread.values, [("the Command", update)])
            self.thread.values = values
        if command.resume is None and not questions:
            goto = command.goto
            targets = (
                [] if goto is None else list(goto) if isinstance(goto, list | tuple) else [goto]
            )
            found = [check_target(one, "the Command", self.plan.nodes) for one in targets]
            await self._take_input(_as_update(command.update), found)
            return
        if not questions:
            raise UsageError("there is nothing to resume: this thread did not stop for an answer")
        answers = answers_for(command.resume, questions)
        packed = {key: pack(one, "an answer") for key, one in answers.items()}
        await self._begin(record("resume", answers=packed))
        self._tell_state(only_values=True)

    async def _carry_on_inside(self) -> None:
        """A node that was interrupted runs again and calls its graph again: it goes on where it was."""
        assert self.outer is not None
        known = self.outer.answers
        answers = {
            one.id: pack(known[one.id], "an answer")
            for one in self.thread.interrupts
            if one.id in known
        }
        if answers:
            await self._begin(record("resume", answers=answers))
        elif not self.thread.interrupts and self.thread.next:
            await self._append(record("claim"))

    async def ask_branches(
        self, branches: list[Branch], source: str, values: Values, run: Run, runtime: Runtime[Any]
    ) -> list[Target]:
        """Ask the branches of a node where to go."""
        state = self.plan.state.read(values, self.managed)
        targets: list[Target] = []
        for branch in branches:
            if isinstance(branch.path, Runnable):
                answer = await branch.path._step(state, run.child())
            else:
                answer = await call_function(
                    branch.path, branch.wants, branch.count, state, run, runtime
                )
            targets += branch.targets(answer, source, self.plan.nodes)
        return targets

    # -- what tasks ask

    def managed(self, name: str) -> Any:
        """Return a value that the run fills in."""
        remaining = self.limit - self._taken + 1
        return remaining if name == "remaining_steps" else remaining <= 1

    def current(self, *, is_alone: bool) -> Any:
        """Return what makes this run the parent of runnables that a node calls."""
        if not is_alone:
            return self.run.current()
        if self._current is None:
            self._current = self.run.current()
        return self._current

    # -- saying

    def result(self) -> Any:
        """Return the state as callers see it, and the questions that are open."""
        shown: Values = self.shown()
        if self.thread.interrupts:
            shown["__interrupt__"] = list(self.thread.interrupts)
        return shown

    def shown(self) -> Values:
        """Return the part of the state that callers see."""
        values = self.thread.values
        return {key: values[key] for key in self.plan.output.names if key in values}

    @property
    def interrupts(self) -> list[Interrupt]:
        """The questions that are open."""
        return self.thread.interrupts

    def partial_result(self) -> Any:
        """Return what a run that was left had come to."""
        return self.result()

    def _tell_state(self, *, only_values: bool = False) -> None:
        if not self.wants:
            return
        self.output.tell("values", None, self.shown())
        if "checkpoints" in self.wants and not only_values and self.saver is not None:
            self.output.tell(
                "checkpoints",
                None,
                self.graph.checkpoint_data(self.thread, self.thread_id or "", self.namespace),
            )

    def _tell_pause(self) -> None:
        self.output.tell("updates", "__interrupt__", {"node": "__interrupt__", "values": ()})

    def tell_task(self, task: Task, value: Json) -> None:
        """Say that a task begins."""
        if "tasks" in self.wants:
            data = {
                "type": "task",
                "step": self.thread.step + 1,
                "id": task.id,
                "name": task.name,
                "input": value,
                "triggers": (f"branch:to:{task.name}",),
            }
            self.output.tell("tasks", task.name, data)

    def _tell_result(self, task: Task, outcome: Outcome) -> None:
        if "tasks" in self.wants:
            data = {
                "type": "task_result",
                "step": self.thread.step + 1,
                "id": task.id,
                "name": task.name,
                "error": None,
                "result": outcome.update,
                "interrupts": [],
            }
            self.output.tell("tasks", task.name, data)


def _names(given: Any, default: list[str], nodes: Mapping[str, Any]) -> frozenset[str]:
    if given is None:
        return frozenset(default)
    return frozenset(nodes if given == "*" else [given] if isinstance(given, str) else given)


def _as_update(update: Json) -> Values:
    return dict(update or {})
