"""`ToolNode`: runs the tool calls of the last answer, at once; `tools_condition`: whether there are any."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from foldline._run import Run
from foldline.agents.runtime import ToolRuntime, injected_values, injections_of
from foldline.agents.tool_calls import error_message, problem_of
from foldline.exceptions import UsageError
from foldline.graph.runtime import current_task
from foldline.graph.types import END
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool, tools_by_name
from foldline.tools.convert import tool as as_tool
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt
from foldline.workflows.log import ends_run

__all__ = ["ToolNode", "tools_condition"]

Values = dict[str, Any]
HandleErrors = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]
FAILED = "Error: {error}\n Please fix your mistakes."


class ToolNode(Runnable[Any, Any]):
    """A node that runs the tool calls of the last message, at once, and gives their messages."""

    def __init__(
        self,
        tools: Sequence[BaseTool | Callable[..., Any]],
        *,
        name: str = "tools",
        tags: list[str] | None = None,
        handle_tool_errors: HandleErrors = True,
        messages_key: str = "messages",
    ) -> None:
        made = [one if isinstance(one, BaseTool) else as_tool(one) for one in tools]
        self.tools_by_name = tools_by_name(made)
        self.name = name
        self.tags = tags
        self.messages_key = messages_key
        self._handles = handle_tool_errors
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
                isinstance(one, Mapping) and one.get("type") == "tool_call" for one in input
            ):
                return list(input), AIMessage("", tool_calls=list(input)), "dict"
            messages, form = input, "list"
        elif isinstance(input, Mapping):
            messages = input.get(self.messages_key) or []
        else:
            messages = getattr(input, self.messages_key, [])
        last = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
        if last is None:
            raise UsageError(
                f"{self.name}: no AIMessage is among the {self.messages_key}, so there are no calls to run"
            )
        done = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
        calls = [*last.tool_calls, *last.invalid_tool_calls]
        return [one for one in calls if one.get("id") not in done], last, form

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
            isinstance(one, Command | ToolMessage) for one in result
        ):
            return result
        return ToolMessage(str(result), name=call["name"], tool_call_id=call["id"])

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
        """Return what the model is told of an error; None where it is raised."""
        handles = self._handles
        if handles is True:
            return FAILED.format(error=repr(error))
        if handles is False:
            return None
        if isinstance(handles, str):
            return handles
        if isinstance(handles, type | tuple):
            return FAILED.format(error=repr(error)) if isinstance(error, handles) else None
        return str(handles(error))

    def _answer(self, results: list[Any], form: str) -> object:
        flat = [part for one in results for part in (one if isinstance(one, list) else [one])]
        if not any(isinstance(one, Command) for one in flat):
            return flat if form == "list" else {self.messages_key: flat}
        messages = [one for one in flat if not isinstance(one, Command)]
        commands = [one for one in flat if isinstance(one, Command)]
        return [*commands, Command(update={self.messages_key: messages})] if messages else commands


def tools_condition(state: object, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Go to the node "tools" where the last message asks for tools, else to the end."""
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
