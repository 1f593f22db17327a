"""Stream objects: laziness, replay, errors, closing, cancelling, threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
from typing import Any

import pytest

from foldline.exceptions import ModelError, StreamClosedError, UsageError
from foldline.testing import Call, Finish, Reason, ScriptedChatModel, Stall
from tests.language_models.reading import (
    FINISH,
    AChunked,
    Chunked,
    Events,
    Listener,
    read,
    read_again,
    start,
    text_events,
    tool_slice,
)

pytestmark = pytest.mark.timing

USED = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def rich() -> ScriptedChatModel:
    turn = [Reason("hm"), "Hel", "lo", Call("f", {"a": 1}, id="c"), Finish("tool_use", USED)]
    return ScriptedChatModel(script=[turn], is_cyclic=True)


# -- reading


def test_projections_give_pieces_and_wholes(call):
    reading = read(call, rich(), "texts", "text", "reasoning", "tool_calls", "usage", "output")

    assert reading.values[:3] == [["Hel", "lo"], "Hello", "hm"]
    assert reading.values[3][0]["args"] == {"a": 1}
    assert reading.values[4] == USED
    assert reading.value.text == "Hello"


def test_tool_calls_iterate_slices_with_id_and_name(call):
    slices = read(call, rich(), "slices").value

    assert "".join(piece["args"] for piece in slices) == '{"a": 1}'
    assert {(piece["id"], piece["name"]) for piece in slices} == {("c", "f")}


def test_T69_nothing_happens_before_the_first_read(call):
    listener, model = Listener(), rich()

    reading = read(call, model, config={"callbacks": [listener]})

    assert (listener.events, model.requests, reading.stream.done) == ([], [], False)
    assert reading.stream.output_message is None


def test_T70_every_iteration_begins_at_the_first_event_and_projections_lose_nothing(call):
    reading = read(call, rich(), "texts", "events", "slices", "events", "texts")

    assert reading.values[1] == reading.values[3]
    assert reading.values[0] == reading.values[4] == ["Hel", "lo"]
    assert len(reading.values[2]) == 1


def test_T71_switching_between_projections_in_the_middle_loses_nothing():
    stream = rich().stream_v2("x")
    text_iterator, events = iter(stream.text), iter(stream)

    first = next(text_iterator)
    kinds = [next(events)["event"] for _ in range(3)]
    texts = [first, *text_iterator]

    assert texts == ["Hel", "lo"]
    assert kinds == ["message-start", "content-block-start", "content-block-delta"]
    assert stream.output.text == "Hello"


def test_T74_a_slow_reader_holds_the_model_back():
    numbers: list[int] = []

    def piece(number: int) -> Any:
        return lambda: numbers.append(number) or f"{number} "  # type: ignore[func-returns-value]

    stream = Chunked(items=[piece(number) for number in range(100)]).stream_v2("x")
    texts = iter(stream.text)

    next(texts)
    next(texts)

    assert len(numbers) <= 3
    stream.close()


def test_T74_a_slow_reader_holds_the_model_back_awaited():
    numbers: list[int] = []

    def piece(number: int) -> Any:
        return lambda: numbers.append(number) or f"{number} "  # type: ignore[func-returns-value]

    async def body() -> None:
        stream = await AChunked(items=[piece(number) for number in range(100)]).astream_v2("x")
        async for _ in stream.text:
            break
        await asyncio.sleep(0.01)
        assert len(numbers) <= 2
        await stream.aclose()

    asyncio.run(body())


def test_usage_is_live_while_somebody_reads():
    stream = rich().stream_v2("x")
    events = iter(stream)
    next(events)

    assert stream.usage is None
    assert [*events][-1]["event"] == "message-finish"
    assert stream.usage == USED
    assert rich().stream_v2("x").usage == USED  # without a reader it reads to the end itself


# -- errors


def test_T87_the_same_error_from_every_reader_and_no_growing_traceback(call):
    reading = read(call, Chunked(items=["a", ModelError("cut")]), "output")
    lengths = []
    for part in ("output", "text", "events", "slices") * 3:
        error = read_again(call, reading.stream, part)
        assert error is reading.error
        lengths.append(len(traceback.extract_tb(error.__traceback__)))

    assert max(lengths) - min(lengths) <= 3


def test_T10_the_partial_is_on_the_error_and_on_the_stream(call):
    reading = read(
        call, ScriptedChatModel(script=[["ab", Call("f", '{"a": ')]], fail_at=5), "output"
    )

    assert reading.error.partial is reading.stream.partial is reading.stream.output_message
    assert reading.error.partial.status == "incomplete"
    assert reading.error.partial.invalid_tool_calls[0]["name"] == "f"
    assert reading.stream.text.so_far == "ab"  # F-T18


# -- closing


def test_T77_closing_before_reading_starts_nothing(call):
    listener, model = Listener(), rich()
    if not call.is_async:
        with model.stream_v2("x", {"callbacks": [listener]}) as stream:
            pass
    else:

        async def body() -> Any:
            async with await model.astream_v2("x", {"callbacks": [listener]}) as stream:
                pass
            return stream

        stream = call._finish(body)

    assert (listener.events, model.requests) == ([], [])
    assert isinstance(read_again(call, stream, "output"), StreamClosedError)


def test_T72_T76_closing_in_the_middle_closes_the_source_and_tells_once(call):
    listener, model = Listener(), rich()
    if not call.is_async:
        stream = model.stream_v2("x", {"callbacks": [listener]})
        next(iter(stream.text))
        stream.close()
        stream.close()
    else:

        async def body() -> Any:
            stream = await model.astream_v2("x", {"callbacks": [listener]})
            async for _ in stream.text:
                break
            await stream.aclose()
            await stream.aclose()
            return stream

        stream = call._finish(body)

    assert model.interrupted == 1
    assert listener.ends == ["on_llm_error"]
    error = read_again(call, stream, "output")
    assert isinstance(error, StreamClosedError)
    assert listener.arguments_of("on_llm_error")[0][0] is error
    assert error.partial.text == "Hel"
    assert read_again(call, stream, "text") is error


def test_a_finished_stream_stays_finished(call):
    reading = read(call, rich(), "output")

    reading.stream.fail(ValueError("late"))
    if not call.is_async:
        reading.stream.close()
    else:
        call._finish(reading.stream.aclose)

    assert read_again(call, reading.stream, "output") is reading.value
    assert reading.stream.error is None


def test_F_C01_a_dropped_stream_is_closed_without_a_garbage_collector():
    listener, model = Listener(), rich()
    gc.disable()
    try:
        stream = model.stream_v2("x", {"callbacks": [listener]})
        next(iter(stream.text))
        del stream

        assert model.interrupted == 1
        assert listener.ends == ["on_llm_error"]
        for _ in model.stream("x", {"callbacks": [listener]}):
            break
        assert model.interrupted == 2
    finally:
        gc.enable()


# -- tasks


def stalling() -> ScriptedChatModel:
    return ScriptedChatModel(script=[["Hel", Stall()]], is_cyclic=True)


def test_T75_cancelling_the_reader_cancels_the_producer_and_others_see_a_closed_stream():
    listener, model = Listener(), stalling()

    async def body() -> None:
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        reader = asyncio.ensure_future(stream._final_message())
        other = asyncio.ensure_future(stream.text.get())
        await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        with pytest.raises(StreamClosedError) as excinfo:
            await other
        assert excinfo.value.partial.text == "Hel"

    asyncio.run(body())
    assert model.interrupted == 1
    assert listener.ends == ["on_llm_error"]


def test_T79_closing_from_another_task_interrupts_the_reader_with_a_closed_stream():
    listener, model = Listener(), stalling()

    async def body() -> None:
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        reader = asyncio.ensure_future(stream._final_message())
        await asyncio.sleep(0.01)
        await stream.aclose()
        assert model.interrupted == 1
        with pytest.raises(StreamClosedError):
            await reader
        assert reader.cancelling() == 0

    asyncio.run(body())
    assert listener.ends == ["on_llm_error"]
    assert isinstance(listener.arguments_of("on_llm_error")[0][0], StreamClosedError)


def test_a_reader_that_was_cancelled_too_is_cancelled():
    async def body() -> None:
        stream = await stalling().astream_v2("x")
        reader = asyncio.ensure_future(stream._final_message())
        await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(stream.aclose())
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await closing
        assert stream.done

    asyncio.run(body())


def test_F_C03_a_timeout_around_a_reader_is_a_timeout():
    model = stalling()

    async def body() -> None:
        stream = await model.astream_v2("x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await stream
        assert isinstance(stream.error, StreamClosedError)

    asyncio.run(body())
    assert model.interrupted == 1


def test_F_C03_cancelled_at_every_await_tells_once_and_closes_the_source():
    async def attempt(at: int) -> bool:
        listener = Listener()
        model = Events(items=[start(), *text_events(*"abcdef"), FINISH])
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        reader = asyncio.ensure_future(stream._final_message())
        for _ in range(at):
            await asyncio.sleep(0)
        reader.cancel()
        result = (await asyncio.gather(reader, return_exceptions=True))[0]
        was_started = bool(listener.arguments_of("on_chat_model_start"))
        assert len(listener.ends) == was_started
        return not isinstance(result, asyncio.CancelledError)

    outcomes = [asyncio.run(attempt(at)) for at in range(30)]
    assert outcomes[0] is False
    assert outcomes[-1] is True


def test_two_tasks_read_one_stream_at_once():
    async def body() -> None:
        stream = await rich().astream_v2("x")
        text_task = asyncio.ensure_future(_pieces(stream.text))
        events = asyncio.ensure_future(_pieces(stream))
        message = await stream
        assert await text_task == ["Hel", "lo"]
        assert (await events)[-1]["event"] == "message-finish"
        assert message.text == "Hello"

    async def _pieces(stream: Any) -> list[Any]:
        return [item async for item in stream]

    asyncio.run(body())


# -- threads


def test_T73_two_threads_read_one_stream():
    model = Chunked(items=[f"{number} " for number in range(300)])
    stream = model.stream_v2("x")
    texts: list[list[str]] = []
    threads = [threading.Thread(target=lambda: texts.append(list(stream.text))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(words == [f"{number} " for number in range(300)] for words in texts)
    assert len(texts) == 4


def test_closing_from_another_thread_ends_the_reader_with_a_closed_stream():
    go, in_wait = threading.Event(), threading.Event()

    def wait() -> str:
        in_wait.set()
        go.wait(5)
        return "b"

    listener = Listener()
    stream = Chunked(items=["a", wait, "c"]).stream_v2("x", {"callbacks": [listener]})
    errors: list[BaseException] = []

    def reading() -> None:
        try:
            list(stream.text)
        except StreamClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=reading)
    thread.start()
    in_wait.wait(5)
    stream.close()
    go.set()
    thread.join(5)

    assert len(errors) == 1
    assert listener.ends == ["on_llm_error"]


def test_reading_a_stream_inside_its_own_callback_is_refused_and_harms_nobody(call):
    errors: list[BaseException] = []

    class ReadingListener(Listener):
        stream: Any = None

        def on_stream_event(self, event: Any, **kwargs: Any) -> None:
            try:
                if not call.is_async:
                    self.stream.output  # noqa: B018
                else:
                    self.stream._request_more().send(None)
            except UsageError as error:
                errors.append(error)

    curious = ReadingListener()
    if not call.is_async:
        curious.stream = stream = rich().stream_v2("x", {"callbacks": [curious]})
        message = stream.output
    else:

        async def body() -> Any:
            curious.stream = stream = await rich().astream_v2("x", {"callbacks": [curious]})
            return await stream

        message = call._finish(body)

    assert message.text == "Hello"
    assert errors


def test_T85_changing_what_a_projection_gave_harms_nobody(call):
    reading = read(call, rich(), "events", "output")
    for event in reading.values[0]:
        event.get("content", {}).clear()
        event.get("delta", {}).clear()

    assert read_again(call, reading.stream, "events")[1]["content"]["type"] == "reasoning"
    assert read_again(call, reading.stream, "tool_calls")[0]["name"] == "f"


def test_late_names_and_ids_are_on_the_slices(call):
    model = Chunked(items=[tool_slice("", name="f", index=0), tool_slice("{}", id="late", index=0)])

    assert read(call, model, "slices").value[-1]["id"] == "late"
