"""Streams that are driven by hand: an event that cannot be taken ends the stream for all of its readers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError
from foldline.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from tests.language_models.reading import FINISH, block_start, start, text, text_events


async def read_all(iterator: Any) -> list[Any]:
    return [item async for item in iterator]


@pytest.mark.parametrize(
    "broken",
    [text(7, "for no block"), start("again"), FINISH | {"event": "content-block-finish"}],
)
def test_an_event_that_an_async_stream_refuses_ends_every_reader_with_its_error(broken):
    async def body() -> None:
        stream = AsyncChatModelStream()
        readers = [
            asyncio.ensure_future(coroutine)
            for coroutine in (
                stream._final_message(),
                stream.text.get(),
                stream.reasoning.get(),
                stream.tool_calls.get(),
                read_all(stream),
                read_all(stream.text),
                read_all(stream.tool_calls),
            )
        ]
        await asyncio.sleep(0)
        for event in (start(), block_start(0, type="text", text=""), text(0, "par")):
            stream.dispatch(event)
        with pytest.raises(MalformedStreamError) as caught:
            stream.dispatch(broken)  # type: ignore[arg-type]

        results = await asyncio.wait_for(asyncio.gather(*readers, return_exceptions=True), 5)

        assert {type(result) for result in results} == {MalformedStreamError}
        assert {str(result) for result in results} == {str(caught.value)}
        assert str(stream.error) == str(caught.value)
        assert stream.done
        assert caught.value.partial.text == "par"

    asyncio.run(body())


def test_an_event_that_a_stream_refuses_fails_every_reader():
    stream = ChatModelStream()
    for event in (start(), block_start(0, type="text", text=""), text(0, "par")):
        stream.dispatch(event)

    with pytest.raises(MalformedStreamError) as caught:
        stream.dispatch(text(7, "for no block"))  # type: ignore[arg-type]

    for reading in (
        lambda: stream.output,
        lambda: str(stream.text),
        lambda: list(stream),
        lambda: stream.tool_calls.get(),
    ):
        with pytest.raises(MalformedStreamError, match="7"):
            reading()
    assert caught.value.partial.text == "par"
    assert str(stream.error) == str(caught.value)


def test_an_event_after_the_end_is_refused_and_the_message_stays():
    async def body() -> None:
        stream = AsyncChatModelStream()
        for event in [start(), *text_events("a"), FINISH]:
            stream.dispatch(event)
        with pytest.raises(MalformedStreamError):
            stream.dispatch(text(0, "late"))  # type: ignore[arg-type]
        assert ((await stream).text, stream.error) == ("a", None)

    asyncio.run(body())
