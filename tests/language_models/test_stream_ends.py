"""How a stream ends: closed during its end callbacks, left at its end, read in another event loop, author errors."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from foldline.exceptions import BudgetExceeded, StreamClosedError, UsageError
from foldline.language_models.chat_model_stream import AsyncChatModelStream
from foldline.messages import AIMessage, AIMessageChunk
from foldline.prompts import ChatPromptTemplate
from foldline.testing import ScriptedChatModel, Stall
from tests.language_models.reading import (
    FINISH,
    AChunked,
    ANative,
    AsyncGenerateOnly,
    Chunked,
    Events,
    GenerateOnly,
    Listener,
    Native,
    answer,
    read,
    read_again,
    start,
    text_events,
)

SAID = [start(), *text_events("a", "b"), FINISH]


def run(body: Any) -> Any:
    """Run an async body that must not hang."""
    return asyncio.run(asyncio.wait_for(body(), 10))


class SlowEnd(AsyncCallbackHandler):
    """Waits in one hook; an event is set while it is in it."""

    def __init__(self, hook: str = "on_llm_end", seconds: float = 0.05) -> None:
        self.inside = asyncio.Event()
        self.events: list[str] = []

        async def wait(*args: Any, **kwargs: Any) -> None:
            if hook == "on_stream_event" and args[0]["event"] != "message-finish":
                return
            if hook == "on_chain_end" and not isinstance(args[0], AIMessage):
                return  # a step before the model
            self.inside.set()
            await asyncio.sleep(seconds)

        setattr(self, hook, wait)

    async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("end")

    async def on_llm_error(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("error")


class CountedCache(InMemoryCache):
    """Records the answers that are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        self.texts += [generation.text for generation in return_val]
        super().update(prompt, llm_string, return_val)


# -- closing during the end callbacks

WRAPPERS = {
    "model": lambda model: model,
    "sequence": lambda model: ChatPromptTemplate.from_messages([("human", "{x}")]) | model,
    "retry": lambda model: model.with_retry(),
    "fallbacks": lambda model: model.with_fallbacks([ScriptedChatModel(script=["no"])]),
}
KINDS = {
    "chunks": lambda **fields: AChunked(items=["a", "b"], **fields),
    "native": lambda **fields: ANative(items=SAID, **fields),
    "events": lambda **fields: Events(items=SAID, **fields),
    "whole": lambda **fields: AsyncGenerateOnly(items=["ab"], **fields),
}


async def assert_success(stream: Any) -> None:
    assert (await stream).text == await stream.text == "ab"
    assert [event["event"] async for event in stream][-1] == "message-finish"
    assert (stream.error, stream.done) == (None, True)


ENDS = [
    (wrapper, hook)
    for wrapper in WRAPPERS
    for hook in ("on_llm_end", "on_stream_event", "on_chain_end")
    if (wrapper, hook) != ("model", "on_chain_end")  # a model alone is not a chain
]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("wrapper", "hook"), ENDS)
def test_T78_closing_while_any_hook_of_the_end_runs(kind, wrapper, hook):
    async def body() -> None:
        slow, listener = SlowEnd(hook), Listener()
        model = WRAPPERS[wrapper](KINDS[kind]())
        stream = await model.astream_v2("x", {"callbacks": [slow, listener]})
        reader = asyncio.ensure_future(stream._final_message())
        text_task = asyncio.ensure_future(stream.text.get())
        await slow.inside.wait()
        await stream.aclose()
        assert (await reader).text == await text_task == "ab"
        await assert_success(stream)
        assert listener.ends == ["on_llm_end"]

    run(body)


def test_T78_closing_while_the_answer_is_cached_waits_for_it():
    class SlowCache(CountedCache):
        async def aupdate(self, *args: Any) -> None:
            self.inside.set()
            await asyncio.sleep(0.05)
            await super().aupdate(*args)

    async def body() -> None:
        cache, listener = SlowCache(), Listener()
        cache.inside = asyncio.Event()
        last = AIMessageChunk("b", response_metadata={"finish_reason": "stop"})
        model = AChunked(items=["a", last], cache=cache, callbacks=[listener])
        stream = await model.astream_v2("x")
        reader = asyncio.ensure_future(stream._final_message())
        await cache.inside.wait()
        await stream.aclose()
        assert (await reader).text == "ab"
        await assert_success(stream)
        assert listener.ends == ["on_llm_end"]
        assert cache.texts == ["ab"]

    run(body)


def test_T78_a_handler_may_close_the_stream_whose_end_it_is_told():
    class Closing(AsyncCallbackHandler):
        async def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            await self.stream.aclose()

    async def body() -> None:
        closing = Closing()
        closing.stream = stream = await AChunked(items=["a", "b"]).astream_v2(
            "x", {"callbacks": [closing]}
        )
        await assert_success(stream)

    run(body)


def test_T78_several_may_close_at_once_and_one_of_them_be_cancelled():
    async def body() -> None:
        slow = SlowEnd(seconds=0.2)
        stream = await AChunked(items=["a", "b"]).astream_v2("x", {"callbacks": [slow]})
        reader = asyncio.ensure_future(stream._final_message())
        await slow.inside.wait()
        closings = [asyncio.ensure_future(stream.aclose()) for _ in range(3)]
        await asyncio.sleep(0)
        closings[1].cancel()
        outcomes = await asyncio.gather(*closings, return_exceptions=True)
        assert outcomes[0] is outcomes[2] is None
        assert (await reader).text == "ab"
        await assert_success(stream)

    run(body)


def test_T79_several_may_close_at_once_and_the_reader_is_not_cancelled():
    async def body() -> None:
        stream = await ScriptedChatModel(script=[["a", Stall()]]).astream_v2("x")
        reader = asyncio.ensure_future(stream._final_message())
        await asyncio.sleep(0.01)
        await asyncio.gather(*[stream.aclose() for _ in range(3)])
        with pytest.raises(StreamClosedError):
            await reader
        assert reader.cancelling() == 0

    run(body)


def test_T78_leaving_a_with_block_while_the_end_is_told():
    async def body() -> None:
        slow = SlowEnd()
        async with await AChunked(items=["a", "b"]).astream_v2(
            "x", {"callbacks": [slow]}
        ) as stream:
            reader = asyncio.ensure_future(stream.text.get())
            await slow.inside.wait()
        assert await reader == "ab"
        await assert_success(stream)

    run(body)


def test_T78_closing_from_another_thread_while_the_end_is_told():
    inside, go = threading.Event(), threading.Event()

    class Slow(BaseCallbackHandler):
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            inside.set()
            go.wait(5)

    listener = Listener()
    stream = Chunked(items=["a", "b"]).stream_v2("x", {"callbacks": [Slow(), listener]})
    texts: list[str] = []
    thread = threading.Thread(target=lambda: texts.append(str(stream.text)))
    thread.start()
    inside.wait(5)
    stream.close()
    go.set()
    thread.join(5)

    assert (texts, stream.output.text, stream.error) == (["ab"], "ab", None)
    assert listener.ends == ["on_llm_end"]


def test_T78_a_handler_may_close_a_sync_stream_whose_end_it_is_told():
    class Closing(BaseCallbackHandler):
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            self.stream.close()

    closing = Closing()
    closing.stream = stream = Chunked(items=["a", "b"]).stream_v2("x", {"callbacks": [closing]})

    assert list(stream.text) == ["a", "b"]
    assert (stream.output.text, stream.error) == ("ab", None)


# -- leaving at the end


@pytest.mark.parametrize("leave", ["break", "close", "drop"])
@pytest.mark.parametrize("kind", [Chunked, Native, Events, GenerateOnly])
def test_leaving_at_message_finish_is_a_success(call, leave, kind):
    ended = AIMessageChunk("ab", response_metadata={"finish_reason": "stop"})
    items = {Chunked: [ended], GenerateOnly: ["ab"]}.get(kind, SAID)
    listener, cache = Listener(), CountedCache()
    model = kind(items=items, cache=cache)

    def blocking() -> Any:
        stream = model.stream_v2("x", {"callbacks": [listener]})
        for event in stream:
            if event["event"] == "message-finish":
                assert listener.ends == ["on_llm_end"]  # reported before the event is yielded
                break
        if leave == "close":
            stream.close()
        return None if leave == "drop" else stream

    async def run_async() -> Any:
        stream = await model.astream_v2("x", {"callbacks": [listener]})
        async for event in stream:
            if event["event"] == "message-finish":
                assert listener.ends == ["on_llm_end"]
                break
        if leave == "close":
            await stream.aclose()
        return None if leave == "drop" else stream

    stream = call._finish(run_async) if call.is_async else blocking()
    gc.collect()

    assert listener.ends == ["on_llm_end"]
    if stream is not None:
        assert (read_again(call, stream, "output").text, stream.error) == ("ab", None)
    assert cache.texts == ["ab"]


# -- another event loop


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("part", ["text", "output", "events", "texts", "tool_calls"])
def test_a_stream_read_on_after_its_loop_ended_raises_and_is_no_part_of_an_answer(kind, part):
    streams: list[Any] = []
    listener = Listener()

    async def begin() -> None:
        model = KINDS[kind]()
        streams.append(await model.astream_v2("x", {"callbacks": [listener]}))
        async for _ in streams[0]:
            break

    run(begin)
    (stream,) = streams

    if kind == "whole":  # it came at once: all of it was taken
        assert (listener.ends, stream.error) == (["on_llm_end"], None)
        return

    async def go_on() -> None:
        projection = getattr(stream, part, stream)
        if part in ("events", "texts"):
            async for _ in stream if part == "events" else stream.text:
                pass
        else:
            await projection

    for _ in range(2):
        with pytest.raises(StreamClosedError, match="event loop in which this stream was begun"):
            run(go_on)
    assert listener.ends == ["on_llm_error"]
    assert stream.error.partial is stream.output_message
    assert stream.output_message.status == "incomplete"


def test_a_stream_is_not_read_in_two_loops_at_once_and_is_not_harmed_by_the_attempt():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:

        async def begin() -> Any:
            stream = await AChunked(items=["a", "b"]).astream_v2("x")
            async for _ in stream.text:
                break
            return stream

        stream = first.run_until_complete(begin())
        for attempt in (stream._final_message, stream.aclose):
            with pytest.raises(UsageError, match="another event loop"):
                second.run_until_complete(attempt())
        assert first.run_until_complete(stream._final_message()).text == "ab"
        assert second.run_until_complete(stream.text.get()) == "ab"  # over: anybody may read it
    finally:
        first.close()
        second.close()


def test_closing_a_stream_whose_loop_ended():
    streams: list[Any] = []

    async def begin() -> None:
        streams.append(await AChunked(items=["a", "b"]).astream_v2("x"))
        async for _ in streams[0].text:
            break

    run(begin)
    run(streams[0].aclose)

    assert isinstance(streams[0].error, StreamClosedError)


def test_a_stream_made_in_one_loop_may_be_begun_in_another():
    streams: list[Any] = []

    async def make() -> None:
        streams.append(await AChunked(items=["a", "b"]).astream_v2("x"))

    run(make)

    assert run(streams[0]._final_message).text == "ab"


def test_a_stream_driven_from_outside_goes_on_in_another_loop():
    stream = AsyncChatModelStream()

    async def begin() -> None:
        reader = asyncio.ensure_future(stream.text.get())
        await asyncio.sleep(0)
        stream.dispatch(SAID[0])
        reader.cancel()

    async def go_on() -> str:
        reader = asyncio.ensure_future(stream.text.get())
        for event in SAID[1:]:
            await asyncio.sleep(0)
            stream.dispatch(event)
        return await reader

    run(begin)
    assert run(go_on) == "ab"


# -- an author's own exception


class Slotted(Exception):
    """Takes no attribute that it does not know."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


@pytest.mark.parametrize("fields", [{}, {"disable_streaming": True}, {"guards": [lambda _: True]}])
@pytest.mark.parametrize("kind", [Chunked, AChunked, Native, ANative, Events])
@pytest.mark.parametrize("api", ["invoke", "stream", "v2"])
def test_T10_an_authors_own_exception_carries_what_had_arrived(call, kind, api, fields):
    boom = RuntimeError("boom")
    items = SAID[:3] if kind in (Native, ANative, Events) else ["a"]
    model = kind(items=[*items, boom], **fields)

    ask = {"v2": lambda model, _: answer(call, model), "invoke": call.invoke, "stream": call.stream}
    with pytest.raises(RuntimeError, match="boom") as excinfo:
        ask[api](model, "x")

    assert excinfo.value is boom
    assert excinfo.value.partial.text == "a"
    assert excinfo.value.partial.status == "incomplete"


@pytest.mark.parametrize("kind", [GenerateOnly, AsyncGenerateOnly])
def test_T10_an_exception_before_anything_came_carries_an_empty_partial(call, kind):
    with pytest.raises(RuntimeError) as excinfo:
        call.invoke(kind(items=[RuntimeError("boom")]), "x")

    assert (excinfo.value.partial.text, excinfo.value.partial.status) == ("", "incomplete")


def test_an_exception_that_takes_no_attribute_passes_as_it_is(call):
    with pytest.raises(Slotted) as excinfo:
        call.invoke(Chunked(items=["a", Slotted("boom")]), "x")

    assert not hasattr(excinfo.value, "partial")


def test_what_an_exception_says_itself_stays(call):
    boom = RuntimeError("boom")
    boom.partial = "mine"  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError) as excinfo:
        call.invoke(Chunked(items=["a", boom]), "x")

    assert excinfo.value.partial == "mine"


def test_a_budget_that_is_spent_before_the_call_has_no_partial(call):
    with pytest.raises(BudgetExceeded) as excinfo:
        call.invoke(Chunked(items=[BudgetExceeded("none left")]), "x")

    assert excinfo.value.partial is None


def test_the_exception_of_who_drives_a_stream_carries_the_partial():
    stream = AsyncChatModelStream()
    for event in SAID[:3]:
        stream.dispatch(event)
    stream.fail(OSError("gone"))

    assert stream.error.partial.text == "a"


# -- projections


def test_bool_says_whether_anything_was_said_so_far(call):
    model = Chunked(items=["", "a", "b"])
    if not call.is_async:
        stream = model.stream_v2("x")
        truths = [bool(stream.text), bool(stream.reasoning), bool(stream.tool_calls)]
        for _ in stream.text:
            truths.append(bool(stream.text))
            break
    else:

        async def body() -> Any:
            stream = await model.astream_v2("x")
            truths = [bool(stream.text), bool(stream.reasoning), bool(stream.tool_calls)]
            async for _ in stream.text:
                truths.append(bool(stream.text))
                break
            return stream, truths

        stream, truths = call._finish(body)

    assert truths == [False, False, False, True]
    assert not stream.reasoning


def test_bool_of_a_text_that_came_whole_or_with_its_finish(call):
    events = [start(), *text_events("")[:1], text_events("abc")[-1], FINISH]

    assert read(call, Native(items=events), "output").stream.text
    assert read(call, GenerateOnly(items=["abc"]), "output").stream.text
    assert not read(call, GenerateOnly(items=[""]), "output").stream.text


def test_repr_of_a_text_projection_is_its_text(call):
    reading = read(call, Chunked(items=["it's ", "so"]), "output")

    assert repr(reading.stream.text) == repr("it's so")
    assert repr(reading.stream.reasoning) == repr("")
    assert "so far" in repr(reading.stream.tool_calls)


def test_a_projection_is_the_same_one_each_time(call):
    stream = read(call, Chunked(items=["a"])).stream

    assert stream.text is stream.text
    assert stream.reasoning is stream.reasoning
    assert stream.tool_calls is stream.tool_calls
    assert stream.text is not stream.reasoning
    if call.is_async:
        assert stream.output is stream.output
        assert stream.usage is stream.usage


def test_a_held_projection_keeps_its_stream_and_the_stream_holds_no_projection():
    model = ScriptedChatModel(script=["one two three"], is_cyclic=True)
    assert list(model.stream_v2("x").text) == ["one", " two", " three"]
    gc.disable()
    try:
        texts = model.stream_v2("x").text
        next(iter(texts))
        del texts
        assert model.interrupted == 1
    finally:
        gc.enable()


# -- options that are not the author's


@pytest.mark.parametrize("name", ["ls_structured_output_format", "structured_output_format"])
@pytest.mark.parametrize("api", ["invoke", "stream", "v2", "generate"])
@pytest.mark.parametrize("kind", [Chunked, GenerateOnly, Native, Events])
def test_the_format_for_traces_reaches_no_author_and_is_told_at_the_start(call, name, api, kind):
    items = SAID if kind in (Native, Events) else ["ab"]
    model, listener = kind(items=items, calls=[]), Listener()
    schema = {"title": "Answer", "type": "object", "properties": {"a": {"type": "integer"}}}
    options = {name: {"schema": schema, "kwargs": {"method": "json_mode"}}}
    config = {"callbacks": [listener]}

    if api == "v2":
        assert read(call, model, "output", config=config, **options).error is None
    elif api == "generate":
        call.generate(model, [["x"]], callbacks=[listener], **options)
    else:
        getattr(call, api)(model, "x", config, **options)

    ((_, options_seen),) = model.calls
    assert name not in options_seen
    (start,) = listener.arguments_of("on_chat_model_start")
    assert start["options"]["ls_structured_output_format"] == options[name]
    assert name not in start["invocation_params"]


def test_a_format_that_nobody_can_describe_is_left_out(call):
    model, listener = Chunked(items=["a"], calls=[]), Listener()

    call.invoke(model, "x", {"callbacks": [listener]}, ls_structured_output_format={"schema": 3})
    call.invoke(model, "x", {"callbacks": [listener]}, structured_output_format="text")

    assert all(list(kwargs) == ["stop"] for _, kwargs in model.calls)
    for start_call in listener.arguments_of("on_chat_model_start"):
        assert "ls_structured_output_format" not in start_call["options"]
