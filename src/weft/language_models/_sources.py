"""Which of its author's methods a chat model speaks through: native events, `_stream`, or `_generate`.

Looked up once per class. A method of the other colour is adapted: a blocking one runs in a thread under an async
call, an async one on a loop of its own under a blocking call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from functools import cache
from typing import TYPE_CHECKING, Any

from weft._run import Run
from weft.exceptions import ModelError, StreamTruncatedError, UsageError
from weft.language_models._bridge import ChunkBridge
from weft.language_models._plain import name_message, result_of
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.messages._view import ChunkView
from weft.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from weft.protocol.events import Event
from weft.protocol.fold import MessageBuilder
from weft.protocol.replay import message_to_events
from weft.protocol.writer import EventWriter
from weft.utils.uuid import new_id

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

NATIVE = ("_stream_chat_model_events", "_astream_chat_model_events")
CHUNKS = ("_stream", "_astream")
WHOLE = ("_generate", "_agenerate")
SPOKEN = ("_events", *NATIVE, *CHUNKS)
HOOKS = frozenset({*SPOKEN, *WHOLE})


class Written:
    """The hooks the author of a class wrote; pairs are (for blocking calls, for awaited calls)."""

    __slots__ = (
        "chunks",
        "generates",
        "has_events",
        "native",
        "postprocesses",
        "preprocesses",
        "says_events",
        "speaks",
        "whole",
    )

    def __init__(self, places: dict[str, int]) -> None:
        """Choose by the places of the hooks in the ancestry: what a subclass wrote is nearer than what it inherits."""
        nearest = min((places[name] for name in SPOKEN if name in places), default=None)
        near = {name for name in SPOKEN if places.get(name) == nearest and nearest is not None}
        spoken = "_events" if "_events" in near else NATIVE if near & set(NATIVE) else CHUNKS
        self.says_events = "_events" in places
        self.has_events = spoken == "_events"
        self.native = _twins(places, *NATIVE) if spoken == NATIVE else (None, None)
        self.chunks = _twins(places, *CHUNKS) if spoken == CHUNKS else (None, None)
        self.whole = _twins(places, *WHOLE)
        self.speaks = nearest is not None
        """Whether the model can answer piece by piece."""
        whole = min((places[name] for name in WHOLE if name in places), default=None)
        is_older = self.has_events and whole is not None and places["_events"] < whole
        self.generates = whole is not None and not is_older
        """Whether the model has a method that gives the whole answer, and no newer events to fold."""
        self.preprocesses = "_preprocess" in places
        self.postprocesses = "_postprocess" in places


def _twins(places: dict[str, int], blocking: str, awaited: str) -> tuple[str | None, str | None]:
    """Give the method to call in a blocking and in an awaited call: the one of that colour, else the other."""
    one, other = (name if name in places else None for name in (blocking, awaited))
    return one or other, other or one


@cache
def written_by(cls: type[Any]) -> Written:
    """Find the hooks that a class or its ancestors below `BaseChatModel` define."""
    places: dict[str, int] = {}
    wanted = HOOKS | {"_preprocess", "_postprocess"}
    for place, ancestor in enumerate(cls.__mro__):
        module, name = ancestor.__module__, ancestor.__name__
        if module == "weft.language_models.chat_models" and name == "BaseChatModel":
            break
        for hook in wanted & ancestor.__dict__.keys():
            places.setdefault(hook, place)
    return Written(places)


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
    builder = MessageBuilder()
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
    builder = MessageBuilder()
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


async def generate(model: BaseChatModel, request: ChatRequest, run: Run) -> ChatResult:
    """Give the model's whole answer from `_generate` or `_agenerate`; every message has an id."""
    is_blocking = run.io.blocking
    hook = written_by(type(model)).whole[not is_blocking] or "_generate"
    manager, method = run.run_manager("llm"), getattr(model, hook)
    result: Any
    if is_blocking:
        result = method(request.messages, stop=request.stop, run_manager=manager, **request.options)
        if hook == "_agenerate":
            result = await run.io.settle(result)
    else:
        result = await run.io.call(
            method, request.messages, stop=request.stop, run_manager=manager, **request.options
        )
    if (
        type(result) is not ChatResult and not isinstance(result, ChatResult)
    ) or not result.generations:
        raise ModelError(f"{type(model).__name__}.{hook} gave no generation, but {result!r:.80}")
    for place, generation in enumerate(result.generations):
        _complete(generation, place, run)
    return result


def _complete(generation: ChatGeneration, place: int, run: Run) -> None:
    """Give a generated message an id, and its generation's metadata where it has none of its own (T64)."""
    message = generation.message
    if message.id is None:
        name_message(message, f"{run_message_id(run)}-{place}")
    if generation.generation_info:
        message.response_metadata = {**generation.generation_info, **message.response_metadata}


def run_message_id(run: Run) -> str:
    """Give the id of a message whose provider gave none: that of its run."""
    return f"lc_run--{run.id or new_id()}"
