"""`ChatModelStream` and its async version: one answer, with projections of its parts.

Pull-driven: a reader that runs out of stored events takes one more batch from the call, so a slow reader slows the
model down and nothing runs before the first read. Everything is stored, so readers may start late, stop and read again.
A stream can also be driven externally: `dispatch(event)`, `fail(error)`, `bind_pump(callback)`.

There is one source and any number of readers: the stream itself, its projections (text, reasoning, tool calls, output),
in several threads or tasks. Each has a position of its own in what is stored, and none owns the source. So:

- One of them pulls at a time: the one that needs an event that is not stored. The others wait for its batch, not for
  the end; then each looks at what is stored, and the first that needs more pulls next. Between threads a `Mutex` says
  whose turn it is, between tasks the flag `_is_pulling`.
- A reader inside the producer (a callback that reads the stream which feeds it) would wait for itself. It is recognised
  by the thread or the task that pulls, and gets an error.
- Closing is a wish while another reader is inside the source, because a generator that runs cannot be closed. The sync
  stream notes it, and whoever pulls acts on it after its step; the async one also interrupts that step. Once the answer
  is complete it is paid for: its conclusion (the end callbacks, the cache) is waited for, not cut off.
- A task that is cancelled while it pulls ends the stream for all, because what it was reading is lost with it.
- A stream has one end: the message, or one failure, which every reader gets, now and later. What arrived before it
  stays readable.
- An async stream belongs to the loop in which it was begun, where its connection lives; read in another one, it says
  so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any, Self, Unpack

from foldline._io import ASYNC, HomeLoop, Interruptible, Mutex, Signal, running_loop
from foldline._io.drive import drive_each
from foldline._io.locks import get_ident
from foldline._lazy import publish
from foldline._streams.answer import Batch
from foldline._streams.projections import (
    ARequestMore,
    AsyncProjection,
    AsyncTextProjection,
    AwaitableValue,
    RequestMore,
    SyncProjection,
    SyncTextProjection,
)
from foldline._streams.source import StreamSource
from foldline._streams.state import ANSWERED, CONCLUDED
from foldline._streams.stream_state import StreamOrigin, StreamState
from foldline.exceptions import MalformedStreamError, StreamClosedError, UsageError
from foldline.messages import AIMessage
from foldline.protocol.blocks import ToolCall, ToolCallChunk, UsageInfo
from foldline.protocol.events import Event

__all__ = ["AsyncChatModelStream", "ChatModelStream"]

READ_IN_PRODUCER = "this stream is read inside its own producer (a callback): read it afterwards"
ANOTHER_LOOP = (
    "this stream was begun in another event loop, which has not ended: read and close it there"
)
LOOP_ENDED = (
    "the event loop in which this stream was begun has ended, and the stream with it: "
    "read a stream to its end in the loop where it was begun"
)
NO_END = "the stream ended without message-finish"


class ChatModelStream(StreamState):
    """One answer as a stream, for sync code.

    ```python
    from foldline.language_models import FakeListChatModel

    stream = FakeListChatModel(responses=["Hello!"]).stream_v2("Hi")
    print("".join(stream.text), "|", stream.output.text)
    #> Hello! | Hello!
    ```
    """

    def __init__(self, source: StreamSource | None = None, **origin: Unpack[StreamOrigin]) -> None:
        """Create a stream of a source, or one that is driven externally."""
        super().__init__(source, **origin)
        self._batches: Generator[Batch, None, None] | None = None
        self._pump: RequestMore | None = None
        self._is_closing = False
        self._guard = Mutex()

    @property
    def text(self) -> SyncTextProjection:
        """The text: iterate its slices, or `str()` it."""
        return self._view("text", lambda: SyncTextProjection(self._text, self._request_more))

    @property
    def reasoning(self) -> SyncTextProjection:
        """The reasoning: iterate its slices, or `str()` it."""
        return self._view(
            "reasoning", lambda: SyncTextProjection(self._reasoning, self._request_more)
        )

    @property
    def tool_calls(self) -> SyncProjection[ToolCallChunk, list[ToolCall]]:
        """The tool calls: iterate their slices, or `.get()` the complete ones."""
        return self._view(
            "tool_calls", lambda: SyncProjection(self._tool_calls, self._request_more)
        )

    def bind_pump(self, callback: RequestMore) -> None:
        """Set an external producer: a function that dispatches more events and returns False at the end."""
        self._pump = callback

    set_request_more = bind_pump

    def _request_more(self) -> bool:
        """Read one more batch; return False if there will be none."""
        if self._is_done:
            return False
        guard = self._guard
        token, is_mine = guard.token, True
        try:
            try:
                token.pop()
            except IndexError:
                is_mine = False
                return self._wait_for_reader()
            guard.owner = get_ident()
            has_more = self._pull() if self._pump is None else self._pump()
            if self._is_closing:
                self._close_source()
            return has_more
        finally:
            if is_mine and not token:  # Ctrl-C may come before it was taken
                guard.owner = 0
                token.append(None)
                if guard.waiting:
                    guard.wake()

    def _wait_for_reader(self) -> bool:
        """Wait for the step of the thread that is reading: then there is more, or the stream has ended."""
        if self._guard.is_mine:
            raise UsageError(READ_IN_PRODUCER)  # this thread is reading already
        self._guard.wait()
        return True

    def _pull(self) -> bool:
        source: Any = self._source
        if source is None:  # driven externally without a pump: there is nothing to pull
            return False
        if self._batches is None:
            self._batches = drive_each(source.batches())
        try:
            batch = next(self._batches, None)
            if batch is not None:
                self._take_batch(batch)
            if source.state is CONCLUDED:
                self._end(source.message)
                self._batches.close()
            elif batch is None:
                self.fail(self._closed_error())
        except BaseException as error:
            if (
                source.state is CONCLUDED
            ):  # a listener failed after the end: the message is still valid
                self._end_with(source)
            else:
                self.fail(error if isinstance(error, Exception) else self._closed_error())
            if not isinstance(error, Exception):
                raise
        return True

    def _take_batch(self, batch: Batch) -> None:
        log, texts = self._log, self._text
        for event in batch:
            # The usual event, a slice of the text of an answer: stored and shown without two calls.
            tail = log._tail
            if (
                tail is not None
                and tail.kind == "text-delta"
                and event["event"] == "content-block-delta"
                and tail.index == event["index"]
                and len(delta := event["delta"]) == 2
                and delta["type"] == "text-delta"
                and self._is_answer
            ):
                text = delta["text"]
                log.count += 1
                tail.parts.append(text)
                texts.items.append(text)
                if texts.signal is not None:
                    texts.signal.set()
            else:
                self._take(event)

    def __iter__(self) -> Iterator[Event]:
        return self._log.read(self._request_more, self._check_failure)

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._failure.as_raised()

    def _ipython_display_(self) -> None:
        from foldline._display import live  # noqa: PLC0415  for notebooks only

        if live.can_renew():
            live.show_live(iter(self), live.LiveOutput(self._repr_html_))
        else:
            print(repr(self))  # noqa: T201  a terminal cannot update its output

    def _drain(self) -> None:
        while self._request_more():
            pass

    @property
    def output(self) -> AIMessage:
        """The assembled message; reads the stream to its end."""
        self._drain()
        if self._failure is not None:
            raise self._failure.as_raised()
        if self._message is None:
            raise MalformedStreamError(NO_END, partial=self.partial)
        return self._message

    @property
    def usage(self) -> UsageInfo | None:
        """The token usage so far; reads to the end if nothing was read yet."""
        if not self.has_events:
            self._drain()
        return self._usage

    def close(self) -> None:
        """Close the connection, and dispatch the error once; a finished stream stays as it is.

        While another thread waits for the next event, that thread closes the stream when its event arrives.
        """
        if self._is_done:
            return
        self._is_closing = True
        if self._source is not None:
            self._source.is_closing = True
        if self._guard.enter_if_free():
            try:
                self._close_source()
            finally:
                self._guard.leave()

    def _close_source(self) -> None:
        if self._batches is not None:
            self._batches.close()
        self.fail(self._closed_error())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncChatModelStream(StreamState):
    """One answer as a stream, for async code: `await stream` returns the message, `async for` yields the events."""

    def __init__(self, source: StreamSource | None = None, **origin: Unpack[StreamOrigin]) -> None:
        """Create a stream of a source, or one that is driven externally."""
        super().__init__(source, **origin)
        self._batches: AsyncGenerator[Batch, None] | None = None
        self._pump: ARequestMore | None = None
        self._signal: Signal | None = None
        self._is_pulling = False
        self._step = Interruptible()
        self._home = HomeLoop()

    @property
    def text(self) -> AsyncTextProjection:
        """The text: iterate its slices, or await it."""
        return self._view("text", lambda: AsyncTextProjection(self._text, self._request_more))

    @property
    def reasoning(self) -> AsyncTextProjection:
        """The reasoning: iterate its slices, or await it."""
        return self._view(
            "reasoning", lambda: AsyncTextProjection(self._reasoning, self._request_more)
        )

    @property
    def tool_calls(self) -> AsyncProjection[ToolCallChunk, list[ToolCall]]:
        """The tool calls: iterate their slices, or await the complete ones."""
        return self._view(
            "tool_calls", lambda: AsyncProjection(self._tool_calls, self._request_more)
        )

    def bind_pump(self, callback: ARequestMore) -> None:
        """Set an external producer: an async function that dispatches more events and returns False at the end."""
        self._pump = callback

    set_arequest_more = bind_pump

    def dispatch(self, event: Event) -> None:
        """Take an event from an external driver: fold it, store it, pass it to the projections."""
        super().dispatch(event)
        self._wake()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error; a finished stream stays finished."""
        super().fail(error)
        self._wake()

    def _wake(self) -> None:
        if self._signal is not None:
            self._signal.set()

    async def _wait(self) -> None:
        if self._signal is None:
            self._signal = Signal()
        await self._signal.wait()

    async def _request_more(self) -> bool:
        """Read one more batch; return False if there will be none."""
        if self._is_done:
            return False
        if self._home.loop is not running_loop() and not self._home.enter():
            self._leave_home()
            return True
        if self._is_pulling:
            if self._step.is_mine:
                raise UsageError(READ_IN_PRODUCER)
            await self._wait()  # another task is reading
            return True
        if self._source is None and self._pump is None:
            await self._wait()
            return True
        self._is_pulling = True
        try:
            return await (self._pump() if self._pump is not None else self._pull())
        finally:
            self._is_pulling = False
            self._wake()

    def _leave_home(self) -> None:
        """Continue in another loop than the stream began in, if that is possible."""
        if not self._home.is_closed:
            raise UsageError(ANOTHER_LOOP)
        if self._source is not None:  # its connection belonged to the loop
            self.fail(StreamClosedError(LOOP_ENDED, partial=self._source.message))
        self._home, self._signal, self._is_pulling = HomeLoop(), None, False

    async def _pull(self) -> bool:
        source: Any = self._source
        if self._batches is None:
            self._batches = source.batches()
        batch: Batch = ()
        try:
            with self._step:
                batch = await self._batches.__anext__()
            for event in batch:
                self._take(event)
            if source.state is CONCLUDED:
                self._end_with(source)
                await self._batches.aclose()
            elif self._step.is_interrupted:
                await self._close_source()
        except BaseException as error:
            if (
                source.state is CONCLUDED
            ):  # a listener failed after the end: the message is still valid
                self._end_with(source)
            elif isinstance(error, StopAsyncIteration):  # the source was closed elsewhere
                self.fail(self._closed_error())
            else:
                self.fail(error if isinstance(error, Exception) else self._closed_error())
            if not isinstance(error, Exception):
                raise
        return True

    async def __aiter__(self) -> AsyncIterator[Event]:
        cursor = self._log.cursor()
        take, request_more = cursor.take, self._request_more
        while True:
            event = take()
            if event is not None:
                yield event
            elif not await request_more():
                break
        for event in cursor:
            yield event
        if self._failure is not None:
            raise self._failure.as_raised()

    def _ipython_display_(self) -> None:
        from foldline._display import live  # noqa: PLC0415  for notebooks only

        if live.can_renew() and running_loop() is not None:
            output = live.LiveOutput(self._repr_html_)
            self._display = ASYNC.start(live.ashow_live(aiter(self), output))
        else:
            print(repr(self))  # noqa: T201  a terminal cannot update its output

    async def _drain(self) -> None:
        while await self._request_more():
            pass

    async def _final_message(self) -> AIMessage:
        await self._drain()
        if self._failure is not None:
            raise self._failure.as_raised()
        if self._message is None:
            raise MalformedStreamError(NO_END, partial=self.partial)
        return self._message

    def __await__(self) -> Generator[Any, None, AIMessage]:
        return self._final_message().__await__()

    @property
    def output(self) -> AwaitableValue[AIMessage]:
        """The assembled message, to be awaited."""
        return self._view("output", lambda: AwaitableValue(self._final_message))

    @property
    def usage(self) -> AwaitableValue[UsageInfo | None]:
        """The token usage, to be awaited: reads to the end."""
        return self._view("usage", lambda: AwaitableValue(self._final_usage))

    async def _final_usage(self) -> UsageInfo | None:
        await self._drain()
        return self._usage

    async def aclose(self) -> None:
        """Close the connection, and dispatch the error once; a finished stream stays as it is.

        A task that waits for the next event is interrupted: it gets a `StreamClosedError`.
        """
        if self._is_done:
            return
        if self._home.is_elsewhere:
            self._leave_home()
        if self._source is None or not self._is_pulling:
            await self._close_source()
            return
        if self._source.state is not ANSWERED:  # else the answer is complete: wait for its end
            self._source.is_closing = True
            self._step.interrupt()
        if not self._step.is_mine:
            while not self.done:
                await self._wait()

    async def _close_source(self) -> None:
        if self._source is not None:
            self._source.is_closing = True
        try:
            if self._batches is not None:
                await self._batches.aclose()
        finally:
            self.fail(self._closed_error())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


publish("foldline.language_models", AsyncChatModelStream, ChatModelStream)
