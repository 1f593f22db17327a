"""Document 001, the change that brought `stream_v2`: what its description and its commits say beside its samples."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import BaseChatModel, FakeListChatModel
from foldline.language_models._compat_bridge import (
    achunks_to_events,
    chunks_to_events,
    message_to_events,
)
from foldline.language_models.chat_model_stream import (
    AsyncChatModelStream,
    AsyncProjection,
    ChatModelStream,
    SyncProjection,
    SyncTextProjection,
)
from foldline.messages import AIMessage, AIMessageChunk
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from foldline.protocol import assert_valid_event_stream
from foldline.runnables import RunnableBinding
from foldline.testing import Call, Finish, Reason, ScriptedChatModel
from foldline.tracers._streaming import _V2StreamingCallbackHandler
from tests.language_models.reading import (
    FINISH,
    AChunked,
    ANative,
    Chunked,
    Native,
    read,
    start,
    text_events,
)
from tests.rate_limiters.counting import CountingLimiter

USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


class Observer(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.names: list[str] = []
        self.events: list[Any] = []
        self.results: list[Any] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.names.append("start")

    def on_stream_event(self, event: Any, **kwargs: Any) -> None:
        self.events.append(event)

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.names.append("token")

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.names.append("end")
        self.results.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.names.append("error")


class V2Observer(Observer, _V2StreamingCallbackHandler):
    """Asks for events under `invoke` too."""


# -- projections


def test_every_projection_of_the_document_has_its_part():
    call = Call("look_up", {"title": "Moby-Dick"}, id="c")
    stream = ScriptedChatModel(script=[[Reason("hm"), "A whale", call, Finish("stop", USAGE)]])
    stream = stream.stream_v2("x")

    assert str(stream.reasoning) == "hm"
    assert str(stream.text) == "A whale"
    assert [(c["name"], c["args"], c["id"]) for c in stream.tool_calls.get()] == [
        ("look_up", {"title": "Moby-Dick"}, "c")
    ]
    assert stream.usage == USAGE
    assert [block["type"] for block in stream.output.content] == [
        "reasoning",
        "text",
        "tool_call",
    ]
    assert isinstance(stream.tool_calls, SyncProjection)
    assert isinstance(stream.text, SyncTextProjection)


def test_every_awaited_projection_has_its_part():
    async def body() -> None:
        call = Call("look_up", {"title": "Moby-Dick"}, id="c")
        model = ScriptedChatModel(script=[[Reason("hm"), "A whale", call, Finish("stop", USAGE)]])
        stream = await model.astream_v2("x")

        assert isinstance(stream, AsyncChatModelStream)
        assert isinstance(stream.tool_calls, AsyncProjection)
        assert await stream.reasoning == "hm"
        assert (await stream.tool_calls)[0]["args"] == {"title": "Moby-Dick"}
        assert await stream.usage == USAGE
        assert (await stream.output).text == (await stream).text == "A whale"

    asyncio.run(body())


def test_a_projection_is_driven_from_outside_under_the_names_of_the_document():
    pending = ["a", "b"]
    projection: Any = SyncTextProjection()

    def more() -> bool:
        if not pending:
            projection.complete()
            return False
        projection.push(pending.pop(0))
        return True

    projection.set_request_more(more)

    assert not projection.done
    assert list(projection) == ["a", "b"]
    assert projection.done
    assert projection.error is None
    failed: Any = SyncProjection()
    failed.fail(KeyError("k"))
    assert isinstance(failed.error, KeyError)
    with pytest.raises(KeyError):
        failed.get()


def test_a_pump_that_runs_dry_ends_the_reading_without_waiting():
    async def body() -> list[str]:
        stream = AsyncChatModelStream()
        pending = [start(), *text_events("a", "b")][:-1]

        async def pump() -> bool:
            if not pending:
                return False
            stream.dispatch(pending.pop(0))
            return True

        stream.set_arequest_more(pump)
        return [piece async for piece in stream.text]

    assert asyncio.run(asyncio.wait_for(body(), 5)) == ["a", "b"]


def test_a_projection_read_inside_the_loop_over_streams_drives_its_producer():
    async def body() -> list[str]:
        stream = AsyncChatModelStream()
        pending = [start(), *text_events("a", "b"), FINISH]

        async def pump() -> bool:
            await asyncio.sleep(0)
            if not pending:
                return False
            stream.dispatch(pending.pop(0))
            return True

        stream.set_arequest_more(pump)

        async def streams() -> Any:
            yield stream

        return [piece async for each in streams() async for piece in each.text]

    assert asyncio.run(asyncio.wait_for(body(), 5)) == ["a", "b"]


def test_the_message_is_seen_without_waiting_once_it_is_there():
    stream = ChatModelStream()
    for event in (start(), *text_events("a")):
        stream.dispatch(event)
    assert stream.output_message is None

    stream.dispatch(FINISH)

    assert stream.output_message.text == "a"


def test_events_are_replayed_to_every_reader(call: Any):
    if call.is_async:

        async def body() -> list[Any]:
            stream = await FakeListChatModel(responses=["ab"]).astream_v2("x")
            return [[event async for event in stream] for _ in range(2)]

        first, second = asyncio.run(body())
    else:
        stream = FakeListChatModel(responses=["ab"]).stream_v2("x")
        first, second = list(stream), list(stream)

    assert first == second
    assert first[-1]["event"] == "message-finish"


# -- callbacks of a v2 call


@pytest.mark.parametrize("kind", [Chunked, AChunked, Native, ANative])
def test_observers_get_each_event_once_whatever_the_author_wrote(call: Any, kind: Any):
    items = [start(), *text_events("a", "b"), FINISH] if "Native" in kind.__name__ else ["a", "b"]
    observer = Observer()

    events = call.stream_v2(kind(items=items), "x", {"callbacks": [observer]})

    assert observer.events == events
    assert observer.names == ["start", "end"]


def test_the_end_of_a_v2_call_brings_the_assembled_message(call: Any):
    observer = Observer()

    call.stream_v2(FakeListChatModel(responses=["ab"]), "x", {"callbacks": [observer]})

    [[generation]] = observer.results[0].generations
    assert isinstance(generation, ChatGeneration)
    assert generation.message.text == "ab"


def test_the_end_is_reported_before_an_awaited_stream_returns():
    async def body() -> list[str]:
        observer = Observer()
        stream = await FakeListChatModel(responses=["ab"]).astream_v2(
            "x", {"callbacks": [observer]}
        )
        await stream
        return observer.names

    assert asyncio.run(body()) == ["start", "end"]


def test_a_cancelled_reader_gets_its_cancellation_and_not_a_swallowed_error():
    class Slow(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "slow"

        async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
            yield ChatGenerationChunk(message=AIMessageChunk("a"))
            await asyncio.sleep(60)

    async def body() -> None:
        stream = await Slow().astream_v2("x")
        task = asyncio.ensure_future(stream._final_message())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(body(), 5))


def test_the_limiter_is_asked_once_for_a_v2_call(call: Any):
    limiter = CountingLimiter()

    call.stream_v2(FakeListChatModel(responses=["ab"], rate_limiter=limiter), "x")

    assert limiter.count == 1


# -- the marker


def test_a_marked_handler_gets_events_under_invoke_and_everything_else_stays(call: Any):
    observer, limiter = V2Observer(), CountingLimiter()
    last = AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})
    items = ["a", "b", last]  # a stream without a reason may have been cut: it is not cached
    model = Chunked(items=items, rate_limiter=limiter, cache=InMemoryCache())
    plain = call.invoke(Chunked(items=items), "x")

    answers = [call.invoke(model, "x", {"callbacks": [observer]}) for _ in range(2)]

    assert [answer.content for answer in answers] == [plain.content] * 2
    assert observer.names == ["start", "end"] * 2
    assert observer.events[0]["event"] == "message-start"
    assert limiter.count == 1


def test_a_handler_without_the_marker_gets_no_event_under_invoke(call: Any):
    observer = Observer()

    call.invoke(Chunked(items=["a", "b"]), "x", {"callbacks": [observer]})

    assert observer.events == []


def test_neither_stream_nor_a_handler_that_only_listens_changes_v1(call: Any):
    observer = Observer()

    chunks = call.stream(Chunked(items=["a", "b"]), "x", {"callbacks": [observer]})

    assert observer.events == []
    assert observer.names.count("token") == len(chunks)


# -- bindings


def test_bound_options_reach_a_v2_call_and_those_of_the_call_win(call: Any):
    calls: list[Any] = []
    bound = Chunked(items=["a"], calls=calls).bind(stop=["."], temperature=0)

    assert isinstance(bound, RunnableBinding)
    call.stream_v2(bound, "x", temperature=1)

    assert calls[0][1] == {"stop": ["."], "temperature": 1}


# -- the bridge


def test_metadata_of_a_response_comes_with_the_finish_and_is_in_the_message(call: Any):
    last = AIMessageChunk(content="", response_metadata={"finish_reason": "stop", "region": "eu"})
    model = Chunked(items=["a", last])

    events = call.stream_v2(model, "x")
    message = read(call, model, "output").value

    assert events[-1]["metadata"]["region"] == "eu"
    assert message.response_metadata["region"] == "eu"
    assert message.response_metadata["finish_reason"] == "stop"


def test_v2_keeps_what_v1_gives(call: Any):
    last = AIMessageChunk(content="", usage_metadata=USAGE, response_metadata={"model_name": "m"})
    slices = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[{"name": "f", "args": '{"a"', "id": "c", "index": 1}],
        ),
        AIMessageChunk(
            content="",
            tool_call_chunks=[{"name": None, "args": ": 1}", "id": None, "index": 1}],
        ),
    ]
    model = Chunked(items=["a", *slices, last])

    v1 = call.invoke(model, "x")
    v2 = read(call, model, "output").value

    assert v2.text == v1.text
    assert v2.tool_calls == v1.tool_calls
    assert v2.usage_metadata == v1.usage_metadata == USAGE
    assert v2.response_metadata["model_name"] == v1.response_metadata["model_name"] == "m"


def test_a_broken_call_is_invalid_everywhere(call: Any):
    broken = AIMessageChunk(
        content="", tool_call_chunks=[{"name": "f", "args": '{"a": ', "id": "c", "index": 0}]
    )
    model = Chunked(items=[broken])

    message = read(call, model, "output").value
    finishes = [
        event["content"]
        for event in call.stream_v2(model, "x")
        if event["event"] == "content-block-finish"
    ]

    assert [block["type"] for block in finishes] == ["invalid_tool_call"]
    assert message.tool_calls == []
    assert [(c["name"], c["args"]) for c in message.invalid_tool_calls] == [("f", '{"a": ')]


@pytest.mark.parametrize(
    ("args", "kind"), [('{"q": 1}', "server_tool_call"), ('{"q"', "invalid_tool_call")]
)
def test_slices_of_a_server_call_become_a_call_or_an_invalid_one(args: str, kind: str):
    slices = [
        {"type": "server_tool_call_chunk", "id": "s", "name": "web", "args": args[:3], "index": 0},
        {"type": "server_tool_call_chunk", "args": args[3:], "index": 0},
    ]
    chunks = [AIMessageChunk(content=[block]) for block in slices]

    events = list(chunks_to_events(chunks, message_id="m"))

    assert_valid_event_stream(events)
    finish = next(event for event in events if event["event"] == "content-block-finish")
    assert finish["content"]["type"] == kind


CALL = {"id": "c", "name": "f", "args": {"a": 1}}
HEAVY = [
    ({"type": "image", "base64": "AAAA", "mime_type": "image/png"}, "base64"),
    ({"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}, "base64"),
    ({"type": "video", "base64": "AAAA", "mime_type": "video/mp4"}, "base64"),
    ({"type": "file", "base64": "AAAA", "mime_type": "application/pdf"}, "base64"),
    ({"type": "non_standard", "value": {"odd": True}}, "value"),
    ({"type": "tool_call", **CALL}, "args"),
    ({"type": "server_tool_call", **CALL}, "args"),
    (
        {
            "type": "server_tool_result",
            "id": "r",
            "tool_call_id": "c",
            "status": "success",
            "output": [1],
        },
        "output",
    ),
]


@pytest.mark.parametrize(("block", "heavy"), HEAVY, ids=lambda value: str(value)[:30])
def test_a_start_has_what_identifies_a_block_and_its_finish_has_the_data(block: Any, heavy: str):
    events = list(message_to_events(AIMessage(content=[block], id="m")))
    caller = AIMessage(content=[{**CALL, "type": "server_tool_call"}])

    assert_valid_event_stream(events, earlier=[caller])
    begun = next(event for event in events if event["event"] == "content-block-start")["content"]
    finish = next(event for event in events if event["event"] == "content-block-finish")["content"]
    assert not begun.get(heavy)
    assert finish[heavy] == block[heavy]
    for key in ("id", "name", "tool_call_id", "mime_type", "url", "status"):
        if key in block and begun["type"] == block["type"]:
            assert begun.get(key) == block[key], key


def test_an_invalid_call_of_a_stored_message_is_replayed():
    invalid = {"type": "invalid_tool_call", "name": "f", "args": "{", "id": "c", "error": "no JSON"}

    events = list(message_to_events(AIMessage(content="", invalid_tool_calls=[invalid], id="m")))

    kinds = [e["content"]["type"] for e in events if e["event"] == "content-block-finish"]
    assert kinds == ["invalid_tool_call"]


def test_chunks_without_an_index_are_one_block():
    chunks = [AIMessageChunk(content=piece) for piece in ("a", "b", "c")]

    events = list(chunks_to_events(chunks, message_id="m"))

    assert_valid_event_stream(events)
    assert [e["event"] for e in events].count("content-block-start") == 1


def test_no_chunks_make_no_events():
    async def nothing() -> Any:
        return
        yield

    async def read_all() -> list[Any]:
        return [event async for event in achunks_to_events(nothing(), message_id="m")]

    assert list(chunks_to_events([], message_id="m")) == asyncio.run(read_all()) == []


def test_extras_of_reasoning_merge_and_other_fields_are_replaced(call: Any):
    deltas = [
        {"type": "reasoning", "reasoning": "hm", "index": 0, "extras": {"a": 1}},
        {"type": "reasoning", "reasoning": "", "index": 0, "extras": {"signature": "s"}},
    ]
    model = Chunked(items=[AIMessageChunk(content=[delta]) for delta in deltas])

    [block] = read(call, model, "output").value.content

    assert block["reasoning"] == "hm"
    assert block["extras"] == {"a": 1, "signature": "s"}


def test_a_model_that_only_generates_gives_a_valid_stream(call: Any):
    class Generating(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "generating"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("ab"))])

    events = call.stream_v2(Generating(), "x")

    assert_valid_event_stream(events)
    assert [event["event"] for event in events].count("content-block-delta") == 1
