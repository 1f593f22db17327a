"""`ChatModelStream` and its async twin: one answer, with projections of its parts.

Driven by pull: a reader that runs out of kept events takes one more from the turn, so a slow reader holds the model back
and nothing happens before the first read. Everything is kept, so readers may come late, leave and come again. Somebody
else may drive a stream too: `dispatch(event)`, `fail(error)`, `bind_pump(callback)`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from weft._drive import drive_each
from weft._io import ASYNC, OneAtATime, Signal
from weft.exceptions import MalformedStreamError, ModelError, StreamClosedError
from weft.language_models._event_log import EventLog
from weft.language_models._projections import (
    ARequestMore,
    AsyncProjection,
    AsyncTextProjection,
    Failure,
    RequestMore,
    SyncProjection,
    SyncTextProjection,
)
from weft.messages import AIMessage
from weft.protocol.blocks import ToolCall, ToolCallChunk, UsageInfo
from weft.protocol.events import Event
from weft.protocol.fold import MessageBuilder

if TYPE_CHECKING:
    from weft.language_models._turn import Turn

T = TypeVar("T")

__all__ = [
    "AsyncChatModelStream",
    "AsyncProjection",
    "AsyncTextProjection",
    "ChatModelStream",
    "SyncProjection",
    "SyncTextProjection",
]


class _Stream:
    """What both colours share: the log, the fold, the projections. No waiting."""

    text: Any
    reasoning: Any
    tool_calls: Any

    def __init__(self, turn: Turn | None = None) -> None:
        self._turn = turn
        self._log = EventLog()
        self._own_builder = None if turn is not None else MessageBuilder()
        self._failure: Failure | None = None
        self._message: AIMessage | None = None
        self._is_done = False
        self._calls: dict[int, dict[str, Any]] = {}

    @property
    def _builder(self) -> MessageBuilder:
        return self._turn.builder if self._turn is not None else cast("MessageBuilder", self._own_builder)

    @property
    def done(self) -> bool:
        """Whether the stream is over, one way or another."""
        return self._is_done

    @property
    def error(self) -> BaseException | None:
        """Why the stream failed, if it did."""
        return self._failure.error if self._failure else None

    @property
    def output_message(self) -> AIMessage | None:
        """The assembled message once the stream is over (the partial one if it failed); None before."""
        return self._message

    @property
    def partial(self) -> AIMessage:
        """What has been said so far; the message itself once the stream is over."""
        if self._message is not None:
            return self._message
        return AIMessage.from_fold(self._builder.result(partial=True), "v1")

    # -- the producer's side

    def dispatch(self, event: Event) -> None:
        """Take an event from outside: keep it, fold it, hand it to the projections."""
        self._builder.feed(event)
        self._take(event)
        if event["event"] == "message-finish":
            self._end(AIMessage.from_fold(self._builder.result(), "v1"))
        elif event["event"] == "error":
            self.fail(ModelError(event["message"], code=event.get("code")))

    def fail(self, error: BaseException) -> None:
        """End the stream with an error; a finished stream stays finished."""
        if self._is_done:
            return
        partial = self._turn.message if self._turn is not None else None
        message = partial or AIMessage.from_fold(self._builder.result(partial=True), "v1")
        if isinstance(error, ModelError) and error.partial is None:
            error.partial = message
        self._is_done, self._message, self._failure = True, message, Failure(error)
        for projection in (self.text, self.reasoning, self.tool_calls):
            projection.fail(error)

    def _end(self, message: AIMessage) -> None:
        self._is_done, self._message = True, message
        self.text.complete()
        self.reasoning.complete()
        self.tool_calls.complete(list(message.tool_calls))

    def _take(self, event: Event) -> None:
        self._log.append(event)
        kind = event["event"]
        if kind == "content-block-delta":
            self._take_delta(event["index"], cast("dict[str, Any]", event["delta"]))  # type: ignore[typeddict-item]
        elif kind == "content-block-start":
            self._take_start(event["index"], cast("dict[str, Any]", event["content"]))  # type: ignore[typeddict-item]
        elif kind == "content-block-finish":
            self._take_finish(event)

    def _take_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        kind = delta["type"]
        if kind == "text-delta":
            self.text.push(delta["text"])
        elif kind == "reasoning-delta":
            self.reasoning.push(delta["reasoning"])
        elif kind == "tool-call-delta" and (call := self._calls.get(index)) is not None:
            call["said"] = True
            self.tool_calls.push(_slice(index, call, delta["args"]))

    def _take_start(self, index: int, content: dict[str, Any]) -> None:
        kind = content["type"]
        if kind == "text" and content.get("text"):
            self.text.push(content["text"])
        elif kind == "reasoning" and content.get("reasoning"):
            self.reasoning.push(content["reasoning"])
        elif kind in ("tool_call_chunk", "tool_call"):
            self._calls[index] = {"id": content.get("id"), "name": content.get("name"), "said": False}

    def _take_finish(self, event: Any) -> None:
        index, content = event["index"], event["content"]
        tail = self._builder.tail(event)
        if tail and content["type"] == "text":
            self.text.push(tail)
        elif tail and content["type"] == "reasoning":
            self.reasoning.push(tail)
        elif content["type"] == "tool_call" and not (self._calls.get(index) or {}).get("said"):
            self.tool_calls.push({**content, "index": index})

    def _where_closed(self) -> StreamClosedError:
        return StreamClosedError("the stream was closed before its end")


def _slice(index: int, call: dict[str, Any], args: str) -> ToolCallChunk:
    return {"type": "tool_call_chunk", "id": call["id"], "name": call["name"], "args": args, "index": index}


def _closed_error(turn: Turn | None) -> BaseException | None:
    """Give the error that a turn told its listeners when it was closed, so that all hold the same one."""
    return turn.error if turn is not None else None


class _Later(Generic[T]):
    """Something to be awaited, as often as one likes; nothing is pending if nobody does."""

    def __init__(self, body: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._body = body

    def __await__(self) -> Generator[Any, None, T]:
        return self._body().__await__()


def _no_calls(_: list[Any]) -> list[ToolCall]:
    return []


class ChatModelStream(_Stream):
    """One answer as a stream, read blocking.

    ```python
    from weft.language_models import FakeListChatModel

    stream = FakeListChatModel(responses=["Hello!"]).stream_v2("Hi")
    print("".join(stream.text), "|", stream.output.text)
    #> Hello! | Hello!
    ```
    """

    def __init__(self, turn: Turn | None = None) -> None:
        """Make a stream of a turn, or one that somebody else drives."""
        super().__init__(turn)
        self.text: SyncTextProjection = SyncTextProjection()
        """The text: iterate its pieces, or `str()` it."""
        self.reasoning: SyncTextProjection = SyncTextProjection()
        """The reasoning: iterate its pieces, or `str()` it."""
        self.tool_calls: SyncProjection[ToolCallChunk, list[ToolCall]] = SyncProjection(_no_calls)
        """The tool calls: iterate their slices, or `.get()` the complete ones."""
        self._events: Generator[Event, None, None] | None = None
        self._pump: RequestMore | None = self._pull if turn is not None else None
        self._guard = OneAtATime("this stream is read inside its own producer (a callback): read it afterwards")
        self.set_request_more(self._more)

    @classmethod
    def of_turn(cls, turn: Turn) -> Self:
        """Make the stream of a model's turn; nothing starts before it is read."""
        return cls(turn)

    def bind_pump(self, callback: RequestMore) -> None:
        """Let somebody else produce: a function that dispatches more and returns False when there is no more."""
        self._pump = callback

    def set_request_more(self, callback: RequestMore) -> None:
        """Let every projection ask this function for more."""
        for projection in (self.text, self.reasoning, self.tool_calls):
            projection.set_request_more(callback)

    def _more(self) -> bool:
        if self._is_done or self._pump is None:
            return False
        count = self._log.count
        with self._guard:
            # Another thread may have read on while this one waited: then there is more already.
            return True if self._is_done or self._log.count != count else self._pump()

    def _pull(self) -> bool:
        turn = cast("Turn", self._turn)
        if self._events is None:
            self._events = drive_each(turn.events())
        try:
            event = next(self._events, None)
            if event is None:
                self._end(cast("AIMessage", turn.message))
            else:
                self._take(event)
        except BaseException as error:
            self.fail(error if isinstance(error, Exception) else self._where_closed())
            if not isinstance(error, Exception):
                raise
        return True

    def __iter__(self) -> Iterator[Event]:
        cursor = self._log.cursor()
        while True:
            while (event := cursor.take()) is not None:
                yield event
            if not self._more():
                break
        for event in cursor:
            yield event
        if self._failure is not None:
            raise self._failure.again()

    def _drain(self) -> None:
        while self._more():
            pass

    @property
    def output(self) -> AIMessage:
        """The assembled message; reads the stream to its end."""
        self._drain()
        if self._failure is not None:
            raise self._failure.again()
        if self._message is None:
            raise MalformedStreamError("the stream ended without message-finish", partial=self.partial)
        return self._message

    @property
    def usage(self) -> UsageInfo | None:
        """The tokens used; reads the stream to its end."""
        self._drain()
        return self._builder.usage

    def close(self) -> None:
        """Stop: closes the connection, tells listeners once; a finished stream stays as it is."""
        if self._is_done:
            return
        if self._events is not None:
            self._events.close()
        self.fail(_closed_error(self._turn) or self._where_closed())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncChatModelStream(_Stream):
    """One answer as a stream, awaited: `await stream` gives the message, `async for` the events."""

    def __init__(self, turn: Turn | None = None) -> None:
        """Make a stream of a turn, or one that somebody else drives."""
        super().__init__(turn)
        self.text: AsyncTextProjection = AsyncTextProjection()
        """The text: iterate its pieces, or await it."""
        self.reasoning: AsyncTextProjection = AsyncTextProjection()
        """The reasoning: iterate its pieces, or await it."""
        self.tool_calls: AsyncProjection[ToolCallChunk, list[ToolCall]] = AsyncProjection(_no_calls)
        """The tool calls: iterate their slices, or await the complete ones."""
        self._events: AsyncGenerator[Event, None] | None = None
        self._pump: ARequestMore | None = self._pull if turn is not None else None
        self._signal = Signal()
        self._guard = ASYNC.lock()
        self.set_arequest_more(self._more)

    @classmethod
    def of_turn(cls, turn: Turn) -> Self:
        """Make the stream of a model's turn; nothing starts before it is read."""
        return cls(turn)

    def bind_pump(self, callback: ARequestMore) -> None:
        """Let somebody else produce: an async function that dispatches more and returns False at the end."""
        self._pump = callback

    def set_arequest_more(self, callback: ARequestMore) -> None:
        """Let every projection ask this function for more."""
        for projection in (self.text, self.reasoning, self.tool_calls):
            projection.set_arequest_more(callback)

    def dispatch(self, event: Event) -> None:
        """Take an event from outside: keep it, fold it, hand it to the projections."""
        super().dispatch(event)
        self._signal.set()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error; a finished stream stays finished."""
        super().fail(error)
        self._signal.set()

    async def _more(self) -> bool:
        if self._is_done:
            return False
        count = self._log.count
        if self._pump is None:
            await self._signal.wait()
            return True
        async with self._guard:
            return True if self._is_done or self._log.count != count else await self._pump()

    async def _pull(self) -> bool:
        turn = cast("Turn", self._turn)
        if self._events is None:
            self._events = turn.events()
        try:
            event = await anext(self._events, None)
            if event is None:
                self._end(cast("AIMessage", turn.message))
            else:
                self._take(event)
        except BaseException as error:
            self.fail(error if isinstance(error, Exception) else self._where_closed())
            if not isinstance(error, Exception):
                raise
        return True

    async def __aiter__(self) -> AsyncIterator[Event]:
        cursor = self._log.cursor()
        while True:
            while (event := cursor.take()) is not None:
                yield event
            if not await self._more():
                break
        for event in cursor:
            yield event
        if self._failure is not None:
            raise self._failure.again()

    async def _finished(self) -> AIMessage:
        while await self._more():
            pass
        if self._failure is not None:
            raise self._failure.again()
        if self._message is None:
            raise MalformedStreamError("the stream ended without message-finish", partial=self.partial)
        return self._message

    def __await__(self) -> Generator[Any, None, AIMessage]:
        return self._finished().__await__()

    @property
    def output(self) -> _Later[AIMessage]:
        """The assembled message, to be awaited."""
        return _Later(self._finished)

    @property
    def usage(self) -> _Later[UsageInfo | None]:
        """The tokens used, to be awaited."""
        return _Later(self._used)

    async def _used(self) -> UsageInfo | None:
        while await self._more():
            pass
        return self._builder.usage

    async def aclose(self) -> None:
        """Stop: closes the connection, tells listeners once; a finished stream stays as it is."""
        if self._is_done:
            return
        if self._events is not None:
            await self._events.aclose()
        self.fail(_closed_error(self._turn) or self._where_closed())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
