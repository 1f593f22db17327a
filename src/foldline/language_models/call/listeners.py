"""`CallListeners`: who listens to a call, and what they are told of it while it runs. A call without any has none."""

from __future__ import annotations

from foldline._run import Run
from foldline.callbacks.dispatch import listening
from foldline.language_models.call.batch import Batch
from foldline.language_models.call.model import CallModel
from foldline.language_models.call.request import ChatRequest
from foldline.load import dumpd
from foldline.messages import AIMessageChunk
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGenerationChunk
from foldline.tracers._streaming import StreamingHandler, V2StreamingHandler

__all__ = ["CallListeners"]


class CallListeners:
    """The handlers of a call's run: whether they want a stream, its events or its tokens."""

    __slots__ = (
        "_emits_tokens", "_is_invoke", "_model", "_run", "_shows_events", "_view", "chunks", "tells_events",
        "tells_tokens",
    )  # fmt: skip

    def __init__(self, model: CallModel, run: Run, *, is_invoke: bool, emits_tokens: bool) -> None:
        self._model = model
        self._run = run
        self._is_invoke = is_invoke
        self._emits_tokens = emits_tokens
        self._shows_events = False
        self._view: ChunkView | None = None
        self.tells_events = False
        self.tells_tokens = False
        self.chunks: list[AIMessageChunk] = []
        """The chunks of the last batch of which handlers were told: the reader gets the same."""

    @property
    def hear_events(self) -> bool:
        """Whether anybody wants to hear of single events."""
        return self.tells_events or self.tells_tokens

    def choose_stream(self, *, stream: bool, can_stream: bool) -> bool:
        """Return whether to ask for a stream: as the caller does, or under `invoke` where a handler shows one."""
        if not self._is_invoke or self._model._streaming_disabled(self._run.kwargs):
            return stream
        handlers = self._run.handlers
        if any(isinstance(handler, V2StreamingHandler) for handler in handlers):
            self._shows_events = True
            return can_stream
        if can_stream and any(isinstance(handler, StreamingHandler) for handler in handlers):
            self._emits_tokens = True
            return True
        return stream

    def choose_events(self, *, stream: bool, generates: bool) -> None:
        """Find out who wants to hear of single events: of an answer that comes whole, nobody."""
        if self._is_invoke and generates and not (stream or self._shows_events):
            return
        if self._is_invoke and stream and not self._shows_events:
            self._emits_tokens = True  # the model streams under `invoke` too (`streaming=True`)
        handlers = self._run.handlers
        self.tells_events = bool(listening(handlers, "on_stream_event"))
        wants_tokens = self._emits_tokens or any(
            isinstance(handler, StreamingHandler) for handler in handlers
        )
        self.tells_tokens = wants_tokens and bool(listening(handlers, "on_llm_new_token"))
        if self.tells_tokens:
            self._view = ChunkView(self._model._output_version)

    async def tell_start(self, request: ChatRequest) -> None:
        """Tell that the call starts."""
        model, run = self._model, self._run
        if run.manager is not None:  # a trace shows which model it was, as LangChain's do
            run.manager = run.manager.copy()
            run.manager.add_metadata(
                dict(model._get_ls_params(request.stop, **request.options)), inherit=False
            )
        await run.begin(
            "llm",
            "on_chat_model_start",
            dumpd(model),
            [list(request.messages)],
            invocation_params=model._get_invocation_params(request.stop, **request.options),
            options={"stop": request.stop, **request.options},
            name=run.get("run_name") or model.get_name(),
            batch_size=1,
        )

    async def tell_batch(self, batch: Batch) -> None:
        """Tell of every event, and of the tokens that show it."""
        run, view, self.chunks = self._run, self._view, []
        for event in batch:
            if self.tells_events:
                await run.tell("on_stream_event", event)
            chunk = None if view is None else view.feed(event)
            if chunk is not None:
                self.chunks.append(chunk)
                generation = ChatGenerationChunk._trusted(chunk)
                await run.tell("on_llm_new_token", str(chunk.text), chunk=generation)
