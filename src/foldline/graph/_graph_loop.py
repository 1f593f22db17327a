"""`GraphLoop`: how a run of a graph proceeds, step by step.

Between two steps a thread is its values and the targets of the tasks that come next (`GraphThread`). A step is this:

1. Each target becomes a task. All tasks read the same values, and none sees what another one writes: the result of a
   step does not depend on which of them is faster.
2. One of several tasks is recorded as soon as it has finished, so that it is not repeated if another one fails, asks a
   question, or the process ends. A single task is recorded with its step: one write instead of two.
3. Neither an error nor a question stops the other tasks of the step, whose work would be lost. When all have ended, the
   error of the first task (in the order of the tasks, not of time) is raised, or one interrupt with all questions.
4. Otherwise the updates are merged in the order of the tasks, branches name the next targets, and the step is recorded:
   the checkpoint. Only then the thread in memory moves: if the write fails, it is still what the log says.

A thread that is loaded from its log stands where its last record left it: between two steps, or within one, with the
tasks that had finished (`GraphThread.finished`). `_run_tasks` runs those that are left.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from foldline.exceptions import GraphRecursionError, StoreError
from foldline.graph._graph_records import PlannedTask, TaskOutcome, encode_target, record
from foldline.graph._run_start import GraphStart
from foldline.graph._run_state import GraphRun
from foldline.graph.task_run import ParentCommand, TaskRun
from foldline.graph.types import START
from foldline.workflows._inbox import Message
from foldline.workflows._journal import encode_error
from foldline.workflows._run_events import FlowEvent
from foldline.workflows._step_trace import note_pause
from foldline.workflows._thread_log import ends_run
from foldline.workflows.interrupts import (
    FlowInterrupt,
    Interrupt,
    is_invalid_resume,
    question_row,
    reopened_questions,
    request_data,
)

__all__ = ["GraphLoop"]

LIVE_CHANNELS = frozenset({"custom", "tokens", "tasks"})
"""Channels whose events are sent while a step runs, not after it."""


class GraphLoop(GraphRun):
    """One run of a graph."""

    @property
    def is_at_breakpoint(self) -> bool:
        """Whether the run stopped at a breakpoint."""
        return self.is_stopped

    # -- what every loop has

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
            self.publish_finished()
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

    async def _run_one(self, task: PlannedTask) -> TaskOutcome:
        try:
            outcome = await TaskRun(self, task).outcome()
        except FlowInterrupt as stop:
            self._questions[task.id] = stop.interrupts
            self.publish_result(task, {}, interrupts=stop.interrupts)
            raise
        except Exception as error:
            if is_invalid_resume(error):
                self._questions[task.id] = reopened_questions(error)
            await self._keep_failure(task, error)
            self.publish_result(task, {}, error=error)
            raise
        self.publish_result(task, outcome.update)
        return outcome

    async def _keep_failure(self, task: PlannedTask, error: Exception) -> None:
        """Record why a task failed, for `get_state`; a failing store does not replace the error."""
        if self.context.log is not None and not ends_run(error):
            with suppress(StoreError):
                await self.append(record("fail", id=task.id, error=encode_error(error)))

    async def _run_parallel(self, task: PlannedTask) -> None:
        """Run one of several tasks; it is stored at once, so that it is not repeated if another fails or stops."""
        outcome = await self._run_one(task)
        if self.context.log is not None:
            await self.append(record("task", id=task.id, **self.encode(outcome)))
        self.thread.finished[task.id] = outcome
        self.publish_update(outcome)

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
                tasks=[self.encode(outcomes[0])] if is_alone else None,
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
                self.publish_update(outcome)
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
        values = {} if self.has_one_value else self.public_values()
        self.output.publish("values", None, {**values, "__interrupt__": tuple(interrupts)})

    def result(self) -> Any:  # noqa: ANN401  the state in the form of its schema
        """Return the public part of the state, with the open questions."""
        values = self.public_values()
        if self.thread.interrupts:
            values = values if isinstance(values, dict) and not self.has_one_value else {}
            values["__interrupt__"] = list(self.thread.interrupts)
        return values
