"""The checklist of the streaming spec through models: lifecycle, text, metadata (T01-T19, T58-T68, T100)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError, ModelError, StreamTruncatedError
from foldline.messages import AIMessageChunk, HumanMessage, ToolMessage
from foldline.outputs import ChatGenerationChunk
from foldline.protocol import message_to_events
from tests.language_models.reading import (
    FINISH,
    Chunked,
    Events,
    Listener,
    Native,
    answer,
    block_finish,
    block_start,
    delta,
    output_blocks,
    read,
    read_again,
    start,
    text,
    text_events,
)

KINDS = ["message-start", "content-block-start", "content-block-delta", "content-block-delta"]


def kinds(events: list[Any]) -> list[str]:
    return [event["event"] for event in events]


# -- lifecycle


def test_T01_two_text_chunks_give_the_whole_lifecycle(call):
    reading = read(call, Chunked(items=["Hel", "lo"]), "events", "output")

    assert kinds(reading.values[0]) == [*KINDS, "content-block-finish", "message-finish"]
    assert reading.value.text == "Hello"


def test_T02_no_chunk_at_all_is_one_error_and_no_end(call):
    listener = Listener()

    reading = read(call, Chunked(items=[]), "output", config={"callbacks": [listener]})

    assert isinstance(reading.error, StreamTruncatedError)
    assert listener.ends == ["on_llm_error"]


def test_T03_only_empty_text_is_a_message_without_blocks(call):
    reading = read(call, Chunked(items=["", ""]), "events", "output")

    assert kinds(reading.values[0]) == ["message-start", "message-finish"]
    assert reading.value.content == []


@pytest.mark.parametrize("model", [Native, Events])
def test_T04_a_missing_finish_is_synthesized_and_observers_see_it(call, model):
    listener = Listener()
    instance = model(items=[start(), *text_events("hi")])

    reading = read(call, instance, "events", "output", config={"callbacks": [listener]})

    assert kinds(reading.values[0])[-1] == "message-finish"
    assert listener.arguments_of("on_stream_event")[-1]["event"] == "message-finish"
    assert call.invoke(instance, "x").text == call.stream(instance, "x")[0].text == "hi"


def test_T05_an_event_after_the_end_is_a_protocol_error(call):
    reading = read(call, Native(items=[start(), *text_events("a"), FINISH, text(0, "b")]), "output")

    assert isinstance(reading.error, MalformedStreamError)


def test_T06_a_block_finished_twice_is_a_protocol_error(call):
    twice = [*text_events("a"), block_finish(0, type="text", text="a")]

    assert isinstance(
        read(call, Native(items=[start(), *twice]), "output").error, MalformedStreamError
    )


def test_T07_a_delta_for_an_unknown_block_is_a_protocol_error(call):
    reading = read(call, Native(items=[start(), *text_events("a"), text(7, "b")]), "output")

    assert isinstance(reading.error, MalformedStreamError)
    assert reading.error.partial.text == "a"


def test_T08_unknown_events_and_deltas_are_ignored(call):
    events = [
        {"event": "ping"},
        start(),
        {"event": "ping"},
        block_start(0, type="text", text=""),
        delta(0, type="sparkle-delta", sparkle="*"),
        text(0, "a"),
        block_finish(0, type="text", text="a"),
        FINISH,
    ]

    assert read(call, Native(items=events), "output").value.text == "a"


@pytest.mark.parametrize("has_text", [0, 1])
def test_T09_an_error_event_is_a_typed_error_with_message_and_code(call, has_text):
    before = [start(), *text_events("par")][: 4 * has_text + 1]
    failure = {"event": "error", "message": "too hot", "code": "overheated"}

    reading = read(call, Native(items=[*before, failure]), "output")

    assert isinstance(reading.error, ModelError)
    assert (reading.error.message, reading.error.code) == ("too hot", "overheated")
    assert reading.error.partial.text == "par" * has_text
    assert read_again(call, reading.stream, "events") is reading.error


@pytest.mark.parametrize("error", [ModelError("cut"), ValueError("cut")])
def test_T10_a_provider_that_breaks_gives_what_came_then_the_error_everywhere(call, error):
    listener = Listener()
    model = Chunked(items=["Hel", "lo", error])
    texts: list[str] = []

    if not call.is_async:
        stream = model.stream_v2("x", {"callbacks": [listener]})
        with pytest.raises(type(error)) as excinfo:
            texts.extend(stream.text)  # pragma: no branch
    else:

        async def body() -> Any:
            stream = await model.astream_v2("x", {"callbacks": [listener]})
            with pytest.raises(type(error)) as excinfo:  # noqa: PT012  the loop is what raises
                async for piece in stream.text:
                    texts.append(piece)  # noqa: PERF401
            return stream, excinfo

        stream, excinfo = call._finish(body)
    assert excinfo.value is error
    assert stream.text.so_far == "Hello"
    for part in ("output", "events", "text", "slices"):
        assert read_again(call, stream, part) is error
    assert stream.output_message.text == "Hello"
    assert stream.output_message.status == "incomplete"
    assert listener.ends == ["on_llm_error"]
    assert listener.arguments_of("on_llm_error")[0][1].generations[0][0].message is stream.partial


def test_T10_what_was_heard_of_usage_is_on_the_partial(call):
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    model = Chunked(items=[AIMessageChunk(content="a", usage_metadata=usage), ModelError("cut")])

    assert read(call, model, "output").error.partial.usage_metadata == usage


def test_T11_text_that_a_native_producer_left_open_is_in_the_output(call):
    open_text = [start(), block_start(0, type="text", text=""), text(0, "half")]

    assert answer(call, Native(items=open_text)).text == "half"


# -- text


def test_T12_two_text_blocks(call):
    events = [start(), *text_events("a"), *text_events("b", index=1), FINISH]

    assert [block["text"] for block in output_blocks(call, Native(items=events))] == ["a", "b"]


def test_T13_interleaved_text_blocks_keep_their_own_text(call):
    events = [
        start(),
        block_start(0, type="text", text=""),
        block_start(1, type="text", text=""),
        text(0, "a1"),
        text(1, "b1"),
        text(0, "a2"),
        text(1, "b2"),
        block_finish(0, type="text", text="a1a2"),
        block_finish(1, type="text", text="b1b2"),
        FINISH,
    ]

    reading = read(call, Native(items=events), "texts", "text", "output")

    assert reading.values[0] == ["a1", "b1", "a2", "b2"]
    assert reading.values[1] == reading.value.text == "a1a2b1b2"


def test_T14_two_citations_in_separate_deltas_are_both_kept(call):
    def cited(title: str) -> list[Any]:
        citation = {"type": "citation", "title": title}
        return [{"type": "text", "text": "", "annotations": [citation], "index": 0}]

    model = Chunked(items=[[{"type": "text", "text": "a", "index": 0}], cited("x"), cited("y")])

    (block,) = output_blocks(call, model)
    assert [annotation["title"] for annotation in block["annotations"]] == ["x", "y"]


@pytest.mark.parametrize(
    ("final", "texts"),
    [("Hello there", ["Hello", " there"]), ("Bye", ["Hello"]), ("Hello", ["Hello"])],
)
@pytest.mark.parametrize("model", [Native, Events])
def test_T15_a_finish_may_extend_its_deltas_and_wins_where_it_contradicts_them(
    call, model, final, texts
):
    events = [
        start(),
        block_start(0, type="text", text=""),
        text(0, "Hello"),
        block_finish(0, type="text", text=final),
        FINISH,
    ]

    reading = read(call, model(items=events), "texts", "text", "output")

    assert reading.values == [texts, final, reading.value]
    assert reading.value.text == final


def test_T16_T17_a_late_signature_in_two_deltas_is_in_the_output_and_in_the_next_request(call):
    def signed(**extras: str) -> list[Any]:
        return [{"type": "reasoning", "extras": extras, "index": 0}]

    first = [{"type": "reasoning", "reasoning": "hm", "index": 0}]
    model = Chunked(items=[first, signed(signature="ab"), signed(signature="cd")], calls=[])

    message = answer(call, model)
    call.invoke(model, [HumanMessage("q"), message, HumanMessage("more")])

    assert message.content == [
        {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "abcd"}}
    ]
    sent_message = model.calls[-1][0][1]
    assert sent_message.content_blocks[0]["extras"] == {"signature": "abcd"}


def test_T18_reasoning_without_text_stays_without(call):
    model = Chunked(items=[[{"type": "reasoning", "id": "rs_1", "index": 0}], "ok"])

    block = output_blocks(call, model)[0]
    assert block["type"] == "reasoning"
    assert "reasoning" not in block
    assert block["id"] == "rs_1"


def test_T19_a_late_id_is_kept(call):
    first = [{"type": "reasoning", "reasoning": "hm", "index": 0}]
    late_blocks = [{"type": "reasoning", "reasoning": "", "id": "rs_9", "index": 0}]

    assert output_blocks(call, Chunked(items=[first, late_blocks]))[0]["id"] == "rs_9"


# -- metadata

USED = {
    "input_tokens": 5,
    "output_tokens": 2,
    "total_tokens": 7,
    "input_token_details": {"cache_read": 3},
}


def test_T58_T60_usage_in_two_chunks_is_summed_with_its_details_everywhere(call):
    listener = Listener()
    pieces = [AIMessageChunk(content=word, usage_metadata=USED) for word in "ab"]

    reading = read(
        call, Chunked(items=pieces), "events", "output", "usage", config={"callbacks": [listener]}
    )

    end_usage = listener.arguments_of("on_llm_end")[0].generations[0][0].message.usage_metadata
    event_usage = listener.arguments_of("on_stream_event")[-1]["usage"]
    for usage in (
        reading.values[1].usage_metadata,
        reading.value,
        end_usage,
        event_usage,
        reading.values[0][-1]["usage"],
    ):
        assert usage["input_tokens"] == 10
        assert usage["input_token_details"] == {"cache_read": 6}


def test_T59_running_totals_are_not_summed(call):
    class Cumulative(Chunked):
        _usage_mode = "last"

    pieces = [AIMessageChunk(content=word, usage_metadata=USED) for word in "ab"]

    assert answer(call, Cumulative(items=pieces)).usage_metadata["input_tokens"] == 5


def test_T61_unknown_usage_keys_are_kept(call):
    finish = {**FINISH, "usage": {**USED, "stars": 9}}

    message = answer(call, Native(items=[start(), *text_events("a"), finish]))

    assert message.usage_metadata["stars"] == 9


def test_T62_changing_an_event_harms_nobody(call):
    class ClearingListener(Listener):
        def on_stream_event(self, event: Any, **kwargs: Any) -> None:
            event.clear()

    model = Chunked(items=["a", [{"type": "reasoning", "reasoning": "r", "extras": {"k": [1]}}]])
    reading = read(call, model, "events", "output", config={"callbacks": [ClearingListener()]})
    for event in reading.values[0]:
        event.clear()

    assert reading.value.content[0]["text"] == "a"
    assert kinds(read_again(call, reading.stream, "events"))[0] == "message-start"
    assert read_again(call, reading.stream, "output").content[1]["extras"] == {"k": [1]}


def test_T63_a_finish_reason_of_null_does_not_hide_the_real_one(call):
    pieces = [
        ChatGenerationChunk(
            message=AIMessageChunk(content="a"), generation_info={"finish_reason": None}
        ),
        ChatGenerationChunk(
            message=AIMessageChunk(content="b"), generation_info={"finish_reason": "stop"}
        ),
        ChatGenerationChunk(
            message=AIMessageChunk(content=""), generation_info={"finish_reason": None}
        ),
    ]

    message = answer(call, Chunked(items=pieces))

    assert message.finish_reason == "stop"
    assert message.response_metadata["finish_reason"] == "stop"


def test_T64_message_metadata_wins_and_the_model_name_is_not_doubled(call):
    info = {"model_name": "old", "k": 1}
    pieces = [
        ChatGenerationChunk(
            message=AIMessageChunk(content=word, response_metadata={"model_name": "m"}),
            generation_info=info,
        )
        for word in "ab"
    ]

    metadata = answer(call, Chunked(items=pieces)).response_metadata

    assert (metadata["model_name"], metadata["k"]) == ("m", 1)


@pytest.mark.parametrize("version", [None, "v0", "v1"])
def test_T65_v2_output_is_marked_v1_whatever_the_models_own_version(call, version):
    model = Chunked(items=["a"], output_version=version)

    message = answer(call, model)
    result = call.invoke(model, "x")

    assert message.response_metadata["output_version"] == "v1"
    assert message.content == [{"type": "text", "text": "a"}]
    assert isinstance(result.content, list) is (version == "v1")
    assert ("output_version" in result.response_metadata) is (version == "v1")


def test_T66_additional_kwargs_are_kept_through_replay_too(call):
    pieces = [AIMessageChunk(content="a", additional_kwargs={"k": {"n": 1}})]

    message = answer(call, Chunked(items=pieces))
    replayed = answer(call, Native(items=list(message_to_events(message))))

    assert message.additional_kwargs == replayed.additional_kwargs == {"k": {"n": 1}}


def test_T67_the_providers_id_is_exposed(call):
    reading = read(
        call, Chunked(items=[AIMessageChunk(content="", id="chatcmpl-1"), "a"]), "events", "output"
    )

    assert (
        reading.values[0][0]["id"] == reading.value.id == reading.stream.message_id == "chatcmpl-1"
    )
    assert answer(call, Chunked(items=["a"])).id.startswith("lc_run--")


def test_T68_metadata_that_is_no_json_is_made_so(call):
    chunk = AIMessageChunk(content="a", response_metadata={"day": date(2026, 1, 2), "raw": b"x"})

    events = read(call, Chunked(items=[chunk]), "events").value

    json.dumps(events)
    assert "2026-01-02" in json.dumps(events[-1])


def test_T100_tool_results_never_surface_as_the_models_text(call):
    result = {
        "type": "server_tool_result",
        "tool_call_id": "s",
        "status": "success",
        "output": "SECRET",
    }
    server = {"type": "server_tool_call", "id": "s", "name": "search", "args": {}}

    assert read(call, Chunked(items=[[server], [result], "answer"]), "text").value == "answer"
    events = list(message_to_events(ToolMessage(content="SECRET", tool_call_id="c")))
    assert read(call, Native(items=events), "text").value == ""
