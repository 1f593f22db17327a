"""The checklist of stream objects, T69 to T87: one test for each number, as the specification words it."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import Any

import pytest

from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.exceptions import ModelError, StreamClosedError
from foldline.language_models.chat_model_stream import AsyncChatModelStream
from foldline.testing import Call, Finish, Reason, ScriptedChatModel, Stall
from tests.language_models.reading import (
    FINISH,
    AChunked,
    ANative,
    Chunked,
    Listener,
    Native,
    read,
    read_again,
    start,
    text_events,
)

USED = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def rich() -> ScriptedChatModel:
    turn = [Reason("hm"), "Hel", "lo", Call("f", {"a": 1}, id="c"), Finish("tool_use", USED)]
    return ScriptedChatModel(script=[turn], is_cyclic=True)


def stalling() -> ScriptedChatModel:
    return ScriptedChatModel(script=[["Hel", Stall()]], is_cyclic=True)


def run(body: Any) -> Any:
    """Run an async body that must not hang."""
    return asyncio.run(asyncio.wait_for(body(), 10))


def test_T69_a_call_that_nobody_reads_tells_nothing_and_asks_nothing(call):
    listener, model = Listener(), rich()

    reading = read(call, model, config={"callbacks": [listener]})

    assert (listener.events, model.requests, reading.stream.done) == ([], [], False)


def test_T70_second_and_late_iterators_get_everything(call):
    reading = read(call, rich(), "events", "events", "texts", "texts", "slices", "output")

    assert reading.values[0] == reading.values[1] == read_again(call, reading.stream, "events")
    assert reading.values[0][-1]["event"] == "message-finish"
    assert (
        reading.values[2]
        == reading.values[3]
        == read_again(call, reading.stream, "texts")
        == ["Hel", "lo"]
    )


def test_T71_two_projections_read_alternately_lose_nothing(call):
    model = Chunked(items=[f"{number} " for number in range(20)])
    expected = [f"{number} " for number in range(20)]
    texts: list[str] = []
    kinds: list[str] = []
    if not call.is_async:
        stream = model.stream_v2("x")
        pairs = zip(stream.text, iter(stream), strict=False)
        for word, event in pairs:
            texts.append(word)
            kinds.append(event["event"])
    else:

        async def body() -> None:
            stream = await model.astream_v2("x")
            events = aiter(stream)
            async for word in stream.text:
                texts.append(word)
                kinds.append((await anext(events))["event"])

        call._finish(body)

    assert texts == expected
    assert kinds == ["message-start", "content-block-start", *["content-block-delta"] * 18]


def test_T72_break_and_close_closes_the_producer_and_tells_one_end():
    listener, model = Listener(), rich()
    stream = model.stream_v2("x", {"callbacks": [listener]})
    for _ in stream.text:
        break

    stream.close()

    assert model.interrupted == 1
    assert listener.ends == ["on_llm_error"]


def test_T73_two_threads_on_one_stream_are_safe():
    expected = [f"{number} " for number in range(300)]
    stream = Chunked(items=expected).stream_v2("x")
    texts: list[list[str]] = []
    threads = [threading.Thread(target=lambda: texts.append(list(stream.text))) for _ in range(2)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert texts == [expected, expected]
    assert stream.output.text == "".join(expected)


def test_T74_a_slow_async_consumer_bounds_how_far_the_producer_runs_ahead():
    numbers: list[int] = []

    def piece(number: int) -> Any:
        return lambda: numbers.append(number) or f"{number} "  # type: ignore[func-returns-value]

    async def body() -> None:
        model = AChunked(items=[piece(number) for number in range(100)])
        stream, ahead, reads = await model.astream_v2("x"), 0, 0
        async for _ in stream.text:
            reads += 1
            await asyncio.sleep(0.001)
            ahead = max(ahead, len(numbers) - reads)
        assert reads == 100
        assert ahead <= 2

    run(body)


def test_T75_cancelling_the_consumer_cancels_the_producer():
    listener, model = Listener(), stalling()

    async def body() -> None:
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        reader = asyncio.ensure_future(stream.text.get())
        await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    run(body)
    assert model.interrupted == 1
    assert listener.ends == ["on_llm_error"]


def test_T76_aclose_in_the_middle_ends_the_producer_and_tells_one_error():
    listener, model = Listener(), rich()

    async def body() -> None:
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        async for _ in stream.text:
            break
        await stream.aclose()
        assert model.interrupted == 1
        assert listener.ends == ["on_llm_error"]

    run(body)


def test_T77_aclose_before_consumption_is_no_run_at_all(call):
    listener, model = Listener(), rich()
    if not call.is_async:
        stream = model.stream_v2("x", {"callbacks": [listener]})
        stream.close()
    else:

        async def body() -> Any:
            stream = await model.astream_v2("x", {"callbacks": [listener]})
            await stream.aclose()
            return stream

        stream = call._finish(body)

    assert (listener.events, model.requests) == ([], [])
    assert isinstance(read_again(call, stream, "output"), StreamClosedError)


def test_T78_aclose_while_end_callbacks_run_preserves_the_success_for_every_reader():
    events: list[str] = []

    class Slow(AsyncCallbackHandler):
        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            events.append("end")
            self.inside.set()
            await asyncio.sleep(0.05)

        async def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
            events.append("error")

    async def body() -> None:
        slow = Slow()
        slow.inside = asyncio.Event()
        stream = await AChunked(items=["a", "b"]).astream_v2("x", {"callbacks": [slow]})
        reader = asyncio.ensure_future(stream._final_message())
        other = asyncio.ensure_future(stream.text.get())
        await slow.inside.wait()
        await stream.aclose()
        assert (await reader).text == await other == "ab"
        assert [event["event"] async for event in stream][-1] == "message-finish"
        assert (await stream).text == await stream.text == "ab"
        assert stream.error is None

    run(body)
    assert events == ["end"]


def test_T79_aclose_while_another_task_iterates_gives_it_a_closed_stream():
    async def body() -> None:
        stream = await stalling().astream_v2("x")

        async def iterate() -> None:
            async for _ in stream:
                pass

        reader = asyncio.ensure_future(iterate())
        await asyncio.sleep(0.01)
        await stream.aclose()
        with pytest.raises(StreamClosedError):
            await reader
        assert not reader.cancelled()
        assert reader.cancelling() == 0

    run(body)


def test_T80_a_caller_who_cancels_aclose_gets_its_cancellation():
    class Slow(AsyncCallbackHandler):
        async def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0.2)

    async def body() -> None:
        stream = await rich().astream_v2("x", {"callbacks": [Slow()]})
        async for _ in stream.text:
            break
        closing = asyncio.ensure_future(stream.aclose())
        await asyncio.sleep(0.01)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert closing.cancelled()
        with pytest.raises(StreamClosedError):
            await stream

    run(body)


@pytest.mark.parametrize("items", [["a"], ["a", ModelError("cut")]], ids=["end", "error"])
def test_T81_await_returns_or_raises_after_the_terminal_callback_ran(items):
    events: list[str] = []

    class Slow(AsyncCallbackHandler):
        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0.02)
            events.append("end")

        async def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
            await asyncio.sleep(0.02)
            events.append("error")

    async def body() -> None:
        stream = await AChunked(items=items).astream_v2("x", {"callbacks": [Slow()]})
        try:
            await stream
            assert events == ["end"]
        except ModelError:
            assert events == ["error"]

    run(body)
    assert len(events) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_T82_an_end_handler_that_raises_costs_no_message(call, raises):
    class Broken(BaseCallbackHandler):
        raise_error = raises

        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            raise ValueError("handler")

    listener = Listener()

    reading = read(call, rich(), "output", config={"callbacks": [Broken(), listener]})

    assert (reading.error, reading.value.text) == (None, "Hello")
    assert listener.ends == ["on_llm_end"]
    assert reading.stream.error is None


def test_T83_a_stream_that_succeeded_stays_so_when_its_loop_closes():
    streams: list[Any] = []

    async def body() -> None:
        streams.append(await rich().astream_v2("x"))
        await streams[0]

    run(body)
    (stream,) = streams

    async def later() -> tuple[str, int]:
        return await stream.text, len([event async for event in stream])

    texts, events = run(later)
    assert (texts, stream.error, stream.output_message.text) == ("Hello", None, "Hello")
    assert events > 5


def test_T84_nested_iteration_of_a_pumped_stream_does_not_deadlock_and_ends_with_its_pump():
    async def body() -> None:
        stream = AsyncChatModelStream()
        pending = [start(), *text_events("a", "b")]  # the pump ends before the message does

        async def pump() -> bool:
            if not pending:
                return False
            await asyncio.sleep(0)
            stream.dispatch(pending.pop(0))
            return True

        stream.set_arequest_more(pump)
        kinds: list[str] = []
        texts: list[str] = []
        async for event in stream:
            kinds.append(event["event"])
            if event["event"] == "content-block-start":
                texts += [word async for word in stream.text]
        assert texts == ["a", "b"]
        assert kinds[-1] == "content-block-finish"

    run(body)


def test_T85_a_changed_event_changes_nobody_elses(call):
    reading = read(call, rich(), "events")
    for event in reading.value:
        event.clear()

    events = read_again(call, reading.stream, "events")

    assert events[0]["event"] == "message-start"
    assert read_again(call, reading.stream, "output").text == "Hello"


@pytest.mark.parametrize("kind", [Chunked, Native])
def test_T86_a_keyboard_interrupt_in_the_producer_reaches_the_caller(kind):
    items = ["a"] if kind is Chunked else [start(), *text_events("a")[:2]]
    listener = Listener()
    stream = kind(items=[*items, KeyboardInterrupt()]).stream_v2("x", {"callbacks": [listener]})

    with pytest.raises(KeyboardInterrupt):
        stream.output  # noqa: B018

    assert listener.ends == ["on_llm_error"]
    assert stream.partial.text == "a"


def test_T86_a_system_exit_in_an_async_producer_reaches_the_caller():
    async def body() -> None:
        stream = await ANative(items=[start(), SystemExit(3)]).astream_v2("x")
        await stream

    with pytest.raises(SystemExit):
        asyncio.run(body())


def test_T87_one_error_raised_to_many_readers_keeps_its_traceback(call):
    model = Native(items=[start(), *text_events("a")[:2], ModelError("cut"), FINISH])
    reading = read(call, model, "output")
    lengths = []
    for part in ("output", "text", "events", "slices") * 10:
        error = read_again(call, reading.stream, part)
        assert error is reading.error
        lengths.append(len(traceback.extract_tb(error.__traceback__)))

    assert max(lengths[20:]) <= max(lengths[:4])
