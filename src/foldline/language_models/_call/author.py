"""Selects the author's method that answers a request, and returns its answer as batches of events.

An author writes one of `_events` (native, best), `_stream_chat_model_events`, `_stream`, `_generate`, or an async
version; or `process` in AIGNE's style. A method of the other mode is adapted: a sync one runs in a thread under an
async call, an async one on a separate loop under a sync call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from functools import cache
from typing import Any

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer, chat_result
from foldline._streams.bounds import attach_partial
from foldline.callbacks.manager import TokenState
from foldline.exceptions import EmptyStreamError, ModelError, UsageError
from foldline.language_models._call.bridge import ChunkBridge
from foldline.language_models._call.llm_output import llm_output_of
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.records.author_records import process_events, request_of
from foldline.language_models.records.records import (
    ChatModelInput,
    ChatModelOutput,
    input_of,
    output_of,
)
from foldline.messages import AIMessage, BaseMessage
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.writer import EventWriter
from foldline.utils.author_arguments import passes_argument
from foldline.utils.uuid import id_text, new_id

__all__ = [
    "AuthorHooks",
    "author_events",
    "author_hooks",
    "call_process",
    "generate_answer",
    "inherited_chunks",
    "inherited_result",
    "run_message_id",
]

NATIVE = ("_stream_chat_model_events", "_astream_chat_model_events")
CHUNKS = ("_stream", "_astream")
GENERATE = ("_generate", "_agenerate")
STREAMING = ("_events", *NATIVE, *CHUNKS)
PROCESS = ("process", "aprocess")
RECORD_HOOKS = ("preprocess", "postprocess")
ASYNC_HOOKS = frozenset({NATIVE[1], CHUNKS[1], GENERATE[1]})
HOOKS = frozenset({*STREAMING, *GENERATE, *PROCESS, *RECORD_HOOKS, "_preprocess", "_postprocess"})
BASES = frozenset(
    {
        ("foldline.language_models.base_chat_model", "BaseChatModel"),
        ("foldline.language_models.records.chat_model", "ChatModel"),
    }
)
"""The classes at which the search for an author's methods ends."""

ByMode = tuple[str | None, str | None]
"""The method for sync calls and the one for async calls."""
Source = AsyncGenerator[Event | Batch, None]
"""An author's generator: of events, or of batches of them."""


# -- which methods there are, looked up once per class


class AuthorHooks:
    """The methods that the author of a class defined."""

    __slots__ = (
        "below_process",
        "chunks",
        "defines_events",
        "generate",
        "generates",
        "has_events",
        "native",
        "postprocesses",
        "preprocesses",
        "process",
        "record_postprocesses",
        "record_preprocesses",
        "streams",
    )

    def __init__(self, positions: dict[str, int]) -> None:
        """Choose by the positions in the MRO: methods of a subclass are nearer than those it inherits."""
        self.below_process: AuthorHooks = self
        """The methods that `super().process(...)` calls."""
        self.process: ByMode = (None, None)
        """`process`, if it is nearer than all of LangChain's methods."""
        if _is_answered_by_process(positions):
            self.process = _by_mode(positions, *PROCESS)
            positions = {
                name: position for name, position in positions.items() if name not in PROCESS
            }
            self.below_process = AuthorHooks(positions)
            answering = {*STREAMING, *GENERATE}
            positions = {
                name: position for name, position in positions.items() if name not in answering
            }
        nearest = min((positions[name] for name in STREAMING if name in positions), default=None)
        nearest_methods = {
            name for name in STREAMING if positions.get(name) == nearest and nearest is not None
        }
        is_native = not nearest_methods.isdisjoint(NATIVE)
        self.defines_events: bool = "_events" in positions
        self.has_events: bool = "_events" in nearest_methods
        """Whether `_events` is the method that streams."""
        uses_native = not self.has_events and is_native
        self.native: ByMode | tuple[None, None] = (
            _by_mode(positions, *NATIVE) if uses_native else (None, None)
        )
        uses_chunks = not self.has_events and not is_native
        self.chunks: ByMode | tuple[None, None] = (
            _by_mode(positions, *CHUNKS) if uses_chunks else (None, None)
        )
        self.generate: ByMode = _by_mode(positions, *GENERATE)
        self.streams: bool = nearest is not None or self.process != (None, None)
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
        self.record_preprocesses: bool = "preprocess" in positions
        self.record_postprocesses: bool = "postprocess" in positions


def _is_answered_by_process(positions: dict[str, int]) -> bool:
    """Return whether `process` answers: it does not if its class also defines one of LangChain's methods."""
    process = min((positions[name] for name in PROCESS if name in positions), default=None)
    langchain_methods = min(
        (positions[name] for name in (*STREAMING, *GENERATE) if name in positions), default=None
    )
    return process is not None and (langchain_methods is None or process < langchain_methods)


def _by_mode(positions: dict[str, int], sync_name: str, async_name: str) -> ByMode:
    sync_method, async_method = (
        name if name in positions else None for name in (sync_name, async_name)
    )
    return sync_method or async_method, async_method or sync_method


@cache
def author_hooks(cls: type[Any]) -> AuthorHooks:
    """Return the methods that a class or its ancestors below `BaseChatModel` and `ChatModel` define."""
    positions: dict[str, int] = {}
    for position, ancestor in enumerate(cls.__mro__):
        if (ancestor.__module__, ancestor.__name__) in BASES:
            break
        for hook in HOOKS & ancestor.__dict__.keys():
            positions.setdefault(hook, position)
    return AuthorHooks(positions)


# -- calling the author's method


def author_events(
    model: CallModel, request: ChatRequest, run: Run, *, as_one_batch: bool = False
) -> Source:
    """Return the model's answer as events, from the method that its author wrote.

    `as_one_batch`: the caller streams but the model may not (`disable_streaming`, T92).
    """
    if as_one_batch:
        return _buffered_events(model, request, run)
    hooks, mode = author_hooks(type(model)), not run.io.blocking
    if process := hooks.process[mode]:
        return process_events(getattr(model, process), model._model_name, request, run)
    return _events_of(model, hooks, request, run)


def _events_of(model: CallModel, hooks: AuthorHooks, request: ChatRequest, run: Run) -> Source:
    mode = not run.io.blocking
    may_stream = request.stream or not hooks.generates
    if hooks.has_events and may_stream:
        return model._events(request, run)
    if (native := hooks.native[mode]) and may_stream:
        return _native_events(model, native, request, run)
    if (chunks := hooks.chunks[mode]) and may_stream:
        return _chunk_events(model, chunks, request, run)
    if hooks.generates:
        return _generate_events(model, request, run)
    raise UsageError(
        f"{type(model).__name__} cannot answer: implement `_events`, `_stream`, `_generate` or `process` "
        "(docs/write-a-provider.md)"
    )


async def _buffered_events(model: CallModel, request: ChatRequest, run: Run) -> Source:
    builder = MessageBuilder(model._fold_limits)
    received: list[Event] = []
    try:
        async with aclosing(author_events(model, request, run)) as source:
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
    yield CompleteAnswer(chat_result(AIMessage.from_fold(builder.result(), model._output_version)))


async def _native_events(model: CallModel, hook: str, request: ChatRequest, run: Run) -> Source:
    arguments = _arguments(model, hook, request, run)
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
    arguments = _arguments(model, hook, request, run)
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
        request.note(usage=writer.usage_so_far, metadata=writer.metadata_so_far)
        if bridge.pending and isinstance(error, Exception):
            yield bridge.pending
        raise
    if bridge.is_empty:
        raise EmptyStreamError(
            f"{hook} yielded no chunk at all: No generation chunks were returned",
            is_retryable=False,
        )
    yield bridge.pending + bridge.end()


async def _generate_events(model: CallModel, request: ChatRequest, run: Run) -> Source:
    yield await generate_answer(model, request, run)


async def generate_answer(model: CallModel, request: ChatRequest, run: Run) -> CompleteAnswer:
    """Call `_generate` or `_agenerate`; every message of the result has an id."""
    is_sync = run.io.blocking
    hook = author_hooks(type(model)).generate[not is_sync] or "_generate"
    tokens = TokenState()
    method, arguments = getattr(model, hook), _arguments(model, hook, request, run, tokens)
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


def _shared_metadata(result: ChatResult) -> dict[str, Any]:
    """Return what a result says of every message: the model's name; the bill only if it is of one message."""
    output = result.llm_output or {}
    if len(result.generations) == 1:
        return output
    return {key: value for key, value in output.items() if key != "token_usage"}


def _arguments(
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
    if not author_hooks(type(model)).defines_events:
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
    builder = MessageBuilder(model._fold_limits)
    async with aclosing(_inherited_events(model, request, run, hook)) as source:
        async for item in source:
            for event in (item,) if isinstance(item, dict) else item:
                builder.feed(event)
    result = chat_result(AIMessage.from_fold(builder.result(), model._output_version))
    result.llm_output = llm_output_of(result)
    return result


# -- `super().process(...)` of a subclass whose parent implements one of LangChain's methods


async def call_process(
    model: CallModel,
    record: ChatModelInput | Mapping[str, Any],
    options: Mapping[str, Any] | None,
    run: Run,
) -> ChatModelOutput:
    """Call a model once, by the methods below `process`: no policies, no retries."""
    request = request_of(model, input_of(record), ChatRequest([]))
    request.options = {
        **{k: v for k, v in (options or {}).items() if k != "stream"},
        **request.options,
    }
    builder = MessageBuilder(model._fold_limits)
    hooks = author_hooks(type(model)).below_process
    async with aclosing(_events_of(model, hooks, request, run)) as source:
        async for item in source:
            for event in (item,) if isinstance(item, dict) else item:
                builder.feed(event)
    return output_of(AIMessage.from_fold(builder.result(), model._output_version))
