"""`CallListeners`: calls the handlers of a model call while it runs. A call without handlers has none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from foldline._run import Manager, Run
from foldline._streams.answer import Batch, CompleteAnswer
from foldline.callbacks.base import BaseCallbackHandler
from foldline.callbacks.dispatch import direct_hooks, hook_failed, listening, settled
from foldline.callbacks.mixins import Metadata
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.structured_format import StructuredFormat, describe_format
from foldline.load._lazy_dump import LazyDump
from foldline.messages import AIMessageChunk
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk
from foldline.outputs.chat_generation import piece_of
from foldline.tracers._streaming import StreamingHandler, V2StreamingHandler

__all__ = ["CallListeners"]

TOKEN = "on_llm_new_token"
Hooks = list[tuple[BaseCallbackHandler, Callable[..., Any]]]


class CallListeners:
    """The handlers of a call's run, and whether they need a stream, its events or its tokens."""

    __slots__ = (
        "_direct", "_emits_tokens", "_is_chunks", "_is_first", "_is_invoke", "_model", "_run", "_shows_events", "_view",
        "chunks",
        "tells_events", "tells_tokens",
    )  # fmt: skip

    def __init__(self, model: CallModel, run: Run, *, is_invoke: bool, emits_tokens: bool) -> None:
        self._model = model
        self._run = run
        self._is_invoke = is_invoke
        self._is_chunks = emits_tokens
        self._emits_tokens = emits_tokens
        self._shows_events = False
        self._view: ChunkView | None = None
        self._direct: _DirectTokens | None = None
        self._is_first = True
        """Whether there was no batch yet."""
        self.tells_events: bool = False
        self.tells_tokens: bool = False
        self.chunks: list[AIMessageChunk] = []
        """The chunks of the last batch that handlers got: the reader gets the same objects."""

    @property
    def need_events(self) -> bool:
        """Whether a handler needs single events."""
        return self.tells_events or self.tells_tokens

    def choose_stream(self, *, stream: bool, can_stream: bool) -> bool:
        """Return whether to request a stream: as the caller does, or under `invoke` for a handler that needs one."""
        if not self._is_invoke:
            return stream
        for handler in self._run.handlers:
            if isinstance(handler, V2StreamingHandler):
                self._shows_events = True
                return can_stream and self._may_stream()
            if isinstance(handler, StreamingHandler) and can_stream and self._may_stream():
                self._emits_tokens = stream = True
        return stream

    def _may_stream(self) -> bool:
        """Whether a handler may turn on streaming: not if the program set `streaming=False`."""
        model = self._model
        if model._streaming_disabled(self._run.kwargs):
            return False
        return "streaming" not in getattr(model, "model_fields_set", ()) or bool(
            getattr(model, "streaming", None)
        )

    def choose_events(self, *, stream: bool, generates: bool) -> None:
        """Set whether handlers get events or tokens: none of an answer that is not streamed.

        `on_stream_event` is called under `stream_v2`, and under `invoke` with a `V2StreamingHandler`; never under v1
        `stream()`, so that a handler with both hooks gets nothing twice.
        """
        if self._is_invoke and generates and not (stream or self._shows_events):
            return
        if self._is_invoke and stream and not self._shows_events:
            self._emits_tokens = True  # the model streams under `invoke` too (`streaming=True`)
        handlers = self._run.handlers
        if self._shows_events or not (self._is_invoke or self._is_chunks):
            self.tells_events = bool(listening(handlers, "on_stream_event"))
        wants_tokens = self._emits_tokens or any(
            isinstance(handler, StreamingHandler) for handler in handlers
        )
        self.tells_tokens = wants_tokens and bool(listening(handlers, TOKEN))
        if self.tells_tokens:
            self._view = ChunkView(self._model._output_version)

    def dispatch_start(
        self, request: ChatRequest, structured: StructuredFormat
    ) -> Awaitable[None] | None:
        """Dispatch the start of the call; return an awaitable where a handler takes time."""
        model, run = self._model, self._run
        stop, options = request.stop, request.options
        if run.manager is not None:  # a trace names the model, as in LangChain
            described = model._get_ls_params(stop, **options)
            run.manager = run.manager.with_metadata(cast("Metadata", described))
        details: dict[str, Any] = {
            "invocation_params": model._get_invocation_params(stop, **options),
            "options": {"stop": stop, **options},
            "name": run.call_config.get("run_name") or model.get_name(),
            "batch_size": 1,
        }
        if structured:
            details["options"] |= describe_format(structured)
        started = (LazyDump(model), [list(request.messages)])
        return run.begin_now("on_chat_model_start", started, details)

    def dispatch_batch(self, batch: Batch) -> Awaitable[None] | None:
        """Dispatch every event and its tokens; return an awaitable where a handler takes time."""
        # Looked up with the first batch, and not before: the start callback may still add handlers.
        if self._is_first:
            self._is_first = False
            if self._view is not None and not self.tells_events:
                self._direct = _DirectTokens.of(self._run, self._view)
        direct = None if type(batch) is CompleteAnswer and batch.has_tokens else self._direct
        if direct is None or (chunks := direct.dispatch_chunks(batch)) is None:
            return self._dispatch_batch(batch)
        self.chunks = chunks
        return direct.wait() if direct.waiting else None

    async def _dispatch_batch(self, batch: Batch) -> None:
        run, view = self._run, self._view
        if self.tells_events:
            for event in batch:
                await run.dispatch("on_stream_event", event)
        self.chunks = [] if view is None else view.show(batch)
        if type(batch) is CompleteAnswer and batch.has_tokens:
            return
        for chunk in self.chunks:
            await run.dispatch(TOKEN, str(chunk.text), chunk=ChatGenerationChunk._trusted(chunk))


class _DirectTokens:
    """Passes tokens to hooks that are plain functions, with nothing looked up for each."""

    __slots__ = ("_handlers", "_hooks", "_io", "_manager", "_run_id", "_show", "waiting")

    def __init__(self, run: Run, manager: Manager, view: ChunkView, hooks: Hooks) -> None:
        self._io = run.io
        self._run_id = run.id
        self._manager = manager
        self._handlers = manager.handlers
        self._hooks = hooks
        self._show = view.show
        self.waiting: list[tuple[BaseCallbackHandler, Awaitable[Any]]] = []
        """Awaitables that sync hooks returned, for an async call to await."""

    @classmethod
    def of(cls, run: Run, view: ChunkView) -> _DirectTokens | None:
        """Return the hooks of a run; None where one of them takes time."""
        manager = run.manager
        if manager is None or (hooks := direct_hooks(run.io, manager.handlers, TOKEN)) is None:
            return None
        return cls(run, manager, view, hooks)

    def dispatch_chunks(self, batch: Batch) -> list[AIMessageChunk] | None:
        """Dispatch the chunks of a batch, and return them; None where a hook has changed the handlers."""
        manager, run_id = self._manager, self._run_id
        # A hook may add a handler while the model answers: the list is then another one.
        if manager.handlers is not self._handlers:
            return None
        parent, tags = manager.parent_run_id, manager.tags
        chunks = self._show(batch)
        for chunk in chunks:
            piece = piece_of(chunk)
            text = content if type(content := chunk.content) is str else str(chunk.text)
            for handler, hook in self._hooks:
                try:
                    result = hook(
                        text, chunk=piece, run_id=run_id, parent_run_id=parent, tags=tags.copy()
                    )
                    if result is not None and (waiting := settled(self._io, result)) is not None:
                        self.waiting.append((handler, waiting))
                except Exception as error:  # noqa: BLE001  raised if the handler has `raise_error`
                    hook_failed(handler, TOKEN, error)
        return chunks

    async def wait(self) -> None:
        """Await the results of hooks."""
        waiting, self.waiting = self.waiting, []
        for handler, result in waiting:
            try:
                await result
            except Exception as error:  # noqa: BLE001  raised if the handler has `raise_error`
                hook_failed(handler, TOKEN, error)
