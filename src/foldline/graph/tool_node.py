"""`ToolNode`: runs the tool calls of the last answer concurrently; `tools_condition`: whether there are any."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, get_args, get_type_hints

from foldline._run import Run
from foldline.agents._tool_calls import error_message, is_program_error, problem_of
from foldline.agents.middleware.base import wrap_of_functions
from foldline.agents.requests import ToolCallRequest
from foldline.agents.runtime import ToolRuntime, injected_values, injections_of
from foldline.exceptions import UsageError
from foldline.graph.runtime import read_state
from foldline.graph.types import END
from foldline.messages import AIMessage, BaseMessage, ToolMessage
from foldline.messages.tool import ToolCall
from foldline.runnables.base import Runnable
from foldline.tools.base import BaseTool, tools_by_name
from foldline.tools.convert import tool as as_tool
from foldline.utils._options import check_options
from foldline.workflows._thread_log import ends_run
from foldline.workflows.interrupts import Command, FlowInterrupt, Interrupt
from foldline.workflows.runtime import current_task

__all__ = ["ToolNode", "tools_condition"]

Values = dict[str, Any]
HandleErrors = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., str]
CALL_TYPES = ("tool_call", "invalid_tool_call")
WrapToolCall = Callable[..., Any]
"""`(request, handler)` -> a message or a Command."""
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
        wrap_tool_call: WrapToolCall | None = None,
        awrap_tool_call: WrapToolCall | None = None,
    ) -> None:
        """Set the tools, which errors become messages for the model, and a function around each call.

        Errors: True: all but a wrong use of foldline inside a tool; False: none; a text: all, with this text; a class
        or several: errors of these classes; a function: those of its annotation (all without one), with its text.
        `wrap_tool_call(request, handler)` gets a `ToolCallRequest` and returns a message or a Command; it may change
        the request, and call the handler never, once or several times. Async runs use `awrap_tool_call` if it is set.
        """
        self.tools_by_name = tools_by_name(
            [tool if isinstance(tool, BaseTool) else as_tool(tool) for tool in tools]
        )
        self.name = name
        self.tags = tags
        self.messages_key = messages_key
        self._handle_errors = handle_tool_errors
        self._handled_errors = _handled_errors(handle_tool_errors)
        self._wrap = wrap_of_functions(wrap_tool_call, awrap_tool_call)
        self._injections = {name: injections_of(tool) for name, tool in self.tools_by_name.items()}

    async def _invoke_body(self, input: object, run: Run) -> object:
        calls, message, form = self._calls(input)
        if isinstance(input, list) and form == "dict":  # calls without a state: that of the graph
            input = read_state() or input
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
                isinstance(item, Mapping) and item.get("type") in CALL_TYPES for item in input
            ):
                return list(input), self._message_of(input), "dict"
            form = "list"
        messages = self._messages(input)
        last = next((item for item in reversed(messages) if isinstance(item, AIMessage)), None)
        if last is None:
            raise UsageError(
                f"{self.name}: there is no AIMessage in {self.messages_key}, so there are no calls to run"
            )
        answered = {item.tool_call_id for item in messages if isinstance(item, ToolMessage)}
        calls = [*last.tool_calls, *last.invalid_tool_calls]
        return [call for call in calls if call.get("id") not in answered], last, form

    def _message_of(self, calls: list[Any]) -> AIMessage:
        """Return the answer that made these calls: that of the state, if the node runs for a `Send` of them."""
        state = read_state()
        messages = [] if state is None else self._messages(state)
        last = next((item for item in reversed(messages) if isinstance(item, AIMessage)), None)
        ids = {call.get("id") for call in calls}
        if last is not None and ids & {
            call.get("id") for call in [*last.tool_calls, *last.invalid_tool_calls]
        }:
            return last
        return AIMessage("", tool_calls=[call for call in calls if call["type"] == "tool_call"])

    def _messages(self, state: Any) -> Sequence[Any]:  # noqa: ANN401  a state in the form of its schema
        if isinstance(state, list):
            return state
        if isinstance(state, Mapping):
            return state.get(self.messages_key) or []
        return getattr(state, self.messages_key, [])

    async def _run_call(
        self, call: ToolCall, message: AIMessage, state: object, run: Run
    ) -> object:
        problem = problem_of(call, message, self.tools_by_name)
        tool = self.tools_by_name.get(call["name"])
        if self._wrap is None and problem is not None:
            return error_message(call, problem)
        runtime = self._runtime(call, state, run)
        request = ToolCallRequest(call, tool, runtime.state, runtime)
        if self._wrap is None:
            return await self._execute(request, run)

        async def handler(changed: ToolCallRequest) -> object:
            if changed.tool is None and changed.tool_call["name"] not in self.tools_by_name:
                return error_message(
                    changed.tool_call,
                    problem_of(changed.tool_call, message, self.tools_by_name) or "",
                )
            return await self._execute(changed, run)

        try:
            return self._as_result(await self._wrap(request, handler, run), call)
        except Exception as error:
            text = self._text_for_model(error)
            if text is None:
                raise
            return error_message(call, text)

    async def _execute(self, request: ToolCallRequest, run: Run) -> object:
        """Run the tool of a request; return its message, or the message of an error that is handled."""
        call = request.tool_call
        tool = request.tool or self.tools_by_name[call["name"]]
        injections = self._injections.get(tool.name)
        if injections is None:
            injections = injections_of(tool)
        arguments = dict(call["args"])
        if injections:
            arguments |= injected_values(injections, request.runtime)
        try:
            result = await tool._step({**call, "args": arguments, "type": "tool_call"}, run.child())
        except Exception as error:
            text = self._text_for_model(error)
            if text is None:
                raise
            return error_message(call, text)
        return self._as_result(result, call)

    def _as_result(self, result: object, call: ToolCall) -> object:
        if isinstance(result, Command):
            self._name_messages(result, call)
        if isinstance(result, BaseMessage | Command):
            return result
        if isinstance(result, list) and all(
            isinstance(item, Command | ToolMessage) for item in result
        ):
            return result
        return ToolMessage(str(result), name=call["name"], tool_call_id=call["id"] or "")

    def _name_messages(self, command: Command[Any], call: ToolCall) -> None:
        """Set the tool's name in the messages of its command that answer its call and have none."""
        update = command.update
        messages = update.get(self.messages_key) if isinstance(update, Mapping) else update
        for message in messages if isinstance(messages, list) else ():
            is_result = isinstance(message, ToolMessage) and message.tool_call_id == call["id"]
            if is_result and message.name is None:
                message.name = call["name"]

    def _runtime(self, call: ToolCall, state: Any, run: Run) -> ToolRuntime[Any]:  # noqa: ANN401  a state in the form of its schema: a dict, a list of messages, a model
        task = current_task.get()
        runtime: ToolRuntime[Any] = ToolRuntime(
            state=state,
            context=None if task is None else task.context,
            config=run.config(),
            tool_call_id=call["id"],
            store=None if task is None else task.store,
            tools=list(self.tools_by_name.values()),
        )
        if task is not None:
            runtime.stream_writer = task.stream_writer
        return runtime

    def _text_for_model(self, error: Exception) -> str | None:
        """Return the error text for the model; None if the error is raised."""
        handler = self._handle_errors
        if handler is False or ends_run(error) or not isinstance(error, self._handled_errors):
            return None
        if handler is True and is_program_error(error):
            return None
        if isinstance(handler, bool | type | tuple):
            return ERROR_TEMPLATE.format(error=repr(error))
        return handler if isinstance(handler, str) else str(handler(error))

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


def _handled_errors(handler: HandleErrors) -> tuple[type[Exception], ...]:
    """Return the classes of errors that a handler is for: those of its annotation, if it is a function that has one."""
    if isinstance(handler, type):
        return (handler,)
    if isinstance(handler, tuple):
        return handler
    if isinstance(handler, bool | str):
        return (Exception,)
    try:
        parameters = list(inspect.signature(handler).parameters)
        hint = get_type_hints(handler).get(parameters[-1]) if parameters else None
    except (TypeError, ValueError, NameError):
        return (Exception,)
    classes = tuple(
        part
        for part in (get_args(hint) or (hint,))
        if isinstance(part, type) and issubclass(part, Exception)
    )
    return classes or (Exception,)


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
