"""The step in which an agent calls its model, inside its middleware.

While the message streams, a tool marked `eager` starts as soon as its call is complete; its result counts only if the
call is still in the complete message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from foldline._run import Run
from foldline._streams.bounds import RESET
from foldline._streams.state import View
from foldline.agents._agent_definition import MODEL
from foldline.agents._eager_tools import EagerTools
from foldline.agents._handler_calls import HandlerCalls
from foldline.agents._run_context import AgentContext
from foldline.agents._tool_calls import with_ids
from foldline.agents.checkpoint._records import Codec
from foldline.agents.middleware.base import Handler, Wrap
from foldline.agents.requests import ModelRequest, ModelResponse, response_of
from foldline.agents.state import with_fresh_id
from foldline.agents.structured_output import MAX_ERRORS, AnswerReading, ProviderReader, ToolReader
from foldline.exceptions import UsageError
from foldline.language_models._call.call import ChatCall
from foldline.language_models.chat_models import BaseChatModel
from foldline.load import dumpd, load
from foldline.messages import AIMessage, BaseMessage, HumanMessage
from foldline.messages._refusal import refusal_error
from foldline.protocol.replay import message_to_events
from foldline.runnables._stream_call import StreamCall
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.workflows._run_events import FlowEvent
from foldline.workflows.durability import ENGINE, durable_step
from foldline.workflows.interrupts import Command, FlowInterrupt

__all__ = ["ModelStep"]

Values = dict[str, Any]


class ModelForm:
    """How the answers of the model are stored."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def describe(self, request: ModelRequest) -> object:
        """Return what identifies a request to the model."""
        model = request.model
        names = [getattr(tool, "name", None) or repr(tool) for tool in request.tools]
        return [
            type(model).__qualname__,
            str(getattr(model, "model", None) or getattr(model, "model_name", "")),
            _prompt(request),
            names,
            repr(request.tool_choice),
            repr(request.model_settings),
        ]

    def encode(self, response: ModelResponse) -> object:
        """Return an answer as JSON."""
        values: Values = {"messages": response.result}
        if response.structured_response is not None:
            values["structured_response"] = response.structured_response
        return self.codec.encode(values)

    def decode(self, packed: Any) -> ModelResponse:  # noqa: ANN401  JSON, as `encode` wrote it
        """Return the stored answer."""
        values = self.codec.decode(packed)
        return ModelResponse(values["messages"], values.get("structured_response"))


class ModelStep:
    """Calls the model; `update` is the resulting update of the state."""

    def __init__(self, context: AgentContext, eager: EagerTools) -> None:
        self.context = context
        self.eager = eager
        self.update: Values = {}
        self._commands: list[Command[Any]] = []
        """State changes of middleware, the innermost first."""

    async def events(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Call the model; yield its events if the caller streams them."""
        context, request = self.context, self._request()
        if not context.setup.model_wraps and context.bounds.usage is None:
            # Events are yielded directly, so that closing the stream closes the connection at once.
            responses: list[ModelResponse] = []
            async with aclosing(self._answer(request, run, responses)) as events:
                async for event in events:
                    yield event
                    for tool_event in context.output.take_buffered():  # from eager tools
                        yield tool_event
            self._conclude(responses[0])
            return
        outputs = context.output.run_body(
            lambda: self._ask_wrapped(request, run), is_live=bool(context.wants)
        )
        async with aclosing(outputs) as events:
            async for event in events:
                yield event

    def _request(self) -> ModelRequest:
        setup, values = self.context.setup, self.context.thread.values
        return ModelRequest(
            model=setup.model,
            messages=list(values["messages"]),
            system_message=setup.system_message,
            tools=setup.bindable,
            response_format=setup.response_format,
            state=values,
            runtime=self.context.runtime,
        )

    async def _ask_wrapped(self, request: ModelRequest, run: Run) -> None:
        """Call the model inside the middleware and the limits of the agent."""
        context = self.context

        async def ask(request: ModelRequest) -> ModelResponse:
            responses: list[ModelResponse] = []
            async with aclosing(self._answer(request, run, responses)) as events:
                async for event in events:
                    context.output.send(event)
            return responses[0]

        with context.enter(MODEL):
            if not context.setup.model_wraps:
                self._conclude(await ask(request))
                return
            calls = HandlerCalls(context, ModelForm(context.setup.codec))

            async def handler(wrapped_request: ModelRequest) -> object:
                return await calls.call(wrapped_request, ask)

            for name, wrap in reversed(context.setup.model_wraps):
                handler = self._wrap_handler(name, wrap, handler, run)  # type: ignore[assignment]
            try:
                self._conclude(response_of(await handler(request), "a middleware around the model"))
            except FlowInterrupt:
                await calls.keep()
                raise

    def _wrap_handler(self, name: str, wrap: Wrap, handler: Handler, run: Run) -> Handler:
        async def call(request: object) -> object:
            self._commands.clear()  # those of an earlier attempt
            return response_of(await wrap(request, handler, run), name, self._commands)

        return call

    async def _answer(
        self, request: ModelRequest, run: Run, responses: list[ModelResponse]
    ) -> AsyncGenerator[FlowEvent, None]:
        """Call the model once; yield its events if the caller streams them, then append its response."""
        context = self.context
        bound, reader = context.setup.bound(request)
        wants_events = "messages" in context.wants
        if ENGINE.get() is not None or (not wants_events and not context.setup.eager):
            message = await durable_step(
                f"{context.setup.name}.model",
                lambda: bound._step(_prompt(request), run.child()),
                dumpd,
                load,
                run.io,
            )
            responses.append(_read(message, reader, self))
            return
        messages: list[AIMessage] = []
        self.eager.drop()
        async with aclosing(_events(bound, _prompt(request), run.child(), messages)) as events:
            async for event in events:
                kind = event.get("event")
                if kind == "content-block-finish":
                    self.eager.start(event["content"])
                elif kind == RESET:
                    self.eager.drop()
                if wants_events:
                    yield FlowEvent("messages", context.namespace, MODEL, event)
        responses.append(_read(messages[0], reader, self))

    def _conclude(self, response: ModelResponse) -> None:
        earlier_ids = {message.id for message in self.context.thread.values["messages"]}
        messages = [
            with_fresh_id(with_ids(message), earlier_ids)
            if isinstance(message, AIMessage)
            else message
            for message in response.result
        ]
        self.update = {"messages": messages}
        if response.structured_response is not None:
            self.update["structured_response"] = response.structured_response
        for command in self._commands:
            self._join_command(command)

    def _join_command(self, command: Command[Any]) -> None:
        schema = self.context.setup.schema
        changes = schema.prepare(dict(command.update or {}), "a middleware around the model")
        for key, value in changes.items():
            reducer = schema.reducers.get(key)
            if key == "messages":
                self.update[key] = [*self.update[key], *value]
            elif reducer is not None and key in self.update:
                self.update[key] = reducer(self.update[key], value)
            else:
                self.update[key] = value

    @property
    def failures(self) -> int:
        """How many consecutive answers, up to now, did not match the response format."""
        count = 0
        for message in reversed(self.context.thread.values["messages"]):
            if message.additional_kwargs.get("foldline_misfit"):
                count += 1
            elif isinstance(message, HumanMessage):
                break
        return count


def _prompt(request: ModelRequest) -> list[BaseMessage]:
    if request.system_message is None:
        return request.messages
    return [request.system_message, *request.messages]


async def _events(
    bound: Runnable[Any, Any], prompt: list[BaseMessage], run: Run, messages: list[AIMessage]
) -> AsyncGenerator[Any, None]:
    model = bound
    while isinstance(model, RunnableBindingBase):
        binding: RunnableBindingBase[Any, Any] = model
        model, run = binding.bound, binding._bound_run(run)
    if isinstance(model, BaseChatModel):
        call = ChatCall(model, prompt, run, stream=True)
        async with aclosing(call.batches(View.CHUNKS)) as batches:  # handlers get tokens
            async for batch in batches:
                for event in batch:
                    yield event
        messages.append(cast("AIMessage", call.message))
        return
    try:
        stream: Any = model._open_stream_v2(StreamCall(prompt, run, View.CHUNKS))
    except UsageError:  # the runnable cannot stream a model's events: invoke it
        messages.append(await model._step(prompt, run))
        for event in message_to_events(messages[0]):
            yield event
        return
    items: Any = iter(stream) if run.io.blocking else aiter(stream)
    async with aclosing(run.io.each(items)) as events:
        async for event in events:
            yield event
    messages.append(stream.output if run.io.blocking else await stream)


def _read(
    message: object, reader: ToolReader | ProviderReader | None, step: ModelStep
) -> ModelResponse:
    """Return the response, with the structured answer of the message if the agent has a response format."""
    if not isinstance(message, AIMessage):
        raise UsageError(f"the model returned a {type(message).__name__}, not an AIMessage")
    if reader is None:
        return ModelResponse([message])
    message = with_ids(message)
    if not message.tool_calls and (refusal := refusal_error(message)) is not None:
        raise refusal  # the answer is needed, and asking again is refused again
    is_complete = message.status != "incomplete" and message.finish_reason not in (
        "length",
        "content_filter",
    )
    reading = reader.read(message) if is_complete or isinstance(reader, ProviderReader) else None
    if reading is None:
        return ModelResponse([message])
    if reading.error is not None:
        return _mismatch_response(message, reading, reader, step.failures)
    return ModelResponse([message, *reading.messages], reading.value)


def _mismatch_response(
    message: AIMessage, reading: AnswerReading, reader: ToolReader | ProviderReader, failures: int
) -> ModelResponse:
    error = reading.error
    assert error is not None
    can_reply = bool(reading.messages) or isinstance(reader, ProviderReader)
    if not can_reply or failures + 1 >= MAX_ERRORS:
        error.raw, error.partial = message, message
        raise error
    misfit_flag = {"foldline_misfit": True}
    if isinstance(reader, ProviderReader):
        replies: list[Any] = [
            HumanMessage(f"{error}\nAnswer again.", additional_kwargs=misfit_flag)
        ]
    else:
        replies = [
            reply.model_copy(update={"additional_kwargs": misfit_flag})
            for reply in reading.messages
        ]
    return ModelResponse([message, *replies])
