"""What the sync and the async stream share: the log, the fold, the content of projections. No waiting.

A stream has a source, whose events it takes, or is driven externally: `dispatch(event)`, `fail(error)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar, assert_never, cast
from weakref import ReferenceType

from typing_extensions import TypedDict

from foldline._lazy import publish
from foldline._streams.bounds import attach_partial, error_of
from foldline._streams.event_log import EventLog
from foldline._streams.projections import Deltas, StreamFailure
from foldline._streams.source import StreamSource
from foldline.exceptions import StreamClosedError
from foldline.messages import AIMessage
from foldline.protocol.blocks import BlockKind, ToolCall, ToolCallChunk, UsageInfo
from foldline.protocol.events import DeltaKind, Event, EventKind
from foldline.protocol.fold import MessageBuilder

V = TypeVar("V")


class StreamOrigin(TypedDict, total=False):
    """The origin of a stream."""

    namespace: list[str] | None
    node: str | None
    message_id: str | None


class StreamState:
    """The state of one stream and its producer's side."""

    def __init__(
        self,
        source: StreamSource | None = None,
        *,
        namespace: list[str] | None = None,
        node: str | None = None,
        message_id: str | None = None,
    ) -> None:
        """Create a stream of a source, or one that is driven externally; the keyword arguments describe its origin."""
        self.namespace: list[str] = namespace or []
        self.node = node
        self._message_id = message_id
        self._source = source
        self._log = EventLog()
        self._own_builder = MessageBuilder() if source is None else None
        self._failure: StreamFailure | None = None
        self._message: AIMessage | None = None
        self._is_done = False
        self._is_answer = True
        self._calls: dict[int, dict[str, Any]] = {}
        self._text: Deltas[str, str] = Deltas("".join)
        self._reasoning: Deltas[str, str] = Deltas("".join)
        self._tool_calls: Deltas[ToolCallChunk, list[ToolCall]] = Deltas(_complete_calls)
        self._views: dict[str, ReferenceType[Any]] = {}

    def _view(self, name: str, make: Callable[[], V]) -> V:
        """Return the view of that name: the same object as long as it is referenced."""
        # By a weak reference: a view refers to its stream, and a circle would keep the connection until the garbage is
        # collected.
        reference = self._views.get(name)
        view: V | None = None if reference is None else reference()
        if view is None:
            view = make()
            self._views[name] = ReferenceType(view)
        return view

    @property
    def _builder(self) -> MessageBuilder:
        source = self._source
        return source.builder if source is not None else cast("MessageBuilder", self._own_builder)

    # -- what can be read without waiting

    @property
    def done(self) -> bool:
        """Whether the stream has ended, with or without an error."""
        return self._is_done

    def _repr_html_(self) -> str:
        from foldline._display.runs import stream_html  # noqa: PLC0415  for notebooks only

        return stream_html(
            self.partial,
            is_done=self._is_done,
            error=self._failure.error if self._failure else None,
        )

    def __repr__(self) -> str:
        """Return the text so far; does not wait."""
        end = "" if self._is_done else " …"
        return f"<{type(self).__name__} so far: {str(self.partial.text)!r:.200}{end}>"

    @property
    def has_events(self) -> bool:
        """Whether there are any events yet."""
        return self._log.count > 0

    @property
    def message_id(self) -> str | None:
        """The id of the message, once it is known."""
        return self._builder.id or self._message_id

    @property
    def error(self) -> BaseException | None:
        """The error, if the stream failed."""
        return self._failure.error if self._failure else None

    @property
    def output_message(self) -> AIMessage | None:
        """The assembled message once the stream has ended (the partial one if it failed); None before."""
        return self._message

    @property
    def partial(self) -> AIMessage:
        """The message so far; the message itself once the stream has ended."""
        if self._message is not None:
            return self._message
        return AIMessage.from_fold(self._builder.result(partial=True), "v1")

    @property
    def _usage(self) -> UsageInfo | None:
        message = self._message
        if message is not None:
            return cast("UsageInfo | None", message.usage_metadata)
        return self._builder.usage

    # -- the producer's side

    def dispatch(self, event: Event) -> None:
        """Take an event from an external driver: fold it, store it, pass it to the projections.

        An event that cannot be taken ends the stream: the driver gets the error, and so do all readers.
        """
        if self._is_done and not self._builder.is_finished:
            return  # closed: there are no readers any more
        try:
            self._dispatch(event)
        except Exception as error:
            self.fail(error)
            raise

    def _dispatch(self, event: Event) -> None:
        builder = self._builder
        builder.feed(event)
        self._take(event)
        if event["event"] == "message-finish":
            self._end(AIMessage.from_fold(builder.result(), "v1"))
        elif event["event"] == "error":
            self.fail(error_of(event))

    def fail(self, error: BaseException) -> None:
        """End the stream with an error; a finished stream stays finished."""
        if self._is_done:
            return
        partial = self._source.message if self._source is not None else None
        message = partial or AIMessage.from_fold(self._builder.result(partial=True), "v1")
        attach_partial(error, message)
        # Every reader raises it: its traceback is restored each time, so that it does not grow.
        failure = StreamFailure(error)
        self._is_done, self._message, self._failure = True, message, failure
        for deltas in (self._text, self._reasoning, self._tool_calls):
            cast("Deltas[Any, Any]", deltas).end(None, failure)

    def _end_with(self, source: StreamSource) -> None:
        """End with the message of a complete call; take the batch that an interrupted end left undelivered."""
        if self._is_done:
            return
        # The reader was interrupted while the call was concluded: its last batch was received, and is not lost.
        for event in source.undelivered:
            self._take(event)
        self._end(cast("AIMessage", source.message))

    def _end(self, message: AIMessage) -> None:
        self._is_done, self._message = True, message
        # Blocks may have been interleaved, and a finish overrides its deltas (T13, T15): read the message.
        if self._is_answer:
            self._text.join = lambda _: str(message.text)
            self._reasoning.join = lambda _: _reasoning_of(message)
        self._text.end(None, None)
        self._reasoning.end(None, None)
        self._tool_calls.end(list(message.tool_calls), None)

    def with_source(self, source: StreamSource) -> Self:
        """Return a stream of another source, such as several attempts (see `foldline.runnables._stream_attempts`)."""
        return type(self)(source)

    # -- from events to projections

    def _take(self, event: Mapping[str, Any]) -> None:
        self._log.append(event)
        kind: EventKind = event["event"]
        if not self._is_answer:
            return
        if kind == "content-block-delta":
            delta = event["delta"]
            if delta["type"] == "text-delta":
                deltas = self._text
                deltas.items.append(delta["text"])  # `push` inlined, for the most frequent case
                if deltas.signal is not None:
                    deltas.signal.set()
            else:
                self._take_delta(event["index"], delta)
        # The log keeps everything, as a record of what happened; the projections forget the failed attempt.
        elif kind == "message-reset":
            self._restart()
        elif kind == "content-block-start":
            self._take_start(event["index"], event["content"])
        elif kind == "content-block-finish":
            self._take_finish(event["index"], event["content"])
        elif kind == "message-start":
            # The result of a tool is not an answer (T100).
            self._is_answer = event.get("role", "ai") != "tool"
        elif TYPE_CHECKING and not (kind == "message-finish" or kind == "error"):
            assert_never(kind)

    def _take_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        kind: DeltaKind = delta["type"]
        match kind:
            case "reasoning-delta":
                self._reasoning.push(delta["reasoning"])
            case "tool-call-delta":
                if (call := self._calls.get(index)) is not None:
                    call["has_slices"] = True
                    self._tool_calls.push(_slice(index, call, delta["args"]))
            case "block-delta":
                # Some vendors send the id and the name of a call after its first slices.
                if (call := self._calls.get(index)) is not None:
                    late_fields = {key: delta["fields"].get(key) for key in ("id", "name")}
                    call.update({key: value for key, value in late_fields.items() if value})
            case "text-delta" | "refusal-delta" | "data-delta":
                pass  # `_take` has handled the text; refusals and data are read from the finished block
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)

    def _take_start(self, index: int, content: dict[str, Any]) -> None:
        kind: BlockKind = content["type"]
        match kind:
            case "text":
                if content.get("text"):
                    self._text.push(content["text"])
            case "reasoning":
                if content.get("reasoning"):
                    self._reasoning.push(content["reasoning"])
            case "tool_call_chunk" | "tool_call":
                call = {"id": content.get("id"), "name": content.get("name"), "has_slices": False}
                self._calls[index] = call
                args = content.get("args")
                if kind == "tool_call_chunk" and isinstance(args, str) and args:
                    call["has_slices"] = True
                    self._tool_calls.push(_slice(index, call, args))
            case (
                ("refusal" | "image" | "audio" | "video" | "file" | "text-plain" | "non_standard")
                | ("server_tool_call" | "server_tool_call_chunk" | "server_tool_result")
                | "invalid_tool_call"
            ):
                pass
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)

    def _take_finish(self, index: int, content: dict[str, Any]) -> None:
        kind, unstreamed = content["type"], self._builder.unstreamed_text.get(index)
        if kind == "text" and unstreamed:
            self._text.push(unstreamed)
        elif kind == "reasoning" and unstreamed:
            self._reasoning.push(unstreamed)
        elif kind == "tool_call" and not (self._calls.get(index) or {}).get("has_slices"):
            self._tool_calls.push(cast("ToolCallChunk", {**content, "index": index}))

    def _restart(self) -> None:
        """Drop the content: the attempt failed, and another one begins."""
        self._calls.clear()
        # A new list, and not `clear`: a reader that is inside the old one notices, and begins again.
        for deltas in (self._text, self._reasoning, self._tool_calls):
            deltas.items = []

    def _closed_error(self) -> BaseException:
        """Return the error that the source dispatched when it was closed, so that all readers get the same one."""
        source_error = self._source.error if self._source is not None else None
        if isinstance(source_error, Exception):
            return source_error
        return StreamClosedError("the stream was closed before its end")


def dispatch_event(event: Event | StreamState, stream: StreamState | Event) -> None:
    """Dispatch an event to a stream that is driven externally, like `stream.dispatch(event)`; in either order."""
    if isinstance(event, StreamState):
        event, stream = cast("Event", stream), event
    cast("StreamState", stream).dispatch(event)


def _slice(index: int, call: dict[str, Any], args: str) -> ToolCallChunk:
    return {
        "type": "tool_call_chunk",
        "id": call["id"],
        "name": call["name"],
        "args": args,
        "index": index,
    }


def _complete_calls(slices: list[ToolCallChunk]) -> list[ToolCall]:
    """Return the calls that came complete; those in slices are known at the end."""
    return [
        cast("ToolCall", slice_) for slice_ in slices if slice_.get("type") != "tool_call_chunk"
    ]


def _reasoning_of(message: AIMessage) -> str:
    blocks = cast("list[dict[str, Any]]", message.content_blocks)
    return "".join(
        block.get("reasoning") or "" for block in blocks if block.get("type") == "reasoning"
    )


publish("foldline.language_models.chat_model_stream", dispatch_event)
