"""Models whose author wrote one hook, and ways to read a stream sync or async."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import BaseChatModel
from foldline.messages import AIMessage, AIMessageChunk, BaseMessage
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from foldline.protocol import assert_valid_event_stream


class Scripted(BaseChatModel):
    """Base of the models below: answers with `items`, raising those that are errors."""

    items: Any = None
    calls: Any = None

    def answer_to(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> Iterator[Any]:
        if self.calls is not None:
            self.calls.append((messages, kwargs))
        for item in self.items:
            if isinstance(item, BaseException):
                raise item
            yield item() if callable(item) else item


def as_chunk(item: Any) -> ChatGenerationChunk:
    if isinstance(item, ChatGenerationChunk):
        return item
    if isinstance(item, str | list):
        item = AIMessageChunk(content=item)
    return ChatGenerationChunk(message=item)


class Chunked(Scripted):
    """Its author wrote `_stream`."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        for item in self.answer_to(messages, {"stop": stop, **kwargs}):
            yield as_chunk(item)


class AChunked(Scripted):
    """Its author wrote `_astream`."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        for item in self.answer_to(messages, {"stop": stop, **kwargs}):
            await asyncio.sleep(0)
            yield as_chunk(item)


class Native(Scripted):
    """Its author wrote LangChain's native hook."""

    def _stream_chat_model_events(self, messages: Any, stop: Any = None, **kwargs: Any) -> Any:
        yield from self.answer_to(messages, {"stop": stop, **kwargs})


class ANative(Scripted):
    """Its author wrote the async form of LangChain's native hook."""

    async def _astream_chat_model_events(
        self, messages: Any, stop: Any = None, **kwargs: Any
    ) -> Any:
        for item in self.answer_to(messages, {"stop": stop, **kwargs}):
            await asyncio.sleep(0)
            yield item


class Events(Scripted):
    """Its author wrote foldline's native hook."""

    async def _events(self, request: Any, run: Any) -> Any:
        for item in self.answer_to(request.messages, {"stop": request.stop, **request.options}):
            await run.io.sleep(0)
            yield item


class GenerateOnly(Scripted):
    """Its author wrote `_generate`; every item is a candidate answer."""

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        answers = list(self.answer_to(messages, {"stop": stop, **kwargs}))
        return ChatResult(generations=[as_generation(answer) for answer in answers])


class AsyncGenerateOnly(Scripted):
    """Its author wrote `_agenerate`."""

    async def _agenerate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        await asyncio.sleep(0)
        answers = list(self.answer_to(messages, {"stop": stop, **kwargs}))
        return ChatResult(generations=[as_generation(answer) for answer in answers])


def as_generation(item: Any) -> ChatGeneration:
    if isinstance(item, ChatGeneration):
        return item
    message = item if isinstance(item, BaseMessage) else AIMessage(content=item)
    return ChatGeneration(message=message.model_copy(deep=True))


# -- reading

SYNC: dict[str, Callable[[Any], Any]] = {
    "output": lambda stream: stream.output,
    "events": list,
    "text": lambda stream: str(stream.text),
    "texts": lambda stream: list(stream.text),
    "reasoning": lambda stream: str(stream.reasoning),
    "slices": lambda stream: list(stream.tool_calls),
    "tool_calls": lambda stream: stream.tool_calls.get(),
    "usage": lambda stream: stream.usage,
}


async def _aread(stream: Any, projection: str) -> Any:
    if projection == "events":
        return [event async for event in stream]
    if projection in ("texts", "slices"):
        items = stream.text if projection == "texts" else stream.tool_calls
        return [item async for item in items]
    return await getattr(stream, projection)


class Read:
    """The values read from a stream, the stream, and the error that reading raised."""

    def __init__(self) -> None:
        self.stream: Any = None
        self.values: list[Any] = []
        self.error: BaseException | None = None

    @property
    def value(self) -> Any:
        return self.values[-1]


def read(
    call: Any, model: Any, *projections: str, config: Any = None, input: Any = "hi", **kwargs: Any
) -> Read:
    """Read parts of one stream in turn; an error ends the reading and is kept."""
    reading = Read()

    def blocking() -> None:
        reading.stream = model.stream_v2(input, config, **kwargs)
        for part in projections:
            reading.values.append(SYNC[part](reading.stream))

    async def read_async() -> None:
        reading.stream = await model.astream_v2(input, config, **kwargs)
        for part in projections:
            reading.values.append(await _aread(reading.stream, part))

    try:
        if not call.is_async:
            blocking()
        else:
            call._finish(read_async)
    except Exception as error:  # noqa: BLE001
        reading.error = error
    return reading


def read_again(call: Any, stream: Any, projection: str) -> Any:
    """Read a stream that is over once more: its value, or the error it raises."""
    try:
        if not call.is_async:
            return SYNC[projection](stream)
        return call._finish(lambda: _aread(stream, projection))
    except Exception as error:  # noqa: BLE001
        return error


def answer(call: Any, model: Any, **kwargs: Any) -> AIMessage:
    """The assembled message of a `stream_v2` call, its events checked against the grammar."""
    reading = read(call, model, "events", "output", **kwargs)
    if reading.error is not None:
        raise reading.error
    assert_valid_event_stream(reading.values[0], reading.values[1])
    return reading.values[1]


def output_blocks(call: Any, model: Any, **kwargs: Any) -> list[Any]:
    return answer(call, model, **kwargs).content  # type: ignore[return-value]


# -- listening


class Listener(BaseCallbackHandler):
    """Records its calls, in order."""

    run_inline = True

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def arguments_of(self, *names: str) -> list[Any]:
        return [arguments for name, arguments in self.events if name in names]

    @property
    def ends(self) -> list[str]:
        return [name for name, _ in self.events if name in ("on_llm_end", "on_llm_error")]

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.events.append(("on_chat_model_start", {"messages": messages, **kwargs}))

    def on_stream_event(self, event: Any, **kwargs: Any) -> None:
        self.events.append(("on_stream_event", event))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.events.append(("on_llm_end", response))

    def on_llm_error(self, error: Any, **kwargs: Any) -> None:
        self.events.append(("on_llm_error", (error, kwargs.get("response"))))

    def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
        self.events.append(("on_retry", retry_state))


class TokenListener(Listener):
    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **kwargs: Any) -> None:
        self.events.append(("on_llm_new_token", (token, chunk)))


# -- events


def start(id: str = "msg_1", **metadata: Any) -> dict[str, Any]:
    return {
        "event": "message-start",
        "role": "ai",
        "id": id,
        **({"metadata": metadata} if metadata else {}),
    }


def block_start(index: int, **content: Any) -> dict[str, Any]:
    return {"event": "content-block-start", "index": index, "content": content}


def text(index: int, piece: str) -> dict[str, Any]:
    return {
        "event": "content-block-delta",
        "index": index,
        "delta": {"type": "text-delta", "text": piece},
    }


def delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"event": "content-block-delta", "index": index, "delta": delta}


def block_finish(index: int, **content: Any) -> dict[str, Any]:
    return {"event": "content-block-finish", "index": index, "content": content}


FINISH = {"event": "message-finish", "finish_reason": "stop"}


def text_events(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    full_text = "".join(pieces)
    return [
        block_start(index, type="text", text=""),
        *(text(index, piece) for piece in pieces),
        block_finish(index, type="text", text=full_text),
    ]


def tool_slice(
    args: str | None = None,
    *,
    id: str | None = None,
    name: str | None = None,
    index: Any = None,
    **more: Any,
) -> AIMessageChunk:
    chunk = {
        "type": "tool_call_chunk",
        "name": name,
        "args": args,
        "id": id,
        "index": index,
        **more,
    }
    return AIMessageChunk(content="", tool_call_chunks=[chunk])
