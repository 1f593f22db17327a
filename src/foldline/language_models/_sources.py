"""What a chat model says, as events, from whichever of its author's methods speaks.

A method of the other colour is adapted: a blocking one runs in a thread under an async call, an async one on a loop of
its own under a blocking call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

from foldline._run import Run
from foldline.exceptions import ModelError, StreamTruncatedError, UsageError
from foldline.language_models._bridge import ChunkBridge
from foldline.language_models._whole import generate, result_of
from foldline.language_models._written import written_by
from foldline.language_models.request import ChatRequest
from foldline.messages import AIMessage
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.replay import message_to_events
from foldline.protocol.writer import EventWriter

if TYPE_CHECKING:
    from foldline.language_models.chat_models import BaseChatModel


def speak(model: BaseChatModel, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
    """Give the model's answer as events, from whichever hook its author wrote."""
    written, colour = written_by(type(model)), not run.io.blocking
    may_stream = request.stream or not written.generates
    if written.has_events and may_stream:
        return model._events(request, run)
    if (native := written.native[colour]) and may_stream:
        return _native(model, native, request, run)
    if (chunks := written.chunks[colour]) and may_stream:
        return _bridged(model, chunks, request, run)
    if written.generates:
        return _replayed(model, request, run)
    raise UsageError(
        f"{type(model).__name__} cannot answer: implement `_events`, `_stream` or `_generate` "
        "(docs/write-a-provider.md)"
    )


async def speak_whole(
    model: BaseChatModel, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    """Give the answer at once to who streams a model that is told not to (`disable_streaming`, T92)."""
    builder = MessageBuilder(model._fold_limits)
    heard: list[Event] = []
    try:
        async with aclosing(speak(model, request, run)) as events:
            async for event in events:
                heard.append(event)
                builder.feed(event)
    except ModelError as error:  # nothing was delivered: what was said goes with the error
        partial = AIMessage.from_fold(builder.result(partial=True), model._output_version)
        error.partial = error.partial or partial
        raise
    if not builder.is_finished:  # ended early, or by an error: told as it was
        for event in heard:
            yield event
        return
    for event in message_to_events(AIMessage.from_fold(builder.result(), model._output_version)):
        yield event


def derived_events(
    model: BaseChatModel, request: ChatRequest, run: Run, hook: str
) -> AsyncGenerator[Event, None]:
    """Give the events behind `super()._stream(...)` of a subclass whose parent speaks in `_events`."""
    if not written_by(type(model)).says_events:
        raise NotImplementedError(f"{type(model).__name__} has no `{hook}`")
    return model._events(request, run)


async def derived_chunks(
    model: BaseChatModel, request: ChatRequest, run: Run, hook: str
) -> AsyncGenerator[ChatGenerationChunk, None]:
    """Give those events as v1 chunks."""
    view = ChunkView(model._output_version)
    async with aclosing(derived_events(model, request, run, hook)) as events:
        async for event in events:
            chunk = view.feed(event)
            if chunk is not None:
                yield ChatGenerationChunk._trusted(chunk)


async def derived_result(
    model: BaseChatModel, request: ChatRequest, run: Run, hook: str
) -> ChatResult:
    """Fold those events."""
    builder = MessageBuilder(model._fold_limits)
    async with aclosing(derived_events(model, request, run, hook)) as events:
        async for event in events:
            builder.feed(event)
    return result_of(AIMessage.from_fold(builder.result(), model._output_version))


def _arguments(request: ChatRequest) -> dict[str, Any]:
    return {"stop": request.stop, **request.options}


async def _native(
    model: BaseChatModel, hook: str, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    events = getattr(model, hook)(request.messages, **_arguments(request))
    if run.io.blocking and isinstance(events, Generator):
        with closing(events):  # two layers less than `adapt` for the plain case
            for event in events:
                yield event
        return
    async with aclosing(run.io.adapt(events)) as adapted:
        async for event in adapted:
            yield event


async def _bridged(
    model: BaseChatModel, hook: str, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    writer = EventWriter(usage_mode=model._usage_mode)
    bridge = ChunkBridge(writer)
    chunks = getattr(model, hook)(request.messages, **_arguments(request))
    try:
        if run.io.blocking and isinstance(chunks, Generator):
            with closing(chunks):
                for chunk in chunks:
                    for event in bridge.feed(chunk):
                        yield event
        else:
            async with aclosing(run.io.adapt(chunks)) as adapted:
                async for chunk in adapted:
                    for event in bridge.feed(chunk):
                        yield event
    except BaseException:
        request.note(usage=writer.usage_so_far, metadata=writer.metadata_so_far)
        raise
    if bridge.is_empty:
        raise StreamTruncatedError(f"{hook} gave no chunk at all", is_retryable=False)
    for event in bridge.end():
        yield event


async def _replayed(
    model: BaseChatModel, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    result = await generate(model, request, run)
    for event in message_to_events(result.generations[0].message):
        yield event
