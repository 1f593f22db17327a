"""Runs one tool call of an agent, inside its middleware and the limits of the run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from pydantic import ValidationError

from foldline._io import OutOfTime
from foldline._run import Run
from foldline.agents._agent_definition import TOOLS
from foldline.agents._handler_calls import HandlerCalls
from foldline.agents._run_context import AgentContext
from foldline.agents._tool_calls import UNKNOWN_EFFECT, error_message
from foldline.agents.middleware.base import Handler, Wrap
from foldline.agents.requests import ToolCallRequest
from foldline.agents.runtime import ToolRuntime, injected_values
from foldline.exceptions import BudgetExceeded, is_invalid_resume
from foldline.language_models._call.policies.usage import time_left
from foldline.messages.tool import ToolCall
from foldline.tools.base import BaseTool, describe_validation_error, inject
from foldline.workflows._started_tasks import finish_tasks
from foldline.workflows.durability import ENGINE, claim_step, durable_step
from foldline.workflows.interrupts import Command, FlowInterrupt
from foldline.workflows.values import pack, unpack

__all__ = ["ToolRunner"]


class ToolForm:
    """How the calls of a tool are stored."""

    def describe(self, request: ToolCallRequest) -> object:
        """Return the call."""
        return [request.tool_call["name"], request.tool_call["args"]]

    def encode(self, response: object) -> object:
        """Return the tool's result as JSON."""
        return pack(response, "the result of a tool", Command | list[Any])

    def decode(self, packed: object) -> object:
        """Return the stored result."""
        return unpack(packed, "the result of a tool", Command | list[Any])


class ToolRunner:
    """Runs tool calls."""

    def __init__(self, context: AgentContext) -> None:
        self.context = context

    async def run(self, call: ToolCall, run: Run) -> object:
        """Run a call; return the tool's result."""
        context = self.context
        await context.check_owner()
        self.publish(call, "tool-started", tool_name=call["name"], input=call["args"])
        with context.enter(TOOLS, call["id"]) as parent:
            seconds_left = time_left()
            body = finish_tasks(self._run_durably(call, run), parent, context.io)
            if seconds_left is None:
                return await body
            try:
                return await context.io.bounded(max(seconds_left, 0.001), body)
            except OutOfTime as error:
                raise BudgetExceeded(
                    f"{call['name']} was stopped: the time of this run has run out",
                    limit=seconds_left,
                ) from error

    async def _run_durably(self, call: ToolCall, run: Run) -> object:
        """Run a call as a step of the durability engine, if there is one."""
        form, setup, io = ToolForm(), self.context.setup, self.context.io
        name = f"{setup.name}.{call['name']}"

        def body() -> Awaitable[object]:
            return self._call(call, run)

        if ENGINE.get() is not None and not setup.runs_again(call["name"]):
            lost = error_message(call, UNKNOWN_EFFECT.format(call["name"]))
            body = await claim_step(name, body, lost, io)
        return await durable_step(name, body, form.encode, form.decode, io)

    async def _call(self, call: ToolCall, run: Run) -> object:
        context, setup = self.context, self.context.setup
        tool = setup.tools.get(call["name"])
        if not setup.tool_wraps and tool is not None and tool.name not in setup.injections:
            return await _invoke_tool(tool, call, run)
        runtime = ToolRuntime(
            state=context.thread.values,
            context=context.runtime.context,
            config=run.call_config,
            stream_writer=context.output.write,
            tool_call_id=call["id"],
            store=context.runtime.store,
            tools=list(setup.tools.values()),
            emit_output_delta=lambda text: self.publish(call, "tool-output-delta", delta=str(text)),
        )
        request = ToolCallRequest(call, tool, context.thread.values, runtime)
        if not setup.tool_wraps:
            return await self._invoke(request, run)

        calls = HandlerCalls(context, ToolForm())

        async def handler(wrapped_request: ToolCallRequest) -> object:
            return await calls.call(wrapped_request, lambda request: self._invoke(request, run))

        for _, wrap in reversed(setup.tool_wraps):
            handler = _wrap_handler(wrap, handler, run)  # type: ignore[assignment]
        try:
            return await handler(request)
        except FlowInterrupt:
            await calls.keep()
            raise

    async def _invoke(self, request: ToolCallRequest, run: Run) -> object:
        """Run the tool once: the innermost handler."""
        call, tool, setup = request.tool_call, request.tool, self.context.setup
        if tool is None:
            names = ", ".join(setup.tools) or "none"
            return error_message(
                call, f"there is no tool named {call['name']!r}: call one of {names}"
            )
        injections = setup.injections.get(tool.name)
        if injections is not None:
            call = inject(tool, call, injected_values(injections, request.runtime))
        return await _invoke_tool(tool, call, run)

    def publish(self, call: Mapping[str, Any], event: str, **data: object) -> None:
        """Publish an event of a call."""
        output = self.context.output
        if "tools" in output.wants:
            output.publish(
                "tools", TOOLS, {"event": event, "tool_call_id": call.get("id") or "", **data}
            )


async def _invoke_tool(tool: BaseTool, call: ToolCall, run: Run) -> object:
    tool_call = call if call.get("type") == "tool_call" else {**call, "type": "tool_call"}
    try:
        return await tool._step(tool_call, run.child())
    except ValidationError as error:
        if is_invalid_resume(error):  # an answer of a person, not an argument of the model
            raise
        return error_message(call, describe_validation_error(error))


def _wrap_handler(wrap: Wrap, handler: Handler, run: Run) -> Handler:
    async def call(request: object) -> object:
        return await wrap(request, handler, run)

    return call
