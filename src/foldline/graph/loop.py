"""`GraphLoop`: one run of a graph. The tasks of a step run concurrently on the same state; their updates are merged."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import TYPE_CHECKING, Any

from foldline._config import DEFAULT_RECURSION_LIMIT
from foldline._run import Run
from foldline.checkpoint.base import Entry
from foldline.exceptions import GraphRecursionError, StoreError, UsageError
from foldline.graph.nodes import call_function
from foldline.graph.plan import Branch, GraphPlan
from foldline.graph.records import (
    BASES,
    STARTS,
    GraphThread,
    Target,
    Task,
    TaskOutcome,
    decode_target,
    encode_target,
    one_checkpoint,
    plain_metadata,
    record,
)
from foldline.graph.runtime import Runtime, current_task
from foldline.graph.start import GraphStart
from foldline.graph.task_run import ParentCommand, TaskRun
from foldline.graph.types import START
from foldline.runnables.base import Runnable
from foldline.utils.strings import suggestion
from foldline.workflows.events import FlowEvent
from foldline.workflows.inbox import Message
from foldline.workflows.interrupts import (
    FlowInterrupt,
    Interrupt,
    is_invalid_resume,
    question_data,
    question_row,
    reopened_questions,
    request_data,
)
from foldline.workflows.journal import encode_error
from foldline.workflows.log import ends_run
from foldline.workflows.nesting import Parent
from foldline.workflows.run_context import RunContext
from foldline.workflows.run_loop import RunLoop
from foldline.workflows.runtime import read_context
from foldline.workflows.step_trace import note_pause

if TYPE_CHECKING:
    from foldline.graph.compiled import CompiledStateGraph

__all__ = ["GraphLoop"]

Values = dict[str, Any]
LIVE_CHANNELS = frozenset({"custom", "tokens", "tasks"})
"""Channels whose events are sent while a step runs, not after it."""
DEFAULT_MAX_STEPS = 10_007


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
        self.wants: frozenset[str] = self.context.wants
        outer_task = current_task.get()  # a nested graph inherits context and store
        self.context_value: Any = (
            read_context(self.plan.context_schema, run.kwargs["context"], graph.get_name())
            if "context" in run.kwargs
            else getattr(outer_task, "context", None)
        )
        self.store = (
            graph.store if graph.store is not None or outer_task is None else outer_task.store
        )
        self.output_keys: str | list[str] | None = _output_keys(
            run.kwargs.get("output_keys"), self.plan
        )
        self.tasks: list[Task] = []
        self.before: frozenset[str] = _names(
            "interrupt_before",
            run.kwargs.get("interrupt_before"),
            graph.interrupt_before,
            self.plan.nodes,
        )
        self.after: frozenset[str] = _names(
            "interrupt_after",
            run.kwargs.get("interrupt_after"),
            graph.interrupt_after,
            self.plan.nodes,
        )
        limit = run.call_config.get("recursion_limit")
        is_set = limit is not None and (limit != DEFAULT_RECURSION_LIMIT or run.origin is None)
        # The config of a nested call has the default limit of runnables, which is too low for graphs.
        self.limit: int = limit if limit is not None and is_set else DEFAULT_MAX_STEPS
        self._step_count = 0
        self._current: AbstractContextManager[None] | None = None
        self.is_stopped = False
        self._questions: dict[str, list[Interrupt]] = {}
        """The questions of the current step, by task."""
        self._metadata: Values = {}
        if self.context.log is not None:
            self.context.log.squeeze = one_checkpoint
            self._metadata = plain_metadata(run.call_config.get("metadata"))

    @property
    def is_at_breakpoint(self) -> bool:
        """Whether the run stopped at a breakpoint."""
        return self.is_stopped

    @property
    def place(self) -> str:
        """The namespace as text: the seed of the ids of tasks."""
        return "|".join(self.namespace)

    async def append(self, *bodies: dict[str, Any]) -> list[Entry]:
        """Write records; a checkpoint of a nested run names those of the outer runs."""
        outer = self.outer
        for body in bodies:
            if body["kind"] in STARTS:
                self.thread.run_metadata = self._metadata
                if self._metadata:
                    body["metadata"] = self._metadata
        if outer is not None and self.is_inner and outer.parents:
            for body in bodies:
                if body["kind"] in BASES:
                    body["parents"] = dict(outer.parents)
        return await self.context.append(*bodies)

    @property
    def thread(self) -> GraphThread:
        """The state of the thread."""
        return self.context.thread

    # -- the loop

    async def open(self, value: object) -> None:
        """Load the thread and apply the caller's input."""
        await GraphStart(self).open(value)

    async def reload(self) -> None:
        """Load the thread again, which another run may have continued."""
        await GraphStart(self).load(None, None)

    def can_take_messages(self) -> bool:
        """Whether a message may change the state now."""
        return not self.is_stopped and GraphStart(self).can_take_messages()

    async def take_message(self, message: Message) -> None:
        """Merge a message into the state, and record that it was taken."""
        await GraphStart(self).take_message(message)

    async def skip_message(self, message: Message) -> None:
        """Record that a message was taken, and change nothing."""
        await GraphStart(self).skip_message(message)

    def has_next_step(self) -> bool:
        """Whether there is another step."""
        return self.thread.is_unfinished and not self.is_stopped

    def step_events(self) -> AsyncGenerator[FlowEvent, None]:
        """Run one step and store it; yield its events."""
        sends_updates = "updates" in self.wants and len(self.thread.next) > 1
        is_live = sends_updates or bool(self.wants & LIVE_CHANNELS)
        return self.output.run_body(self._step, is_live=is_live)

    async def _step(self) -> None:
        """Run one step: run its tasks, merge their updates, store the result."""
        thread = self.thread
        if thread.next == [START]:  # the round of an input that is in the log and has not begun
            await GraphStart(self).plan_round(thread.input or {})
            return
        self.tasks = thread.tasks(self.place)
        if (
            self.before
            and not thread.is_paused
            and any(task.name in self.before for task in self.tasks)
        ):
            await self._pause([task.name for task in self.tasks])
            return
        if self._step_count >= self.limit:
            raise GraphRecursionError(
                f"{self.graph.name} took {self.limit} steps without finishing (next: "
                f"{', '.join(task.name for task in self.tasks)}): pass config={{'recursion_limit': …}} if it needs more"
            )
        self._step_count += 1
        await self._commit(await self._run_tasks())

    async def _run_tasks(self) -> list[TaskOutcome]:
        """Run the unfinished tasks; raise one interrupt with the questions of all of them."""
        finished = self.thread.finished
        unfinished = [task for task in self.tasks if task.id not in finished]
        if len(self.tasks) == 1 and unfinished:
            return [await self._run_one(unfinished[0])]
        if self.thread.finished:
            self._publish_finished()
        is_stopped = False
        errors: dict[int, BaseException] = {}
        outcomes = self.io.as_completed(
            lambda index: self._run_parallel(unfinished[index]), range(len(unfinished)), limit=self.run.max_concurrency
        )  # fmt: skip
        async with aclosing(outcomes):
            async for index, _, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    is_stopped = True
                elif isinstance(error, Exception | ParentCommand):
                    errors[index] = error
                elif error is not None:
                    raise error
        if errors:
            raise self._first_error(errors)
        if is_stopped:
            questions = self._questions
            raise FlowInterrupt(
                [question for task in self.tasks for question in questions.get(task.id, ())]
            )
        return [finished[task.id] for task in self.tasks]

    def _first_error(self, errors: dict[int, BaseException]) -> BaseException:
        """Return the error of the first task; that of an invalid answer first, with all questions that stay open."""
        error = errors[min(errors, key=lambda index: (not is_invalid_resume(errors[index]), index))]
        if is_invalid_resume(error):
            questions = self._questions.values()
            reopened_questions(error)[:] = [question for items in questions for question in items]
        return error

    async def _run_one(self, task: Task) -> TaskOutcome:
        try:
            outcome = await TaskRun(self, task).outcome()
        except FlowInterrupt as stop:
            self._questions[task.id] = stop.interrupts
            self._publish_result(task, {}, interrupts=stop.interrupts)
            raise
        except Exception as error:
            if is_invalid_resume(error):
                self._questions[task.id] = reopened_questions(error)
            await self._keep_failure(task, error)
            self._publish_result(task, {}, error=error)
            raise
        self._publish_result(task, outcome.update)
        return outcome

    async def _keep_failure(self, task: Task, error: Exception) -> None:
        """Record why a task failed, for `get_state`; a failing store does not replace the error."""
        if self.context.log is not None and not ends_run(error):
            with suppress(StoreError):
                await self.append(record("fail", id=task.id, error=encode_error(error)))

    async def _run_parallel(self, task: Task) -> None:
        """Run one of several tasks; it is stored at once, so that it is not repeated if another fails or stops."""
        outcome = await self._run_one(task)
        if self.context.log is not None:
            await self.append(record("task", id=task.id, **self._encode(outcome)))
        self.thread.finished[task.id] = outcome
        self._publish_update(outcome)

    # -- storing

    async def _commit(self, outcomes: list[TaskOutcome]) -> None:
        """Merge the updates of a step into the state, and store it with the tasks of the next step."""
        thread, plan = self.thread, self.plan
        is_published = bool(thread.finished)
        updates = [(f"the node {outcome.name!r}", outcome.update) for outcome in outcomes]
        values = plan.keys.join(thread.values, updates, thread.indexes)
        targets, waiting, deferred = plan.next_targets(outcomes, thread.waiting, thread.deferred)
        id = None
        if self.context.log is not None:
            is_alone = len(outcomes) == 1 and not thread.finished
            body = record(
                "step",
                tasks=[self._encode(outcomes[0])] if is_alone else None,
                done=None if is_alone else [task.id for task in self.tasks],
                waiting=waiting,
                deferred=deferred,
            )
            body["step"] = thread.step + 1
            body["next"] = [encode_target(target, plan.keys) for target in targets]
            id = (await self.append(body))[0].id
            thread.at = body["at"]
        thread.values = values
        thread.move(id, targets, thread.step + 1, waiting, deferred)
        thread.source, thread.last_nodes = "loop", [outcome.name for outcome in outcomes]
        self._questions = {}
        if not is_published:
            for outcome in outcomes:
                self._publish_update(outcome)
        self.publish_values()
        self.publish_checkpoint()
        if self.after and any(outcome.name in self.after for outcome in outcomes) and targets:
            await self._pause([task.name for task in thread.tasks(self.place)])

    async def _pause(self, next_nodes: list[str]) -> None:
        """Stop at a breakpoint of this graph, or (without nodes) of a nested one."""
        await self.append(record("pause", nodes=next_nodes))
        self.thread.is_paused = self.is_stopped = True
        note_pause(self.run, next_nodes)
        if not self.is_inner:
            self.output.publish("updates", "__interrupt__", {"node": "__interrupt__", "values": ()})

    def _encode(self, outcome: TaskOutcome) -> dict[str, Any]:
        where = f"the update of {outcome.name!r}"
        body: dict[str, Any] = {"name": outcome.name}
        if outcome.update:
            body["update"] = self.plan.keys.encode(outcome.update, where)
        if outcome.goto:
            body["goto"] = [encode_target(target, self.plan.keys) for target in outcome.goto]
        return body

    def encode_cached(self, outcome: TaskOutcome) -> str:
        """Return the result of a task as text for a cache."""
        return json.dumps(self._encode(outcome))

    def decode_cached(self, name: str, text: str) -> TaskOutcome:
        """Return the cached result of a task."""
        body, keys = json.loads(text), self.plan.keys
        update = keys.decode(body.get("update", {}), f"the cache of {name!r}")
        return TaskOutcome(
            name, update, [decode_target(target, keys) for target in body.get("goto", ())]
        )

    async def keep_questions(self, interrupts: list[Interrupt]) -> None:
        """Record and publish that the run stopped for these questions; none: at a breakpoint of a nested graph."""
        if not interrupts:
            await self._pause([])
            return
        rows = [
            question_row(question, task_id)
            for task_id, questions in self._questions.items()
            for question in questions
        ]
        await self.append(record("stop", questions=rows))
        for task_id, questions in self._questions.items():
            for question in questions:
                self.thread.ask(task_id, question)
        for question in interrupts:
            self.output.publish("input.requested", None, request_data(question))
        values = {} if self._has_one_value else self.public_values()
        self.output.publish("values", None, {**values, "__interrupt__": tuple(interrupts)})

    async def ask_branches(
        self, branches: list[Branch], source: str, values: Values, run: Run, runtime: Runtime[Any]
    ) -> list[Target]:
        """Return the targets of the branches of a node."""
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

    # -- for tasks

    def managed(self, name: str) -> object:
        """Return the value of a managed key."""
        remaining = self.limit - self._step_count + 1
        return remaining if name == "remaining_steps" else remaining <= 1

    def current(self, *, is_alone: bool) -> AbstractContextManager[None]:
        """Return a context in which this run is the parent of the runnables that a node calls."""
        if not is_alone:
            return self.run.current()
        if self._current is None:
            self._current = self.run.current()
        return self._current

    # -- publishing

    def result(self) -> Any:  # noqa: ANN401  the state in the form of its schema
        """Return the public part of the state, with the open questions."""
        values = self.public_values()
        if self.thread.interrupts:
            values = values if isinstance(values, dict) and not self._has_one_value else {}
            values["__interrupt__"] = list(self.thread.interrupts)
        return values

    def public_values(self) -> Any:  # noqa: ANN401  a dict, or the value of a state with one value
        """Return the part of the state that callers see."""
        thread = self.thread
        values = thread.values_now(thread.tasks(self.place)) if thread.finished else thread.values
        if self.plan.output.is_root:
            return self.plan.keys.without_root(values)
        keys = self.output_keys
        if isinstance(keys, str):
            return values.get(keys)
        return {key: values[key] for key in keys or self.plan.output.names if key in values}

    @property
    def _has_one_value(self) -> bool:
        """Whether callers see one value, not a dict."""
        return self.plan.output.is_root or isinstance(self.output_keys, str)

    def publish_values(self) -> None:
        """Publish the state."""
        if "values" in self.wants:
            self.output.publish("values", None, self.public_values())

    def publish_checkpoint(self) -> None:
        """Publish the checkpoint that was written."""
        if "checkpoints" in self.wants and self.context.log is not None:
            self.output.publish(
                "checkpoints",
                None,
                self.graph.checkpoint_data(
                    self.thread, self.context.thread_id or "", self.namespace
                ),
            )

    def _publish_update(self, outcome: TaskOutcome, *, is_cached: bool = False) -> None:
        values = outcome.result
        if values is None and outcome.update:
            values = self.plan.keys.without_root(outcome.update)
        if self.output_keys is not None and isinstance(values, Mapping):
            keys = self.output_keys
            if isinstance(keys, str):
                values = values.get(keys)
            else:
                values = {key: values[key] for key in keys if key in values} or None
        data = {"node": outcome.name, "values": values}
        if is_cached:
            data["is_cached"] = True
        self.output.publish("updates", outcome.name, data)

    def _publish_finished(self) -> None:
        """Publish the updates of tasks that an earlier run has finished."""
        for task in self.tasks:
            if task.id in self.thread.finished:
                self._publish_update(self.thread.finished[task.id], is_cached=True)

    def publish_task(self, task: Task, value: object) -> None:
        """Publish that a task begins."""
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
                "interrupts": [question_data(question) for question in interrupts],
            }
            self.output.publish("tasks", task.name, data)


def _output_keys(keys: object, plan: GraphPlan) -> str | list[str] | None:
    """Return the `output_keys` of a call: one key, or several; None for all."""
    if keys is None:
        return None
    names: Sequence[object] = (
        [keys] if isinstance(keys, str) else keys if isinstance(keys, Sequence) else [keys]
    )
    for name in names:
        if name not in plan.keys.types:
            raise UsageError(
                f"output_keys={keys!r:.80}: the state has no key {name!r}{suggestion(str(name), plan.keys.types)}; "
                f"its keys are {', '.join(plan.keys.types)}"
            )
    return keys if isinstance(keys, str) else [str(name) for name in names]


def _names(
    option: str, names: str | Iterable[str] | None, default: list[str], nodes: Mapping[str, Any]
) -> frozenset[str]:
    if names is None:
        return frozenset(default)
    chosen = nodes if names == "*" else [names] if isinstance(names, str) else names
    for name in chosen:
        if name not in nodes:
            raise UsageError(
                f"{option}={names!r:.80}: there is no node {name!r}{suggestion(str(name), nodes)}; "
                f"the nodes are {', '.join(nodes)}"
            )
    return frozenset(chosen)
