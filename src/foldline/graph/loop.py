"""`GraphLoop`: one run of a graph. The tasks of a step run at once, see the same state, and join it together."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import TYPE_CHECKING, Any

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._run import Run
from foldline.exceptions import GraphRecursionError, StoreError
from foldline.graph.nodes import call_function
from foldline.graph.plan import Branch
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
from foldline.graph.start import GraphStart
from foldline.graph.task_run import ParentCommand, TaskRun
from foldline.runnables.base import Runnable
from foldline.workflows.events import FlowEvent
from foldline.workflows.interrupts import FlowInterrupt, Interrupt
from foldline.workflows.journal import encode_error
from foldline.workflows.log import ends_run
from foldline.workflows.nesting import Parent
from foldline.workflows.run_context import RunContext
from foldline.workflows.run_loop import RunLoop
from foldline.workflows.values import pack

if TYPE_CHECKING:
    from foldline.graph.compiled import CompiledStateGraph

__all__ = ["GraphLoop"]

Values = dict[str, Any]
LIVE = frozenset({"custom", "tokens", "tasks"})
"""What is said while a step runs, and not after it."""
MOST_STEPS = 10_007


class GraphLoop(RunLoop[RunContext[GraphThread]]):
    """One run of a graph."""

    def __init__(
        self, graph: CompiledStateGraph, run: Run, *, wants: frozenset[str], outer: Parent | None
    ) -> None:
        thread = GraphThread(graph.plan.keys, graph.plan.keys.empty())
        super().__init__(
            RunContext(
                run,
                thread,
                name=graph.get_name(),
                checkpointer=graph.checkpointer,
                wants=wants,
                outer=outer,
            )
        )
        self.graph = graph
        self.plan = graph.plan
        self.run = run
        self.io = run.io
        self.output = self.context.output
        self.wants = self.context.wants
        around = current_task.get()  # a graph inside a node has its context and store
        self.context_value = run.kwargs.get("context", None if around is None else around.context)
        self.store = graph.store if graph.store is not None or around is None else around.store
        self.tasks: list[Task] = []
        self.before = _names(
            run.kwargs.get("interrupt_before"), graph.interrupt_before, self.plan.nodes
        )
        self.after = _names(
            run.kwargs.get("interrupt_after"), graph.interrupt_after, self.plan.nodes
        )
        given = run.call_config.get("recursion_limit")
        is_set = given is not None and (given != DEFAULT_RECURSION_LIMIT or run.origin is None)
        # A config that was filled in for a nested call carries the limit of runnables; a graph may take more steps.
        self.limit: int = given if given is not None and is_set else MOST_STEPS
        self._taken = 0
        self._current: AbstractContextManager[None] | None = None
        self.is_stopped = False

    @property
    def thread(self) -> GraphThread:
        """Where the thread stands."""
        return self.context.thread

    # -- the loop

    async def open(self, value: object) -> None:
        """Read the thread and take what the caller gives."""
        await GraphStart(self).open(value)

    def goes_on(self) -> bool:
        """Whether another step comes."""
        return self.thread.is_unfinished and not self.is_stopped

    def step_events(self) -> AsyncGenerator[FlowEvent, None]:
        """Take one step and keep it; give what happens."""
        return self.output.during(self._step, is_live=bool(self.wants & LIVE))

    async def _step(self) -> None:
        """Take one step: run its tasks, join what they gave, keep it."""
        thread = self.thread
        self.tasks = thread.tasks("|".join(self.namespace))
        if (
            self.before
            and not thread.is_paused
            and any(one.name in self.before for one in self.tasks)
        ):
            await self.context.append(record("pause", nodes=[one.name for one in self.tasks]))
            thread.is_paused = self.is_stopped = True
            self._publish_pause()
            return
        if self._taken >= self.limit:
            raise GraphRecursionError(
                f"{self.graph.name} took {self.limit} steps and did not come to its end (next: "
                f"{', '.join(one.name for one in self.tasks)}): give config={{'recursion_limit': …}} if it needs more"
            )
        self._taken += 1
        await self._commit(await self._run_tasks())

    async def _run_tasks(self) -> list[Outcome]:
        """Run the tasks that are not finished; raise the questions of all of them together."""
        finished = self.thread.finished
        waiting = [task for task in self.tasks if task.id not in finished]
        if len(self.tasks) == 1 and waiting:
            return [await self._run_one(waiting[0])]
        interrupts: dict[int, list[Interrupt]] = {}
        errors: dict[int, BaseException] = {}
        outcomes = self.io.as_completed(
            lambda number: self._run_parallel(waiting[number]), range(len(waiting)), limit=self.run.max_concurrency
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
            raise FlowInterrupt(
                [one for number in sorted(interrupts) for one in interrupts[number]]
            )
        return [finished[task.id] for task in self.tasks]

    async def _run_one(self, task: Task) -> Outcome:
        try:
            outcome = await TaskRun(self, task).outcome()
        except FlowInterrupt as stop:
            self._publish_result(task, {}, interrupts=stop.interrupts)
            raise
        except Exception as error:
            await self._keep_failure(task, error)
            self._publish_result(task, {}, error=error)
            raise
        self._publish_result(task, outcome.update)
        return outcome

    async def _keep_failure(self, task: Task, error: Exception) -> None:
        """Write down why a task failed, for `get_state`; the error itself goes on, whatever the store says."""
        if self.context.log is not None and not ends_run(error):
            with suppress(StoreError):
                await self.context.append(record("fail", id=task.id, error=encode_error(error)))

    async def _run_parallel(self, task: Task) -> None:
        """Run one of several tasks; it is kept at once, so that it is not repeated if another one fails or stops."""
        outcome = await self._run_one(task)
        if self.context.log is not None:
            await self.context.append(record("task", id=task.id, **self._encode(outcome)))
        self.thread.finished[task.id] = outcome

    # -- keeping

    async def _commit(self, outcomes: list[Outcome]) -> None:
        """Join the updates of a step into the state, and keep it with the tasks of the next one."""
        thread, plan = self.thread, self.plan
        updates = [(f"the node {one.name!r}", one.update) for one in outcomes]
        values = plan.keys.join(thread.values, updates)
        targets, waiting, deferred = plan.next_targets(outcomes, thread.waiting, thread.deferred)
        id = None
        if self.context.log is not None:
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
            id = (await self.context.append(body))[0].id
            thread.at = body["at"]
        thread.values = values
        thread.move(id, targets, thread.step + 1, waiting, deferred)
        thread.source, thread.ran = "loop", [one.name for one in outcomes]
        for one in outcomes:
            self.output.publish(
                "updates",
                one.name,
                {
                    "node": one.name,
                    "values": one.result
                    if one.result is not None or not one.update
                    else plan.keys.without_root(one.update),
                },
            )
        self.publish_state()
        if self.after and any(one.name in self.after for one in outcomes) and targets:
            self.is_stopped = True
            self._publish_pause()

    def _encode(self, outcome: Outcome) -> dict[str, Any]:
        where = f"the update of {outcome.name!r}"
        body: dict[str, Any] = {"name": outcome.name}
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

    async def keep_questions(self, interrupts: list[Interrupt]) -> None:
        """Write down that the run stopped for these questions, and say so."""
        questions = [[one.id, pack(one.value, "a question")] for one in interrupts]
        await self.context.append(record("stop", interrupts=questions))
        for one in interrupts:
            data = {"interrupt_id": one.id, "payload": one.value}
            self.output.publish("input.requested", None, data)
        shown = {} if self.plan.output.is_root else self.shown()
        self.output.publish("values", None, {**shown, "__interrupt__": tuple(interrupts)})

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

    def managed(self, name: str) -> object:
        """Return a value that the run fills in."""
        remaining = self.limit - self._taken + 1
        return remaining if name == "remaining_steps" else remaining <= 1

    def current(self, *, is_alone: bool) -> AbstractContextManager[None]:
        """Return what makes this run the parent of runnables that a node calls."""
        if not is_alone:
            return self.run.current()
        if self._current is None:
            self._current = self.run.current()
        return self._current

    # -- saying

    def result(self) -> Any:  # noqa: ANN401  the state in the form of its schema
        """Return the state as callers see it, and the questions that are open."""
        shown = self.shown()
        if self.thread.interrupts:
            shown = {} if self.plan.output.is_root else shown
            shown["__interrupt__"] = list(self.thread.interrupts)
        return shown

    def shown(self) -> Any:  # noqa: ANN401  a dict, or the one value that the state is
        """Return the part of the state that callers see."""
        values = self.thread.values
        if self.plan.output.is_root:
            return self.plan.keys.without_root(values)
        return {key: values[key] for key in self.plan.output.names if key in values}

    def publish_state(self, *, only_values: bool = False) -> None:
        """Say what the state is now, and that a checkpoint was written."""
        if not self.wants:
            return
        self.output.publish("values", None, self.shown())
        if "checkpoints" in self.wants and not only_values and self.context.log is not None:
            self.output.publish(
                "checkpoints",
                None,
                self.graph.checkpoint_data(
                    self.thread, self.context.thread_id or "", self.namespace
                ),
            )

    def _publish_pause(self) -> None:
        self.output.publish("updates", "__interrupt__", {"node": "__interrupt__", "values": ()})

    def publish_task(self, task: Task, value: object) -> None:
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
            self.output.publish("tasks", task.name, data)

    def _publish_result(
        self,
        task: Task,
        update: Values,
        error: Exception | None = None,
        interrupts: Sequence[Interrupt] = (),
    ) -> None:
        if "tasks" in self.wants:
            data = {
                "type": "task_result",
                "step": self.thread.step + 1,
                "id": task.id,
                "name": task.name,
                "error": error,
                "result": self.plan.keys.without_root(update),
                "interrupts": [{"value": one.value, "id": one.id} for one in interrupts],
            }
            self.output.publish("tasks", task.name, data)


def _names(
    given: str | Iterable[str] | None, default: list[str], nodes: Mapping[str, Any]
) -> frozenset[str]:
    if given is None:
        return frozenset(default)
    return frozenset(nodes if given == "*" else [given] if isinstance(given, str) else given)
