"""Which of its author's methods a chat model speaks through: native events, `_stream`, or `_generate`.

Looked up once per class. A method of the other colour is adapted: a blocking one runs in a thread under an async
call, an async one on a loop of its own under a blocking call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from weft._run import Run
from weft.exceptions import ModelError, StreamTruncatedError, UsageError
from weft.language_models._bridge import ChunkBridge
from weft.language_models._plain import name_message
from weft.language_models.request import ChatRequest
from weft.outputs import ChatGeneration, ChatResult
from weft.protocol.events import Event
from weft.protocol.replay import message_to_events
from weft.protocol.writer import EventWriter
from weft.utils.uuid import new_id

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

NATIVE = ("_stream_chat_model_events", "_astream_chat_model_events")
CHUNKS = ("_stream", "_astream")
WHOLE = ("_generate", "_agenerate")
HOOKS = frozenset({"_events", *NATIVE, *CHUNKS, *WHOLE})


class Written:
    """The hooks the author of a class wrote; pairs are (for blocking calls, for awaited calls)."""

    __slots__ = (
        "chunks",
        "generates",
        "has_events",
        "native",
        "postprocesses",
        "preprocesses",
        "speaks",
        "whole",
    )

    def __init__(self, names: set[str]) -> None:
        self.has_events = "_events" in names
        self.native = _twins(names, *NATIVE)
        self.chunks = _twins(names, *CHUNKS)
        self.whole = _twins(names, *WHOLE)
        self.speaks = self.has_events or bool(self.native[0] or self.chunks[0])
        """Whether the model can answer piece by piece."""
        self.generates = self.whole[0] is not None
        """Whether the model has a method that gives the whole answer."""
        self.preprocesses = "_preprocess" in names
        self.postprocesses = "_postprocess" in names


def _twins(names: set[str], blocking: str, awaited: str) -> tuple[str | None, str | None]:
    """Give the method to call in a blocking and in an awaited call: the one of that colour, else the other."""
    one, other = (name if name in names else None for name in (blocking, awaited))
    return one or other, other or one


@cache
def written_by(cls: type[Any]) -> Written:
    """Find the hooks that a class or its ancestors below `BaseChatModel` define."""
    names: set[str] = set()
    wanted = HOOKS | {"_preprocess", "_postprocess"}
    for ancestor in cls.__mro__:
        if (
            ancestor.__module__ == "weft.language_models.chat_models"
            and ancestor.__name__ == "BaseChatModel"
        ):
            break
        names |= wanted & ancestor.__dict__.keys()
    return Written(names)


def speak(model: BaseChatModel, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
    """Give the model's answer as events, from whichever hook its author wrote."""
    written, colour = written_by(type(model)), not run.io.blocking
    may_stream = request.stream or not written.generates
    if written.has_events and (may_stream or not written.whole[0]):
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
    return cast("ChatResult", result)


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
