"""Stream objects that are driven from outside: events, errors, pumps, projections alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError, ModelError, StreamClosedError
from foldline.language_models.chat_model_stream import (
    AsyncChatModelStream,
    AsyncProjection,
    AsyncTextProjection,
    ChatModelStream,
    SyncProjection,
    SyncTextProjection,
)
from tests.language_models.reading import (
    FINISH,
    block_start,
    start,
    text,
    text_events,
)

pytestmark = pytest.mark.timing


def test_a_stream_driven_from_outside():
    stream = ChatModelStream(namespace=["graph"], node="model", message_id="m")
    pending = [start("p"), *text_events("a", "b"), FINISH]

    def pump() -> bool:
        if not pending:
            return False
        stream.dispatch(pending.pop(0))
        return True

    stream.bind_pump(pump)

    assert list(stream.text) == ["a", "b"]
    assert (stream.output.text, stream.message_id, stream.node) == ("ab", "p", "model")
    with pytest.raises(MalformedStreamError):
        stream.dispatch(text(0, "late"))  # type: ignore[arg-type]


def test_an_async_stream_driven_from_outside():
    async def body() -> None:
        stream = AsyncChatModelStream()
        message = asyncio.ensure_future(stream._final_message())
        text_task = asyncio.ensure_future(stream.text.get())
        for event in [start(), *text_events("a", "b"), FINISH]:
            await asyncio.sleep(0)
            stream.dispatch(event)
        assert (await message).text == await text_task == "ab"

    asyncio.run(body())


def test_T84_an_async_stream_with_a_pump():
    async def body() -> None:
        stream = AsyncChatModelStream()
        pending = [start(), *text_events("a"), FINISH]

        async def pump() -> bool:
            if not pending:
                return False
            stream.dispatch(pending.pop(0))
            return True

        stream.set_arequest_more(pump)
        assert (await stream).text == "a"

    asyncio.run(body())


def test_closing_a_stream_whose_pump_waits_wakes_its_readers():
    async def body() -> None:
        stream = AsyncChatModelStream()
        stream.bind_pump(asyncio.Event().wait)  # type: ignore[arg-type]
        reader = asyncio.ensure_future(stream._final_message())
        other = asyncio.ensure_future(stream.text.get())
        await asyncio.sleep(0)
        await stream.aclose()
        with pytest.raises(StreamClosedError):
            await other
        reader.cancel()

    asyncio.run(body())


def test_outside_errors_fail_every_reader():
    stream = ChatModelStream()
    stream.dispatch(start())
    stream.dispatch(block_start(0, type="text", text=""))
    stream.dispatch(text(0, "par"))
    stream.fail(ModelError("gone"))

    with pytest.raises(ModelError, match="gone") as excinfo:
        stream.output  # noqa: B018
    assert excinfo.value.partial.text == "par"
    with pytest.raises(ModelError, match="gone"):
        list(stream.text)


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


def test_an_error_event_from_outside_fails_the_stream():
    stream = ChatModelStream()
    stream.dispatch(start())
    stream.dispatch({"event": "error", "message": "gone", "code": "c"})

    assert stream.error.code == "c"


def test_a_stream_nobody_finished_says_so():
    stream = ChatModelStream()
    stream.dispatch(start())

    with pytest.raises(MalformedStreamError, match="without message-finish"):
        stream.output  # noqa: B018
    assert list(stream.text) == []


def test_projections_can_be_driven_alone():
    projection = SyncTextProjection()
    pending = ["a", "b"]

    def more() -> bool:
        if not pending:
            projection.complete()
        else:
            projection.push(pending.pop(0))
        return True

    projection.set_request_more(more)
    assert list(projection) == ["a", "b"]
    assert str(projection) == "ab"
    numbers: SyncProjection[int, list[int]] = SyncProjection()
    numbers.push(1)
    numbers.complete([7])
    assert (list(numbers), numbers.get(), numbers.done) == ([1], [7], True)


def test_async_projections_can_be_driven_alone():
    async def body() -> None:
        projection = AsyncTextProjection()
        reader = asyncio.ensure_future(projection.get())
        await asyncio.sleep(0)
        projection.push("a")
        await asyncio.sleep(0)
        projection.complete()
        assert await reader == "a"
        broken: AsyncProjection[str, list[str]] = AsyncProjection()
        broken.push("x")
        broken.fail(ValueError("no"))
        items = []
        with pytest.raises(ValueError, match="no"):  # noqa: PT012  the loop is what raises
            async for item in broken:
                items.append(item)  # noqa: PERF401
        assert items == ["x"]

    asyncio.run(body())
