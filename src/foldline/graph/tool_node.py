"""`ToolNode`: runs the tool calls of the last answer concurrently; `tools_condition`: whether there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from foldline._run import Run
from foldline.agents.runtime import ToolRuntime, injected_values, injections_of
from foldline.agents.tool_calls import error_message, is_program_error, problem_of
from foldline.exceptions import UsageError
from foldline.graph.runtime import current_task
from foldline.graph.types import END
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool, tools_by_name
from foldline.tools.convert import tool as as_tool
from foldline.utils.options import check_options
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt
from foldline.workflows.log import ends_run

__all__ = ["ToolNode", "tools_condition"]

Values = dict[str, Any]
HandleErrors = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]
ERROR_TEMPLATE = "Error: {error}\n Please fix your mistakes."


class ToolNode(Runnable[Any, Any]):
    """A node that runs the tool calls of the last message concurrently, and returns their messages."""

    @check_options()
    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: HandleErrors = True,
        messages_key: str = "messages",
    ) -> None:
        """Set the tools, and which errors become messages for the model.

        True: all but a wrong use of foldline inside a tool; False: none; a text or a function: all, with this text;
        a class or several: errors of these classes.
        """
        self.tools_by_name = tools_by_name(
            [tool if isinstance(tool, BaseTool) else as_tool(tool) for tool in tools]
        )
        self.name = name
        self.tags = tags
        self.messages_key = messages_key
        self._handle_errors = handle_tool_errors
        self._injections = {name: injections_of(tool) for name, tool in self.tools_by_name.items()}

    async def _invoke_body(self, input: object, run: Run) -> object:
        calls, message, form = self._calls(input)
        results: list[Any] = [None] * len(calls)
        interrupts: list[Interrupt] = []
        outcomes = run.io.as_completed(
            lambda number: self._run_call(calls[number], message, input, run),
            range(len(calls)),
            limit=run.max_concurrency,
        )
        async with aclosing(outcomes):
            async for number, value, error in outcomes:
                if isinstance(error, FlowInterrupt):
                    interrupts += error.interrupts
                elif error is not None:
                    raise error
                results[number] = value
        if interrupts:
            raise FlowInterrupt(interrupts)
        return self._answer(results, form)

    def _calls(self, input: object) -> tuple[list[Any], AIMessage, str]:
        form = "dict"
        if isinstance(input, list):
            if input and all(
                isinstance(item, Mapping) and item.get("type") == "tool_call" for item in input
            ):
                return list(input), AIMessage("", tool_calls=list(input)), "dict"
            messages, form = input, "list"
        elif isinstance(input, Mapping):
            messages = input.get(self.messages_key) or []
        else:
            messages = getattr(input, self.messages_key, [])
        last = next((item for item in reversed(messages) if isinstance(item, AIMessage)), None)
        if last is None:
            raise UsageError(
                f"{self.name}: there is no AIMessage in {self.messages_key}, so there are no calls to run"
            )
        answered = {item.tool_call_id for item in messages if isinstance(item, ToolMessage)}
        calls = [*last.tool_calls, *last.invalid_tool_calls]
        return [call for call in calls if call.get("id") not in answered], last, form

    async def _run_call(
        self, call: ToolCall, message: AIMessage, state: object, run: Run
    ) -> object:
        problem = problem_of(call, message, self.tools_by_name)
        if problem is not None:
            return error_message(call, problem)
        tool = self.tools_by_name[call["name"]]
        arguments = self._arguments(tool, call, state, run)
        try:
            result = await tool._step({**call, "args": arguments, "type": "tool_call"}, run.child())
        except Exception as error:
            text = None if ends_run(error) else self._error_text(error)
            if text is None:
                raise
            return error_message(call, text)
        if isinstance(result, BaseMessage | Command):
            return result
        if isinstance(result, list) and all(
            isinstance(item, Command | ToolMessage) for item in result
        ):
            return result
        return ToolMessage(str(result), name=call["name"], tool_call_id=call["id"] or "")

    def _arguments(self, tool: BaseTool, call: ToolCall, state: Any, run: Run) -> Values:  # noqa: ANN401  a state in the form of its schema: a dict, a list of messages, a model
        injections = self._injections[tool.name]
        if not injections:
            return dict(call["args"])
        task = current_task.get()
        runtime: ToolRuntime[Any] = ToolRuntime(
            state=state,
            context=None if task is None else task.context,
            config=run.config(),
            tool_call_id=call["id"],
            store=None if task is None else task.store,
        )
        if task is not None:
            runtime.stream_writer = task.stream_writer
        return {**call["args"], **injected_values(injections, runtime)}

    def _error_text(self, error: Exception) -> str | None:
        """Return the error text for the model; None if the error is raised."""
        handler = self._handle_errors
        if handler is True:
            is_told = not is_program_error(error)
            return ERROR_TEMPLATE.format(error=repr(error)) if is_told else None
        if handler is False:
            return None
        if isinstance(handler, str):
            return handler
        if isinstance(handler, type | tuple):
            return ERROR_TEMPLATE.format(error=repr(error)) if isinstance(error, handler) else None
        return str(handler(error))

    def _answer(self, results: list[Any], form: str) -> object:
        items = [
            item
            for result in results
            for item in (result if isinstance(result, list) else [result])
        ]
        if not any(isinstance(item, Command) for item in items):
            return items if form == "list" else {self.messages_key: items}
        messages = [item for item in items if not isinstance(item, Command)]
        commands = [item for item in items if isinstance(item, Command)]
        return [*commands, Command(update={self.messages_key: messages})] if messages else commands


def tools_condition(state: object, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Return "tools" if the last message has tool calls, else END."""
    if isinstance(state, list):
        messages = state
    elif isinstance(state, Mapping):
        messages = state.get(messages_key) or []
    else:
        messages = getattr(state, messages_key, [])
    if not messages:
        raise UsageError(f"tools_condition: there are no {messages_key} in the state")
    last = messages[-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END  # type: ignore[return-value]
