"""The step in which an agent runs the tools that its model called: concurrently, each result stored at once.

The model gets an error message for an unknown tool, invalid arguments, and a tool that raises or takes too long. What
the model cannot correct ends the run once the other calls have finished: a limit, a wrong use of foldline in a tool,
a question to a person, a cancellation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.agents._eager_tools import EagerTools
from foldline.agents._run_context import AgentContext
from foldline.agents._tool_calls import (
    UNKNOWN_EFFECT,
    answered_update,
    error_message,
    is_program_error,
    problem_of,
    unanswered,
)
from foldline.agents._tool_runner import ToolRunner
from foldline.agents.checkpoint._records import Record
from foldline.agents.state import fresh_id
from foldline.exceptions import BudgetExceeded, ToolException, UsageError
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.workflows._run_events import FlowEvent
from foldline.workflows._thread_log import ends_run
from foldline.workflows.durability import ENGINE
from foldline.workflows.interrupts import FlowInterrupt, Interrupt, reopened_questions

__all__ = ["ToolStep"]

Values = dict[str, Any]
MAX_INVALID_ANSWERS = 5
"""Consecutive answers with only invalid calls after which an agent ends."""


class ToolStep:
    """Runs the tools; `update` is the resulting update of the state, `jump` the next step if it is not the model."""

    def __init__(self, context: AgentContext, runner: ToolRunner, eager: EagerTools) -> None:
        self.context = context
        self.runner = runner
        self.eager = eager
        self.update: Values = {}
        self.jump: str | None = None

    async def events(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Run the calls that have no result yet; yield the events."""
        context = self.context
        messages = context.thread.values["messages"]
        answer = next(
            (message for message in reversed(messages) if isinstance(message, AIMessage)), None
        )
        if answer is None:
            raise UsageError(
                'a hook jumps to "tools", but the conversation has no AIMessage whose tools could run: add one with '
                'tool_calls to the hook\'s update, or jump to "model"'
            )
        calls = unanswered(messages)
        events = context.output.run_body(
            lambda: self._run_all(calls, answer, run), is_live=bool(context.wants)
        )
        async with aclosing(events):
            async for event in events:
                yield event
        self._gather(calls)

    async def _run_all(self, calls: list[ToolCall], answer: AIMessage, run: Run) -> None:
        context = self.context
        open_calls = await self._open_calls(calls, answer)
        self.eager.drop_stale(open_calls)
        noted_calls = [call for call in open_calls if context.setup.is_noted(call["name"])]
        if noted_calls:
            step = context.thread.step
            await context.keep(
                *(
                    Record(
                        "call", step=step, call_id=call["id"], tool=call["name"], args=call["args"]
                    )
                    for call in noted_calls
                )
            )
        # A durability engine identifies steps by their order.
        limit = (context.run.max_concurrency or len(open_calls)) if ENGINE.get() is None else 1
        outcomes = context.io.as_completed(
            lambda call: self._run_one(call, run), open_calls, limit=limit
        )
        interrupts: dict[int, list[Interrupt]] = {}
        failure: BaseException | None = None
        async with aclosing(outcomes):
            async for index, value, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    interrupts[index] = error.interrupts
                elif error is not None and not isinstance(error, Exception):
                    raise error  # cancelled, or Ctrl-C
                else:
                    # The result of a single call is stored with the step, unless a caller sees it before that.
                    is_stored = len(calls) > 1 or context.is_observed or bool(noted_calls)
                    failure = (
                        await self._settle(open_calls[index], value, error, is_stored=is_stored)
                        or failure
                    )
        questions = [question for index in sorted(interrupts) for question in interrupts[index]]
        if failure is not None:
            reopened_questions(failure).extend(questions)
            raise failure
        if questions:
            raise FlowInterrupt(questions)

    async def _open_calls(self, calls: list[ToolCall], answer: AIMessage) -> list[ToolCall]:
        """Return the calls to run; those that cannot run get an error as their result."""
        thread, open_calls = self.context.thread, []
        for call in calls:
            if call["id"] in thread.finished:
                continue  # it ran before the process was killed or the run stopped
            problem = problem_of(call, answer, self.context.setup.tools)
            if call["id"] in thread.started and not self.context.setup.runs_again(call["name"]):
                problem = UNKNOWN_EFFECT.format(call["name"])
            if problem is not None:
                await self._finish(
                    call, {"messages": [error_message(call, problem)]}, problem, is_stored=False
                )
            else:
                open_calls.append(call)
        return open_calls

    async def _run_one(self, call: ToolCall, run: Run) -> object:
        early = self.eager.take(call)
        if early is None:
            return await self.runner.run(call, run)
        value, error = await early.result()
        if error is not None:
            raise error
        return value

    async def _settle(
        self, call: ToolCall, value: object, error: Exception | None, *, is_stored: bool
    ) -> Exception | None:
        """Record the result of a call; return the error if it must end the run."""
        if error is None:
            update = answered_update(call, value)
            await self._finish(call, update, _failure_in(update, call["id"]), is_stored=is_stored)
            return None
        text = _describe(call, error)
        # Such a call is not stored as finished: a resumed run calls it again.
        is_final = isinstance(error, BudgetExceeded) or is_program_error(error) or ends_run(error)
        update = {"messages": [error_message(call, text)]}
        await self._finish(call, update, text, is_stored=is_stored and not is_final)
        return error if is_final else None

    async def _finish(
        self, call: Mapping[str, Any], update: Values, problem: str | None, *, is_stored: bool
    ) -> None:
        for message in update["messages"]:
            if isinstance(message, ToolMessage) and not message.id:
                message.__dict__["id"] = fresh_id()  # no other code has a reference to it yet
        thread = self.context.thread
        update = self.context.setup.schema.prepare(update, "a tool")
        thread.finished[call.get("id") or ""] = update
        if is_stored:
            await self.context.keep(
                Record("tool", step=thread.step, call_id=call.get("id"), values=update)
            )
        if problem is None:
            output = [
                message.content
                for message in update["messages"]
                if isinstance(message, ToolMessage)
            ]
            self.runner.publish(
                call, "tool-finished", output=output[0] if len(output) == 1 else output
            )
        else:
            self.runner.publish(call, "tool-error", message=problem)

    def _gather(self, calls: list[ToolCall]) -> None:
        """Combine the results in the order of the calls."""
        setup, finished = self.context.setup, self.context.thread.finished
        update: Values = {"messages": []}
        for call in calls:
            result = finished[call["id"] or ""]
            update["messages"] += result["messages"]
            for key, value in result.items():
                if key == "messages":
                    continue
                reducer = setup.schema.reducers.get(key)
                update[key] = reducer(update[key], value) if reducer and key in update else value
        self.update, self.jump = update, None
        tools = [setup.tools.get(call["name"]) for call in calls]
        is_direct = bool(tools) and all(tool is not None and tool.return_direct for tool in tools)
        if is_direct and all(
            getattr(message, "status", "success") == "success" for message in update["messages"]
        ):
            self.jump = "end"
        if (
            calls
            and _invalid_answers(self.context.thread.values["messages"]) >= MAX_INVALID_ANSWERS
        ):
            self.jump = "end"


def _invalid_answers(messages: Sequence[BaseMessage]) -> int:
    """Count the consecutive last answers that have only invalid tool calls."""
    count = 0
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            if message.tool_calls or not message.invalid_tool_calls:
                break
            count += 1
        elif not isinstance(message, ToolMessage):
            break
    return count


def _failure_in(update: Values, call_id: str | None) -> str | None:
    for message in update["messages"]:
        if (
            isinstance(message, ToolMessage)
            and message.tool_call_id == call_id
            and message.status == "error"
        ):
            return str(message.text).removeprefix("Error: ")
    return None


def _describe(call: Mapping[str, Any], error: Exception) -> str:
    if isinstance(error, ToolException):
        return str(error) or type(error).__name__
    return f"{call['name']} failed: {type(error).__name__}: {error}"
