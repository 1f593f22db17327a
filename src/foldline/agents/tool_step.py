"""The step in which an agent runs the tools its model called: all at once, each result kept as it comes.

What goes wrong with one call is told to the model: an unknown tool, arguments that do not fit, a tool that raises or
takes too long. What the model cannot mend ends the run, once the others have finished: a limit that was hit, a
question to a person, a cancellation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from foldline._run import Run
from foldline.agents.checkpoint.records import Record
from foldline.agents.context import AgentContext
from foldline.agents.eager_tools import EagerTools
from foldline.agents.state import fresh_id
from foldline.agents.tool_calls import answered_update, error_message, problem_of, unanswered
from foldline.agents.tool_runner import ToolRunner
from foldline.exceptions import BlockingCallError, BudgetExceeded, ToolException
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.workflows.durability import ENGINE
from foldline.workflows.events import FlowEvent
from foldline.workflows.interrupts import FlowInterrupt, Interrupt
from foldline.workflows.log import ends_run

__all__ = ["ToolStep"]

Values = dict[str, Any]
RAISED = (BudgetExceeded, BlockingCallError)
"""Errors of a tool that no other call of the model would mend."""
MOST_INVALID = 5
"""After how many answers in a row whose calls cannot be read an agent ends."""

BROKE_OFF = (
    "{} was called before, and the process or the run ended while it ran: whether it took effect is not known. "
    "Find out before you call it again."
)


class ToolStep:
    """Runs the tools; the update of the state that came of it is in `update`, and where to go on in `jump`."""

    def __init__(self, context: AgentContext, runner: ToolRunner, eager: EagerTools) -> None:
        self.context = context
        self.runner = runner
        self.eager = eager
        self.update: Values = {}
        self.jump: str | None = None

    async def events(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Run the calls that have no result yet; give what happens."""
        context = self.context
        messages = context.thread.values["messages"]
        asked = next(one for one in reversed(messages) if isinstance(one, AIMessage))
        calls = unanswered(messages)
        said = context.output.during(
            lambda: self._run_all(calls, asked, run), is_live=bool(context.wants)
        )
        async with aclosing(said):
            async for event in said:
                yield event
        self._gather(calls)

    async def _run_all(self, calls: list[ToolCall], asked: AIMessage, run: Run) -> None:
        context = self.context
        todo = await self._open_calls(calls, asked)
        self.eager.drop_stale(todo)
        once = [call for call in todo if context.setup.tools[call["name"]].run_once]
        for call in once:
            await context.keep(Record("start", step=context.thread.step, call_id=call["id"]))
        # An engine knows steps by their order.
        limit = (context.run.max_concurrency or len(todo)) if ENGINE.get() is None else 1
        outcomes = context.io.as_completed(lambda call: self._run_one(call, run), todo, limit=limit)
        interrupts: dict[int, list[Interrupt]] = {}
        failure: BaseException | None = None
        async with aclosing(outcomes):
            async for place, value, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    interrupts[place] = error.interrupts
                elif error is not None and not isinstance(error, Exception):
                    raise error  # cancelled, or Ctrl-C
                else:
                    # With one call alone the step is kept next, and its result with it, if nobody hears of it first.
                    is_kept = len(calls) > 1 or context.is_observed or bool(once)
                    failure = (
                        await self._settle(todo[place], value, error, is_kept=is_kept) or failure
                    )
        if failure is not None:
            raise failure
        if interrupts:
            raise FlowInterrupt([one for place in sorted(interrupts) for one in interrupts[place]])

    async def _open_calls(self, calls: list[ToolCall], asked: AIMessage) -> list[ToolCall]:
        """Return the calls to run; those that cannot be are answered."""
        thread, todo = self.context.thread, []
        for call in calls:
            if call["id"] in thread.finished:
                continue  # it ran before the process was killed or the run stopped
            problem = problem_of(call, asked, self.context.setup.tools)
            if call["id"] in thread.started:
                problem = BROKE_OFF.format(call["name"])
            if problem is not None:
                await self._finish(
                    call, {"messages": [error_message(call, problem)]}, problem, is_kept=False
                )
            else:
                todo.append(call)
        return todo

    async def _run_one(self, call: ToolCall, run: Run) -> object:
        early = self.eager.take(call)
        if early is None:
            return await self.runner.run(call, run)
        value, error = await early.result()
        if error is not None:
            raise error
        return value

    async def _settle(
        self, call: ToolCall, value: object, error: Exception | None, *, is_kept: bool
    ) -> Exception | None:
        """Keep the result of a call; give back the error that must end the run."""
        if error is None:
            update = answered_update(call, value)
            await self._finish(call, update, _failure_in(update, call["id"]), is_kept=is_kept)
            return None
        text = _describe(call, error)
        # Such a call is not finished: who carries on later runs it again.
        is_final = isinstance(error, RAISED) or ends_run(error)
        update = {"messages": [error_message(call, text)]}
        await self._finish(call, update, text, is_kept=is_kept and not is_final)
        return error if is_final else None

    async def _finish(
        self, call: Mapping[str, Any], update: Values, problem: str | None, *, is_kept: bool
    ) -> None:
        for message in update["messages"]:
            if isinstance(message, ToolMessage) and not message.id:
                message.__dict__["id"] = fresh_id()  # nobody else has seen it yet
        thread = self.context.thread
        update = self.context.setup.schema.prepared(update, "a tool")
        thread.finished[call.get("id") or ""] = update
        if is_kept:
            await self.context.keep(
                Record("tool", step=thread.step, call_id=call.get("id"), values=update)
            )
        if problem is None:
            output = [one.content for one in update["messages"] if isinstance(one, ToolMessage)]
            self.runner.publish(
                call, "tool-finished", output=output[0] if len(output) == 1 else output
            )
        else:
            self.runner.publish(call, "tool-error", message=problem)

    def _gather(self, calls: list[ToolCall]) -> None:
        """Put the results together, in the order of the calls."""
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
            getattr(one, "status", "success") == "success" for one in update["messages"]
        ):
            self.jump = "end"
        if calls and _invalid_answers(self.context.thread.values["messages"]) >= MOST_INVALID:
            self.jump = "end"


def _invalid_answers(messages: Sequence[BaseMessage]) -> int:
    """Count the last answers in a row that called tools and had no call that could be read."""
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
