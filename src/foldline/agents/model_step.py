"""The step in which an agent asks its model, inside the middleware around it.

While the message streams, a tool marked `eager` starts as soon as its call is finished; what it gave counts only if
the call is still there when the message is complete.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast
from uuid import uuid4

from foldline._io import IO
from foldline._run import Run
from foldline.agents.limits import Bounds
from foldline.agents.middleware.base import Handler, Wrap
from foldline.agents.requests import ModelRequest, ModelResponse, response_of
from foldline.agents.setup import MODEL, Setup
from foldline.agents.state import fresh_id
from foldline.agents.structured_output import MOST_ERRORS, Answered, ProviderReader, ToolReader
from foldline.agents.tool_calls import with_ids
from foldline.exceptions import UsageError
from foldline.language_models.call.call import ChatCall
from foldline.language_models.call.retry_accounting import RESET
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessage, BaseMessage, HumanMessage
from foldline.protocol.replay import message_to_events
from foldline.runnables._opening import Opening
from foldline.runnables.base import Runnable
from foldline.runnables.binding import RunnableBindingBase
from foldline.workflows.events import Emit, FlowEvent
from foldline.workflows.nesting import inside

__all__ = ["ModelStep"]

Json = Any


class ModelStep:
    """The model's step; a part of `Loop`."""

    setup: Setup
    io: IO
    wants: frozenset[str]
    bounds: Bounds
    say: Emit
    take_held: Any
    namespace: tuple[str, ...]
    thread: Any
    runtime: Any
    update: dict[str, Any] | None
    alongside: Any
    within: Any
    asking: Any
    start_eager: Any
    drop_eager: Any

    async def ask_model(self, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Ask the model; give its events where somebody wants them."""
        setup, request = self.setup, self._request()
        if self.wants and not setup.model_wraps and self.bounds.usage is None:
            async with aclosing(self._ask_inline(request, run)) as said:
                async for one in said:
                    yield one
            return
        async with aclosing(self.alongside(lambda: self._ask_wrapped(request, run))) as said:
            async for one in said:
                yield one

    async def ask_quietly(self, run: Run) -> None:
        """Ask the model; nobody watches."""
        await self._ask_wrapped(self._request(), run)

    def _request(self) -> ModelRequest:
        setup = self.setup
        return ModelRequest(
            model=setup.model,
            messages=list(self.thread.values["messages"]),
            system_message=setup.system_message,
            tools=setup.bindable,
            response_format=setup.response_format,
            state=self.thread.values,
            runtime=self.runtime,
        )

    async def _ask_inline(self, request: ModelRequest, run: Run) -> AsyncGenerator[FlowEvent, None]:
        """Ask without middleware: the events go to the reader as they come, and closing reaches the wire at once."""
        bound, reader = self.setup.bound(request)
        heard: list[AIMessage] = []
        async with aclosing(self._spoken(bound, request, run, heard)) as events:
            async for event in events:
                if "messages" in self.wants:
                    yield FlowEvent("messages", self.namespace, MODEL, event)
                for held in self.take_held():  # an eager tool began
                    yield held
        self._conclude(_read(heard[0], reader, self))

    async def _ask_wrapped(self, request: ModelRequest, run: Run) -> None:
        async def handler(asked: Json) -> Json:
            return await self._ask(asked, run)

        for name, wrap in reversed(self.setup.model_wraps):
            handler = _wrapped(name, wrap, handler, run)  # type: ignore[assignment]
        if not self.setup.model_wraps:
            with self.bounds.active():
                self._conclude(await handler(request))
            return
        with inside(self.within(MODEL), self.asking(MODEL)), self.bounds.active():
            self._conclude(response_of(await handler(request), "a middleware around the model"))

    async def _ask(self, request: ModelRequest, run: Run) -> ModelResponse:
        """Ask the model once: the innermost of the handlers."""
        bound, reader = self.setup.bound(request)
        wants_events = "messages" in self.wants
        if not wants_events and not self.setup.eager:
            message = await bound._step(_prompt(request), run.child())
            return _read(message, reader, self)
        heard: list[AIMessage] = []
        async with aclosing(self._spoken(bound, request, run, heard)) as events:
            async for event in events:
                if wants_events:
                    self.say(FlowEvent("messages", self.namespace, MODEL, event))
        return _read(heard[0], reader, self)

    async def _spoken(
        self, bound: Runnable[Any, Any], request: ModelRequest, run: Run, heard: list[AIMessage]
    ) -> AsyncGenerator[Any, None]:
        """Give the events of one answer, and then the message in `heard`; start eager tools meanwhile."""
        self.drop_eager()
        async with aclosing(_events(bound, _prompt(request), run.child(), heard)) as events:
            async for event in events:
                kind = event.get("event")
                if kind == "content-block-finish":
                    block = event["content"]
                    if block.get("type") == "tool_call" and block.get("name") in self.setup.eager:
                        self.start_eager(block, run)
                elif kind == RESET:
                    self.drop_eager()
                yield event

    def _conclude(self, response: ModelResponse) -> None:
        known = {one.id for one in self.thread.values["messages"]}
        messages = [
            _fresh(with_ids(one), known) if isinstance(one, AIMessage) else one
            for one in response.result
        ]
        update: dict[str, Any] = {"messages": messages}
        if response.structured_response is not None:
            update["structured_response"] = response.structured_response
        self.update = update

    @property
    def failures(self) -> int:
        """How many of the last answers in a row did not fit the response format."""
        count = 0
        for message in reversed(self.thread.values["messages"]):
            if message.additional_kwargs.get("foldline_misfit"):
                count += 1
            elif isinstance(message, HumanMessage):
                break
        return count


def _fresh(message: AIMessage, known: set[str | None]) -> AIMessage:
    """Give an answer an id that no earlier message has: it must not take that one's place."""
    if message.id and message.id not in known:
        return message
    if message.id:
        return message.model_copy(update={"id": f"{message.id}-{uuid4().hex[:12]}"})
    message.__dict__["id"] = fresh_id()
    return message


def _wrapped(name: str, wrap: Wrap, handler: Handler, run: Run) -> Handler:
    async def call(request: Json) -> Json:
        return response_of(await wrap(request, handler, run), name)

    return call


def _prompt(request: ModelRequest) -> list[BaseMessage]:
    if request.system_message is None:
        return request.messages
    return [request.system_message, *request.messages]


async def _events(
    bound: Runnable[Any, Any], prompt: list[BaseMessage], run: Run, heard: list[AIMessage]
) -> AsyncGenerator[Any, None]:
    model = bound
    while isinstance(model, RunnableBindingBase):
        binding: RunnableBindingBase[Any, Any] = model
        model, run = binding.bound, binding._bound_run(run)
    if isinstance(model, BaseChatModel):
        call = ChatCall(model, prompt, run, stream=True)
        call.emits_tokens = True
        async with aclosing(call.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event
        heard.append(cast("AIMessage", call.message))
        return
    try:
        stream = model._open_stream_v2(Opening(prompt, run))
    except UsageError:  # no model's stream at the end of it: ask for the whole
        heard.append(await model._step(prompt, run))
        for event in message_to_events(heard[0]):
            yield event
        return
    items: Any = iter(stream) if run.io.blocking else aiter(stream)
    async with aclosing(run.io.each(items)) as events:
        async for event in events:
            yield event
    heard.append(stream.output if run.io.blocking else await stream)


def _read(
    message: Any, reader: ToolReader | ProviderReader | None, step: ModelStep
) -> ModelResponse:
    """Read the structured answer out of a message, where the agent is to give one."""
    if not isinstance(message, AIMessage):
        raise UsageError(f"the model gave a {type(message).__name__}, not an AIMessage")
    if reader is None:
        return ModelResponse([message])
    message = with_ids(message)
    is_whole = message.status != "incomplete" and message.finish_reason not in (
        "length",
        "content_filter",
    )
    answered = reader.read(message) if is_whole or isinstance(reader, ProviderReader) else None
    if answered is None:
        return ModelResponse([message])
    if answered.error is not None:
        return _misfit(message, answered, reader, step.failures)
    return ModelResponse([message, *answered.messages], answered.value)


def _misfit(
    message: AIMessage, answered: Answered, reader: ToolReader | ProviderReader, failures: int
) -> ModelResponse:
    error = answered.error
    assert error is not None
    tells = bool(answered.messages) or isinstance(reader, ProviderReader)
    if not tells or failures + 1 >= MOST_ERRORS or message.finish_reason == "refusal":
        error.raw, error.partial = message, message
        raise error
    mark = {"foldline_misfit": True}
    if isinstance(reader, ProviderReader):
        said: list[Any] = [HumanMessage(f"{error}\nAnswer again.", additional_kwargs=mark)]
    else:
        said = [one.model_copy(update={"additional_kwargs": mark}) for one in answered.messages]
    return ModelResponse([message, *said])
