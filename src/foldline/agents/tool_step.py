"""The step in which an agent runs the tools its model called: all at once, each result kept as it comes.

What goes wrong with one call is told to the model: an unknown tool, arguments that do not fit, a tool that raises or
takes too long. What the model cannot mend ends the run, once the others have finished: a limit that was hit, a
question to a person, a cancellation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from pydantic import ValidationError

from foldline._io import IO, OutOfTime, Started
from foldline._run import Run
from foldline.agents.checkpoint.records import Record
from foldline.agents.limits import Bounds
from foldline.agents.middleware.base import Handler, Wrap
from foldline.agents.requests import ToolCallRequest
from foldline.agents.runtime import ToolRuntime, injected_values
from foldline.agents.setup import TOOLS, Setup
from foldline.agents.state import fresh_id
from foldline.agents.tool_calls import answered_update, error_message, problem_of, unanswered
from foldline.exceptions import BlockingCallError, BudgetExceeded, ToolException
from foldline.language_models.policies.usage import time_left
from foldline.messages import AIMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.tools.base import BaseTool, describe_validation_error, inject
from foldline.workflows.events import Emit, FlowEvent
from foldline.workflows.interrupts import FlowInterrupt
from foldline.workflows.nesting import inside

__all__ = ["ToolStep"]

Json = Any
Values = dict[str, Any]
Outcome = tuple[Any, BaseException | None]
RAISED = (BudgetExceeded, BlockingCallError)
"""Errors of a tool that no other call of the model would mend."""


BROKE_OFF = (
    "{} was called before, and the process or the run ended while it ran: whether it took effect is not known. "
    "Find out before you call it again."
)


class ToolStep:
    """The tools' step; a part of `Loop`."""

    setup: Setup
    run: Run
    io: IO
    wants: frozenset[str]
    bounds: Bounds
    say: Emit
    namespace: tuple[str, ...]
    thread: Any
    runtime: Any
    update: Values | None
    jump: str | None
    is_observed: bool
    append: Any
    alongside: Any
    within: Any
    asking: Any
    write: Any
    _eager: dict[str, tuple[ToolCall, Started]] | None = None

    async def run_tools(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Run the calls that have no result yet."""
        calls, asked = self._asked()
        async with aclosing(self.alongside(lambda: self._run_all(calls, asked, run))) as said:
            async for one in said:
                yield one
        self._gather(calls)

    async def run_quietly(self, run: Run) -> None:
        """Run the calls that have no result yet; nobody watches."""
        calls, asked = self._asked()
        await self._run_all(calls, asked, run)
        self._gather(calls)

    def _asked(self) -> tuple[list[Any], AIMessage]:
        messages = self.thread.values["messages"]
        asked = next(one for one in reversed(messages) if isinstance(one, AIMessage))
        return unanswered(messages), asked

    async def _run_all(self, calls: list[Any], asked: AIMessage, run: Run) -> None:
        todo = await self._open_calls(calls, asked)
        self._drop_stale(todo)
        once = [call for call in todo if self._runs_once(call)]
        for call in once:
            await self._append_start(call)
        limit = self.run.max_concurrency or len(todo)
        outcomes = self.io.as_completed(lambda call: self._run_one(call, run), todo, limit=limit)
        interrupts: list[Any] = []
        failure: BaseException | None = None
        async with aclosing(outcomes):
            async for place, value, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    interrupts += error.interrupts
                elif error is not None and not isinstance(error, Exception):
                    raise error  # cancelled, or Ctrl-C
                else:
                    # With one call alone the step is kept next, and its result with it, if nobody hears of it first.
                    is_kept = len(calls) > 1 or self.is_observed or bool(once)
                    failure = (
                        await self._settle(todo[place], value, error, is_kept=is_kept) or failure
                    )
        if failure is not None:
            raise failure
        if interrupts:
            raise FlowInterrupt(interrupts)

    async def _open_calls(self, calls: list[Any], asked: AIMessage) -> list[Any]:
        """Return the calls to run; those that cannot be are answered."""
        finished, todo = self.thread.finished, []
        for call in calls:
            if call["id"] in finished:
                continue  # it ran before the process was killed or the run stopped
            problem = problem_of(call, asked, self.setup.tools)
            if call["id"] in self.thread.started:
                problem = BROKE_OFF.format(call["name"])
            if problem is not None:
                await self._finish(
                    call, {"messages": [error_message(call, problem)]}, problem, is_kept=False
                )
            else:
                todo.append(call)
        return todo

    async def _settle(
        self, call: ToolCall, value: Json, error: Exception | None, *, is_kept: bool
    ) -> Exception | None:
        """Keep the result of a call; give back the error that must end the run."""
        if error is None:
            update = answered_update(call, value)
            await self._finish(call, update, _failure_in(update, call["id"]), is_kept=is_kept)
            return None
        text = _said_of(call, error)
        is_final = isinstance(
            error, RAISED
        )  # such a call is not finished: who carries on later runs it again
        update = {"messages": [error_message(call, text)]}
        await self._finish(call, update, text, is_kept=is_kept and not is_final)
        return error if is_final else None

    async def _finish(
        self, call: Mapping[str, Json], update: Values, problem: str | None, *, is_kept: bool
    ) -> None:
        for message in update["messages"]:
            if isinstance(message, ToolMessage) and not message.id:
                message.__dict__["id"] = fresh_id()  # nobody else has seen it yet
        update = self.setup.schema.prepared(update, "a tool")
        self.thread.finished[call.get("id") or ""] = update
        if is_kept:
            await self.append_tool(call, update)
        if problem is None:
            output = [one.content for one in update["messages"] if isinstance(one, ToolMessage)]
            self.say_tool(call, "tool-finished", output=output[0] if len(output) == 1 else output)
        else:
            self.say_tool(call, "tool-error", message=problem)

    def _runs_once(self, call: ToolCall) -> bool:
        tool = self.setup.tools.get(call["name"])
        return tool is not None and tool.run_once

    async def _append_start(self, call: ToolCall) -> None:
        """Keep that a call begins which must not run twice."""
        head, step = self.thread.head, self.thread.step
        record = Record("start", parent=head, step=step, call_id=call["id"])
        await self.append(record)
        self.thread.head = record.id

    async def append_tool(self, call: Mapping[str, Json], update: Values) -> None:
        """Keep the result of one call before anything else happens."""
        record = Record(
            "tool",
            parent=self.thread.head,
            step=self.thread.step,
            call_id=call.get("id"),
            values=update,
        )
        await self.append(record)
        self.thread.head = record.id

    def _gather(self, calls: list[Any]) -> None:
        """Put the results together, in the order of the calls."""
        update: Values = {"messages": []}
        for call in calls:
            one = self.thread.finished[call["id"]]
            update["messages"] += one["messages"]
            for key, value in one.items():
                if key == "messages":
                    continue
                reducer = self.setup.schema.reducers.get(key)
                update[key] = reducer(update[key], value) if reducer and key in update else value
        self.update = update
        tools = [self.setup.tools.get(call["name"]) for call in calls]
        is_direct = bool(tools) and all(tool is not None and tool.return_direct for tool in tools)
        if is_direct and all(
            getattr(one, "status", "success") == "success" for one in update["messages"]
        ):
            self.jump = "end"

    # -- one call

    async def _run_one(self, call: ToolCall, run: Run) -> Json:
        early = self._eager.pop(call["id"] or "", None) if self._eager else None
        if early is not None:
            value, error = await early[1].result()
            if error is not None:
                raise error
            return value
        self.say_tool(call, "tool-started", tool_name=call["name"], input=call["args"])
        with (
            inside(self.within(TOOLS, call["id"]), self.asking(TOOLS, call["id"])),
            self.bounds.active(),
        ):
            left = time_left()
            if left is None:
                return await self._call(call, run)
            try:
                return await self.io.bounded(max(left, 0.001), self._call(call, run))
            except OutOfTime as error:
                raise BudgetExceeded(
                    f"{call['name']} was given up: the time of this run is over", limit=left
                ) from error

    async def _call(self, call: ToolCall, run: Run) -> Json:
        tool = self.setup.tools.get(call["name"])
        if (
            not self.setup.tool_wraps
            and tool is not None
            and tool.name not in self.setup.injections
        ):
            return await _invoked(tool, call, run)
        runtime = ToolRuntime(
            state=self.thread.values,
            context=self.runtime.context,
            config=run.given,
            stream_writer=self.write,
            tool_call_id=call["id"],
            store=self.setup.store,
            emit_output_delta=lambda text: self.say_tool(
                call, "tool-output-delta", delta=str(text)
            ),
        )
        request = ToolCallRequest(call, tool, self.thread.values, runtime)
        if not self.setup.tool_wraps:
            return await self._invoke(request, run)

        async def handler(asked: Json) -> Json:
            return await self._invoke(asked, run)

        for _, wrap in reversed(self.setup.tool_wraps):
            handler = _wrapped(wrap, handler, run)  # type: ignore[assignment]
        return await handler(request)

    async def _invoke(self, request: ToolCallRequest, run: Run) -> Json:
        """Run the tool once: the innermost of the handlers."""
        call, tool = request.tool_call, request.tool
        if tool is None:
            known = ", ".join(self.setup.tools) or "none"
            return error_message(
                call, f"there is no tool named {call['name']!r}: call one of {known}"
            )
        injections = self.setup.injections.get(tool.name)
        if injections is not None:
            call = inject(tool, call, injected_values(injections, request.runtime))
        return await _invoked(tool, call, run)

    def say_tool(self, call: Mapping[str, Json], event: str, **data: Json) -> None:
        """Say what happens to a call."""
        if "tools" in self.wants:
            said = {"event": event, "tool_call_id": call.get("id") or "", **data}
            self.say(FlowEvent("tools", self.namespace, TOOLS, said))

    # -- tools that start while the message still streams

    def start_eager(self, block: Mapping[str, Json], run: Run) -> None:
        """Start a tool whose call is finished before the message is."""
        if not block.get("id"):
            return
        call = cast(
            "ToolCall", {key: block[key] for key in ("name", "args", "id")} | {"type": "tool_call"}
        )

        async def body() -> Outcome:
            try:
                with (
                    inside(self.within(TOOLS, call["id"]), self.asking(TOOLS, call["id"])),
                    self.bounds.active(),
                ):
                    return await self._call(call, self.run), None
            except (Exception, FlowInterrupt) as error:  # noqa: BLE001
                return None, error

        if self._eager is None:
            self._eager = {}
        self.say_tool(call, "tool-started", tool_name=call["name"], input=call["args"])
        self._eager[call["id"] or ""] = (call, self.io.start(body()))

    def _drop_stale(self, todo: list[Any]) -> None:
        """Forget eager results whose call is not in the message as it ended."""
        known = {call["id"]: call["args"] for call in todo}
        for id, (call, started) in list((self._eager or {}).items()):
            if known.get(id) != call["args"]:
                started.cancel()
                del self._eager[id]  # type: ignore[union-attr]  # there is one, so there is a dict

    def drop_eager(self) -> None:
        """Forget what was started for an answer that does not count."""
        eager, self._eager = self._eager, None
        for _, started in (eager or {}).values():
            started.cancel()


async def _invoked(tool: BaseTool, call: ToolCall, run: Run) -> Json:
    given = call if call.get("type") == "tool_call" else {**call, "type": "tool_call"}
    try:
        return await tool._step(given, run.child())
    except ValidationError as error:
        return error_message(call, describe_validation_error(error))


def _wrapped(wrap: Wrap, handler: Handler, run: Run) -> Handler:
    async def call(request: Json) -> Json:
        return await wrap(request, handler, run)

    return call


def _failure_in(update: Values, call_id: str | None) -> str | None:
    for message in update["messages"]:
        if (
            isinstance(message, ToolMessage)
            and message.tool_call_id == call_id
            and message.status == "error"
        ):
            return str(message.text).removeprefix("Error: ")
    return None


def _said_of(call: Mapping[str, Json], error: Exception) -> str:
    if isinstance(error, ToolException):
        return str(error) or type(error).__name__
    return f"{call['name']} failed: {type(error).__name__}: {error}"
