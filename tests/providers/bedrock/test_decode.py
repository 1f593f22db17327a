"""Converse -> events: whole and streamed answers give one message; nothing of them is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import MalformedStreamError, ModelError, StreamTruncatedError
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers._wire import guarded
from foldline.providers.bedrock.decode import STOP_REASONS, decode_citation, decode_usage
from tests.providers.bedrock.answers import (
    CITATION,
    NAMES,
    TRACE,
    USAGE,
    WEB_CITATION,
    decode_stream,
    decoder,
    events_of,
    message_of,
    whole_of,
    without_index,
)


@pytest.mark.parametrize("name", NAMES)
def test_stream_and_whole_answer_give_one_message(name):
    stream_events = decode_stream(events_of(name))
    whole_events = decoder().decode_answer(copy.deepcopy(whole_of(name)))

    assert_valid_event_stream(stream_events)
    assert_valid_event_stream(whole_events)
    first, second = message_of(stream_events), message_of(whole_events)
    assert without_index(first) == without_index(second)
    assert first.usage_metadata == second.usage_metadata
    assert first.response_metadata == second.response_metadata
    assert first.tool_calls == second.tool_calls


def blocks_of(name: str) -> list[dict[str, Any]]:
    return without_index(message_of(decode_stream(events_of(name))))


def test_a_call_has_its_arguments():
    message = message_of(decode_stream(events_of("tool-call")))

    assert message.tool_calls == [
        {"name": "get_weather", "args": {"city": "Köln"}, "id": "t_1", "type": "tool_call"}
    ]
    assert message.finish_reason == "tool_use"


def test_reasoning_has_its_signature_and_what_is_redacted_stays():
    assert blocks_of("reasoning")[0] == {
        "type": "reasoning",
        "reasoning": "Let me think.",
        "extras": {"signature": "SIG=="},
    }
    assert blocks_of("redacted")[0]["extras"] == {"redactedContent": "AAECAw=="}


def test_citations_are_annotations_of_the_text():
    text = blocks_of("citations")[1]

    assert text["text"] == "Sales rose."
    assert text["annotations"][0] == {
        "type": "citation",
        "title": "Report",
        "cited_text": "Sales rose.",
        "extras": {"source": "report.pdf", "location": CITATION["location"]},
    }
    assert text["annotations"][1]["url"] == "https://example.com"
    assert text["annotations"][1]["extras"]["sourceContent"] == WEB_CITATION["sourceContent"]


def test_tools_that_bedrock_runs_are_server_tools():
    call, result, _ = blocks_of("server-tool")

    assert (call["type"], call["name"], call["args"]) == (
        "server_tool_call",
        "nova_grounding",
        {"q": "x"},
    )
    assert result == {
        "type": "server_tool_result",
        "tool_call_id": "s_1",
        "status": "success",
        "output": [{"text": "found it"}, {"json": {"n": 1}}],
        "extras": {"type": "nova_grounding_result"},
    }


def test_a_picture_comes_whole():
    assert blocks_of("image") == [{"type": "image", "base64": "AAECAw==", "mime_type": "image/png"}]


def test_what_is_newer_than_this_version_is_kept():
    assert blocks_of("unknown-block")[1] == {
        "type": "non_standard",
        "value": {"hologram": {"depth": 3, "data": "xy"}},
    }


def test_metadata_keeps_latency_trace_and_further_fields():
    guarded = message_of(decode_stream(events_of("guardrail")))
    extra = message_of(decode_stream(events_of("extra-fields")))

    assert guarded.response_metadata["trace"] == TRACE
    assert guarded.response_metadata["metrics"] == {"latencyMs": 345}
    assert guarded.response_metadata["stopReason"] == "guardrail_intervened"
    assert guarded.finish_reason == "content_filter"
    assert extra.response_metadata["additionalModelResponseFields"] == {"stop_sequence": "###"}
    assert extra.response_metadata["performanceConfig"] == {"latency": "optimized"}
    assert extra.response_metadata["serviceTier"] == {"type": "flex"}
    assert extra.response_metadata["model_provider"] == "bedrock_converse"
    assert "p" not in extra.response_metadata


@pytest.mark.parametrize(("reason", "expected"), STOP_REASONS.items())
def test_every_stop_reason_has_our_word(reason, expected):
    answer = {**whole_of("text"), "stopReason": reason}

    assert message_of(decoder().decode_answer(answer)).finish_reason == expected


@pytest.mark.parametrize("reason", ["content_filtered", "guardrail_intervened"])
def test_an_answer_that_a_filter_left_empty_is_a_refusal(reason):
    empty = {**whole_of("text"), "stopReason": reason}
    empty["output"] = {"message": {"role": "assistant", "content": []}}

    message = message_of(decoder().decode_answer(empty))

    assert message.content_blocks == [
        {"type": "refusal", "refusal": "", "extras": {"stop_reason": reason}}
    ]


def test_text_that_a_guardrail_changed_is_an_answer_and_filtered_text_ends_with_a_refusal():
    masked = {**whole_of("text"), "stopReason": "guardrail_intervened"}
    filtered = {**whole_of("text"), "stopReason": "content_filtered"}

    kinds = [
        [block["type"] for block in message_of(decoder().decode_answer(answer)).content_blocks]
        for answer in (masked, filtered)
    ]

    assert kinds == [["text"], ["text", "refusal"]]


def test_usage_counts_the_cache_as_input():
    usage = {**USAGE, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 50}
    details = [{"ttl": "1h", "inputTokens": 50}]

    assert decode_usage({**usage, "cacheDetails": details}) == {
        "input_tokens": 162,
        "output_tokens": 7,
        "total_tokens": 169,
        "input_token_details": {
            "cache_read": 100,
            "cache_creation": 50,
            "ephemeral_1h_input_tokens": 50,
        },
    }


# -- odd answers


@pytest.mark.parametrize("usage", [None, "free", [1], 5, {"inputTokens": "5"}, {"cacheDetails": 1}])
def test_usage_that_counts_nothing_costs_no_answer(usage):
    assert (
        message_of(decoder().decode_answer({**whole_of("text"), "usage": usage})).text
        == "Hello there."
    )


@pytest.mark.parametrize("answer", [[], "x", {}, {"output": {}}, {"output": {"message": []}}])
def test_an_answer_without_a_message_is_malformed(answer):
    with pytest.raises(MalformedStreamError):
        decoder().decode_answer(answer)


def test_an_answer_without_content_is_an_empty_message():
    message = message_of(decoder().decode_answer({"output": {"message": {"role": "assistant"}}}))

    assert message.content_blocks == []


@pytest.mark.parametrize("block", [{"text": 5}, {"toolUse": "x"}, {}, {"image": {"format": "png"}}])
def test_a_block_of_another_shape_is_kept(block):
    answer = {"output": {"message": {"content": [block, {"text": "on"}]}}, "stopReason": "end_turn"}

    first, second = without_index(message_of(decoder().decode_answer(answer)))
    assert first == {"type": "non_standard", "value": block}
    assert second["text"] == "on"


@pytest.mark.parametrize("value", [[1], 3, "[1]", '"x"', "{"])
def test_input_that_is_no_object_makes_an_invalid_call(value):
    call = {"toolUse": {"toolUseId": "t", "name": "f", "input": value}}
    answer = {"output": {"message": {"content": [call]}}, "stopReason": "tool_use"}

    message = message_of(decoder().decode_answer(answer))
    assert message.tool_calls == []
    assert len(message.invalid_tool_calls) == 1


@pytest.mark.parametrize("name", [name for name in NAMES if name != "empty"])
def test_a_stream_without_its_end_is_truncated(name):
    events = [
        (kind, data) for kind, data in events_of(name) if kind not in ("messageStop", "metadata")
    ]

    with pytest.raises(StreamTruncatedError):
        decode_stream(events)


def test_a_stream_without_metadata_is_complete():
    message = message_of(decode_stream(events_of("text")[:-1]))

    assert (message.text, message.finish_reason, message.usage_metadata) == (
        "Hello there.",
        "stop",
        None,
    )


def test_metadata_before_the_stop_is_counted():
    *events, stop, metadata = events_of("text")

    assert message_of(decode_stream([*events, metadata, stop])).usage_metadata["input_tokens"] == 12


def test_unknown_events_are_kept_as_metadata():
    events = [("initial-response", {}), ("weather", {"sun": 1, "p": "x"}), *events_of("text")]
    message = message_of(decode_stream(events))

    assert message.response_metadata["weather"] == {"sun": 1}
    assert "initial-response" not in message.response_metadata


def test_a_block_that_never_stopped_is_in_the_message():
    events = [(kind, data) for kind, data in events_of("image") if kind != "contentBlockStop"]

    assert without_index(message_of(decode_stream(events))) == blocks_of("image")


def test_what_was_held_is_known_when_a_stream_breaks():
    decoding = decoder()
    for kind, data in events_of("server-tool")[:6]:
        decoding.feed(data, kind)

    (block,) = decoding.partial_state()["blocks"]
    assert block["value"]["toolResult"]["toolUseId"] == "s_1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["text", "toolUse", "input", "name", "delta", "start", "reasoningContent",
                         "citation", "toolResult", "content", "contentBlockIndex", "stopReason"]),
        inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([
    "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "other"]),
    json_values), max_size=6))  # fmt: skip
def test_odd_events_make_our_errors_or_a_message(events):
    decoding = decoder()
    read: list[Any] = []
    try:
        for kind, data in events:
            read += guarded(MalformedStreamError, decoding.feed, data, kind)
        read += guarded(MalformedStreamError, decoding.end, marked=False)
    except ModelError:
        return
    assert_valid_event_stream(read)


def test_a_citation_without_anything_is_a_citation():
    assert decode_citation({}) == {"type": "citation"}
