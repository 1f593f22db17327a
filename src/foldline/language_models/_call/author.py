"""`Author`: the methods that the author of a model class wrote, and their answer as batches of events.

An author writes one of `_events` (native, best), `_stream_chat_model_events`, `_stream`, `_generate`, or an async
version. A method of the other mode is adapted: a sync one runs in a thread under an async call, an async one on a
separate loop under a sync call. Which methods a class has is looked up once (`BaseChatModel._author`); a class in
AIGNE's style has a `RecordAuthor`, which lies above the call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from typing import Any, Final, TypeAlias

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer, chat_result
from foldline._streams.bounds import attach_partial
from foldline.callbacks.manager import TokenState
from foldline.exceptions import EmptyStreamError, ModelError, UsageError
from foldline.language_models._call.bridge import ChunkBridge
from foldline.language_models._call.llm_output import llm_output_of
from foldline.language_models._call.model import CallModel, setting_of
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.writer import EventWriter
from foldline.utils._author_arguments import passes_argument
from foldline.utils.uuid import id_text, new_id

__all__ = [
    "ANSWERING",
    "Author",
    "ByMode",
    "Positions",
    "Source",
    "by_mode",
    "fold_source",
    "inherited_chunks",
    "inherited_result",
    "method_arguments",
    "run_message_id",
]

NATIVE: Final = ("_stream_chat_model_events", "_astream_chat_model_events")
CHUNKS: Final = ("_stream", "_astream")
GENERATE: Final = ("_generate", "_agenerate")
STREAMING: Final = ("_events", *NATIVE, *CHUNKS)
ANSWERING: Final = (*STREAMING, *GENERATE)
ASYNC_HOOKS: Final = frozenset({NATIVE[1], CHUNKS[1], GENERATE[1]})

Positions: TypeAlias = Mapping[str, int]
"""Methods that authors of a class and of its ancestors wrote -> the position of their class in the MRO."""
ByMode: TypeAlias = tuple[str | None, str | None]
"""The method for sync calls and the one for async calls."""
Source: TypeAlias = AsyncGenerator[Event | Batch, None]
"""An author's generator: of events, or of batches of them."""


class Author:
    """The methods that the author of a class wrote, and which of them answers."""

    __slots__ = (
        "chunks",
        "defines_events",
        "generates",
        "generating",
        "has_events",
        "native",
        "postprocesses",
        "preprocesses",
        "streams",
    )

    def __init__(self, positions: Positions) -> None:
        """Choose by the positions in the MRO: methods of a subclass are nearer than those it inherits."""
        # A subclass that overrides `_stream` means it, although its parent has `_events`.
        nearest = min((positions[name] for name in STREAMING if name in positions), default=None)
        nearest_methods = {
            name for name in STREAMING if positions.get(name) == nearest and nearest is not None
        }
        is_native = not nearest_methods.isdisjoint(NATIVE)
        self.defines_events: bool = "_events" in positions
        self.has_events: bool = "_events" in nearest_methods
        """Whether `_events` is the method that streams."""
        uses_native = not self.has_events and is_native
        self.native: ByMode = by_mode(positions, *NATIVE) if uses_native else (None, None)
        uses_chunks = not self.has_events and not is_native
        self.chunks: ByMode = by_mode(positions, *CHUNKS) if uses_chunks else (None, None)
        self.generating: ByMode = by_mode(positions, *GENERATE)
        self.streams: bool = nearest is not None
        """Whether the model can stream its answer."""
        generate_position = min(
            (positions[name] for name in GENERATE if name in positions), default=None
        )
        is_older = (
            self.has_events
            and generate_position is not None
            and positions["_events"] < generate_position
        )
        self.generates: bool = generate_position is not None and not is_older
        """Whether the model has a method that returns the complete answer, and no newer `_events`."""
        self.preprocesses: bool = "_preprocess" in positions
        self.postprocesses: bool = "_postprocess" in positions

    async def preprocess(self, model: CallModel, request: ChatRequest, run: Run) -> ChatRequest:
        """Return the request as the author changes it; called if it `preprocesses`."""
        return await model._preprocess(request, run)

    async def postprocess(
        self, model: CallModel, request: ChatRequest, result: ChatResult, run: Run
    ) -> ChatResult:
        """Return the answer as the author changes it; called if it `postprocesses`."""
        return await model._postprocess(request, result, run)

    def input_tokens(self, model: CallModel, request: ChatRequest) -> int:
        """Return the tokens of what is sent for a request."""
        return model.count_tokens(request.messages, request.tools).n

    def output_limit(self, model: CallModel, request: ChatRequest) -> int | None:
        """Return the tokens that the answer has at most; None if nothing limits it."""
        limit = request.options.get("max_tokens") or setting_of(model, "max_tokens")
        return limit if isinstance(limit, int) else None

    def events(self, model: CallModel, request: ChatRequest, run: Run) -> Source:
        """Return the answer as events, from the method that the author wrote."""
        mode = not run.io.blocking
        may_stream = request.stream or not self.generates
        if self.has_events and may_stream:
            return model._events(request, run)
        if (native := self.native[mode]) and may_stream:
            return _native_events(model, native, request, run)
        if (chunks := self.chunks[mode]) and may_stream:
            return _chunk_events(model, chunks, request, run)
        if self.generates:
            return self._generate_events(model, request, run)
        raise UsageError(
            f"{type(model).__name__} cannot answer: implement `_events`, `_stream`, `_generate` or `process` "
            "(docs/write-a-provider.md)"
        )

    async def complete_events(self, model: CallModel, request: ChatRequest, run: Run) -> Source:
        """Return the answer as one batch: the caller streams but the model may not (`disable_streaming`, T92)."""
        builder = MessageBuilder(model._fold_limits)
        received: list[Event] = []
        try:
            async with aclosing(self.events(model, request, run)) as source:
                async for item in source:
                    batch = [item] if isinstance(item, dict) else item
                    received += batch
                    for event in batch:
                        builder.feed(event)
        except Exception as error:  # nothing was delivered: the error carries the partial answer
            partial = AIMessage.from_fold(builder.result(partial=True), model._output_version)
            attach_partial(error, partial)
            raise
        if not builder.is_finished:  # ended early, or by an error: passed on unchanged
            if received:
                yield received
            return
        message = AIMessage.from_fold(builder.result(), model._output_version)
        yield CompleteAnswer(chat_result(message))

    async def _generate_events(self, model: CallModel, request: ChatRequest, run: Run) -> Source:
        yield await self.generate(model, request, run)

    async def generate(self, model: CallModel, request: ChatRequest, run: Run) -> CompleteAnswer:
        """Call `_generate` or `_agenerate`; every message of the result has an id."""
        is_sync = run.io.blocking
        hook = self.generating[not is_sync] or "_generate"
        # The author may call `on_llm_new_token` itself: then handlers have had their tokens.
        tokens = TokenState()
        method, arguments = (
            getattr(model, hook),
            method_arguments(model, hook, request, run, tokens),
        )
        result: Any
        if is_sync:
            result = method(request.messages, **arguments)
            if hook == "_agenerate":
                result = await run.io.settle(result)
        else:
            result = await run.io.call(method, request.messages, **arguments)
        if (
            type(result) is not ChatResult and not isinstance(result, ChatResult)
        ) or not result.generations:
            raise ModelError(
                f"{type(model).__name__}.{hook} returned no generation, but {result!r:.80}"
            )
        shared = _shared_metadata(result)
        for index, generation in enumerate(result.generations):
            message = generation.message
            if message.id is None:
                _set_id(message, f"{run_message_id(run)}-{index}")
            metadata = {**shared, **(generation.generation_info or {})}
            if metadata:  # for what the message itself lacks (T64)
                message.response_metadata = {**metadata, **message.response_metadata}
        return CompleteAnswer(result, has_tokens=tokens.has_tokens, is_generated=True)


def by_mode(positions: Positions, sync_name: str, async_name: str) -> ByMode:
    """Return which of two methods serves sync calls, and which async ones."""
    sync_method, async_method = (
        name if name in positions else None for name in (sync_name, async_name)
    )
    return sync_method or async_method, async_method or sync_method


async def _native_events(model: CallModel, hook: str, request: ChatRequest, run: Run) -> Source:
    arguments = method_arguments(model, hook, request, run)
    events = getattr(model, hook)(request.messages, **arguments)
    if run.io.blocking and isinstance(events, Generator):
        with closing(events):  # two layers less than `adapt` for the plain case
            for event in events:
                yield event
        return
    async with aclosing(run.io.adapt(events)) as adapted:
        async for event in adapted:
            yield event


async def _chunk_events(model: CallModel, hook: str, request: ChatRequest, run: Run) -> Source:
    writer = EventWriter(usage_mode=model._usage_mode)
    bridge = ChunkBridge(writer)
    arguments = method_arguments(model, hook, request, run)
    chunks = getattr(model, hook)(request.messages, **arguments)
    try:
        if run.io.blocking and isinstance(chunks, Generator):
            with closing(chunks):
                for chunk in chunks:
                    batch = bridge.feed(chunk)
                    if batch and not (bridge.is_last and bridge.hold(batch)):
                        yield batch
        else:
            async with aclosing(run.io.adapt(chunks)) as adapted:
                async for chunk in adapted:
                    batch = bridge.feed(chunk)
                    if batch and not (bridge.is_last and bridge.hold(batch)):
                        yield batch
    except BaseException as error:
        # What had come until then belongs to the partial message, and was charged.
        request.note(usage=writer.usage_so_far, metadata=writer.metadata_so_far)
        # The last chunk was held back for the end, which will not come: its content is delivered with the error.
        if bridge.pending and isinstance(error, Exception):
            yield bridge.pending
        raise
    # In LangChain's words, which programs look for.
    if bridge.is_empty:
        raise EmptyStreamError(
            f"{hook} yielded no chunk at all: No generation chunks were returned",
            is_retryable=False,
        )
    yield bridge.pending + bridge.end()


def _shared_metadata(result: ChatResult) -> dict[str, Any]:
    """Return what a result says of every message: the model's name; the bill only if it is of one message."""
    output = result.llm_output or {}
    # The bill is of all together: said by each, it would be added up several times.
    if len(result.generations) == 1:
        return output
    return {key: value for key, value in output.items() if key != "token_usage"}


def method_arguments(
    model: CallModel, hook: str, request: ChatRequest, run: Run, tokens: TokenState | None = None
) -> dict[str, Any]:
    """Return the arguments of an author's method; the run manager is of the method's mode, if it takes one."""
    arguments: dict[str, Any] = {"stop": request.stop, **request.options}
    if passes_argument(type(model), hook, "run_manager"):
        manager: Any = run.run_manager("llm", is_async=hook in ASYNC_HOOKS)
        if run.manager is not None:
            manager.tokens = tokens or TokenState(is_ignored=request.emits_tokens)
        arguments["run_manager"] = manager
    return arguments


def _set_id(message: BaseMessage, id: str) -> None:
    """Set a message's id, without validation if its class allows it."""
    if type(message) is AIMessage:
        message.__dict__["id"] = id
        message.__pydantic_fields_set__.add("id")
    else:
        message.id = id


def run_message_id(run: Run) -> str:
    """Return the id of a message whose provider sent none: that of its run."""
    return f"lc_run--{new_id() if run.id is None else id_text(run.id.int)}"


# -- `super()._stream(...)` of a subclass whose parent implements `_events`


def _inherited_events(model: CallModel, request: ChatRequest, run: Run, hook: str) -> Source:
    if not model._author.defines_events:
        raise NotImplementedError(f"{type(model).__name__} has no `{hook}`")
    return model._events(request, run)


async def inherited_chunks(
    model: CallModel, request: ChatRequest, run: Run, hook: str
) -> AsyncGenerator[ChatGenerationChunk, None]:
    """Yield the events of a parent's `_events` as v1 chunks."""
    view = ChunkView(model._output_version)
    async with aclosing(_inherited_events(model, request, run, hook)) as source:
        async for item in source:
            for event in (item,) if isinstance(item, dict) else item:
                chunk = view.feed(event)
                if chunk is not None:
                    yield ChatGenerationChunk._trusted(chunk)


async def inherited_result(
    model: CallModel, request: ChatRequest, run: Run, hook: str
) -> ChatResult:
    """Fold the events of a parent's `_events`."""
    result = chat_result(await fold_source(model, _inherited_events(model, request, run, hook)))
    result.llm_output = llm_output_of(result)
    return result


async def fold_source(model: CallModel, source: Source) -> AIMessage:
    """Read a source to its end; return its message."""
    builder = MessageBuilder(model._fold_limits)
    async with aclosing(source):
        async for item in source:
            for event in (item,) if isinstance(item, dict) else item:
                builder.feed(event)
    return AIMessage.from_fold(builder.result(), model._output_version)
