"""Which of its author's methods a chat model speaks through: native events, `_stream`, or `_generate`.

Looked up once per class. A method of the other colour is adapted: a blocking one runs in a thread under an async
call, an async one on a loop of its own under a blocking call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from weft._run import Run
from weft.exceptions import StreamTruncatedError, UsageError
from weft.language_models._bridge import ChunkBridge
from weft.language_models.request import ChatRequest
from weft.outputs import ChatResult
from weft.protocol.events import Event
from weft.protocol.replay import message_to_events
from weft.protocol.writer import EventWriter

if TYPE_CHECKING:
    from weft.language_models.chat_models import BaseChatModel

HOOKS = (
    "_events",
    "_stream_chat_model_events",
    "_astream_chat_model_events",
    "_stream",
    "_astream",
    "_generate",
    "_agenerate",
    "_call",
)


@dataclass(frozen=True, slots=True)
class Written:
    """The hooks the author of a class wrote."""

    names: frozenset[str]

    @property
    def speaks(self) -> bool:
        """Whether the model can answer piece by piece."""
        return not self.names.isdisjoint(HOOKS[:5])

    @property
    def generates(self) -> bool:
        """Whether the model has a method that gives the whole answer."""
        return not self.names.isdisjoint(HOOKS[5:])

    def one_of(self, blocking: bool, twin: str, atwin: str) -> str | None:  # noqa: FBT001
        """Choose between two twins the one of the right colour, else the other."""
        first, second = (twin, atwin) if blocking else (atwin, twin)
        return first if first in self.names else second if second in self.names else None


@cache
def written_by(cls: type[Any]) -> Written:
    """Find the hooks that a class or its ancestors below `BaseChatModel` define."""
    names = set()
    for ancestor in cls.__mro__:
        if ancestor.__module__ == "weft.language_models.chat_models" and ancestor.__name__ == "BaseChatModel":
            break
        names |= {hook for hook in HOOKS if hook in ancestor.__dict__}
    return Written(frozenset(names))


def speak(model: BaseChatModel, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
    """Give the model's answer as events, from whichever hook its author wrote."""
    written = written_by(type(model))
    if "_events" in written.names:
        return model._events(request, run)
    native = written.one_of(run.io.blocking, "_stream_chat_model_events", "_astream_chat_model_events")
    if native:
        return _native(model, native, request, run)
    chunks = written.one_of(run.io.blocking, "_stream", "_astream")
    if chunks and request.stream:
        return _bridged(model, chunks, request, run)
    if written.generates or "_call" in written.names:
        return _replayed(model, request, run)
    if chunks:
        return _bridged(model, chunks, request, run)
    raise UsageError(
        f"{type(model).__name__} cannot answer: implement `_events`, `_stream` or `_generate` (docs/write-a-provider.md)"
    )


def _arguments(request: ChatRequest) -> dict[str, Any]:
    return {"stop": request.stop, **request.options}


async def _native(
    model: BaseChatModel, hook: str, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    events = getattr(model, hook)(request.messages, run_manager=None, **_arguments(request))
    async with aclosing(run.io.adapt(events)) as adapted:
        async for event in adapted:
            yield event


async def _bridged(
    model: BaseChatModel, hook: str, request: ChatRequest, run: Run
) -> AsyncGenerator[Event, None]:
    bridge = ChunkBridge(EventWriter(usage_mode="sum"))
    chunks = getattr(model, hook)(request.messages, **_arguments(request))
    async with aclosing(run.io.adapt(chunks)) as adapted:
        async for chunk in adapted:
            for event in bridge.feed(chunk):
                yield event
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
    """Give the model's whole answer from `_generate` or `_agenerate`."""
    hook = _whole_hook(type(model), run.io.blocking)
    arguments = {"stop": request.stop, "run_manager": run.run_manager("llm"), **request.options}
    if run.io.blocking:
        result = getattr(model, hook)(request.messages, **arguments)
        return await run.io.settle(result) if hook == "_agenerate" else result
    result = await run.io.call(getattr(model, hook), request.messages, **arguments)
    return result


@cache
def _whole_hook(cls: type[Any], blocking: bool) -> str:  # noqa: FBT001
    return written_by(cls).one_of(blocking, "_generate", "_agenerate") or "_generate"
