"""Streams and whole answers of the messages API, decoded."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from foldline._sse import SSEDecoder
from foldline.exceptions import (
    FoldlineError,
    MalformedStreamError,
    ModelAPIError,
    ModelOverloadedError,
    StreamTruncatedError,
)
from foldline.messages import AIMessage
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.grammar import assert_valid_event_stream, check
from foldline.providers.anthropic.decode import decode_usage
from tests.providers.anthropic.recordings import (
    LLAMA,
    PAIRS,
    STREAMS,
    decode_stream,
    decode_until_error,
    decoder,
    message_of,
    payloads,
    stream_of,
    whole_of,
)


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_stream_obeys_the_grammar(name):
    events = decode_stream(stream_of(name))

    assert_valid_event_stream(events, message_of(events))


@pytest.mark.parametrize("name", PAIRS)
def test_stream_and_whole_answer_give_the_same_message(name):
    streamed_message = message_of(decode_stream(stream_of(name)))
    whole_message = message_of(decoder().decode_answer(whole_of(name)))

    assert streamed_message == whole_message
    assert streamed_message.usage_metadata == whole_message.usage_metadata
    assert streamed_message.response_metadata == whole_message.response_metadata


@pytest.mark.parametrize("path", LLAMA, ids=lambda path: path.stem)
def test_what_a_real_server_streamed_is_what_it_said_whole(path):
    streamed_message = message_of(decode_stream(path.read_bytes()))
    whole_message = message_of(
        decoder().decode_answer(json.loads(path.with_suffix(".json").read_text()))
    )

    assert streamed_message.text == whole_message.text
    assert [call["args"] for call in streamed_message.tool_calls] == [
        call["args"] for call in whole_message.tool_calls
    ]
    assert streamed_message.usage_metadata == whole_message.usage_metadata
    assert streamed_message.finish_reason == whole_message.finish_reason


def test_every_documented_event_and_delta_occurs_in_the_recordings():
    types: set[str] = set()
    for name in STREAMS:
        for _, data in payloads(stream_of(name)):
            types |= {data["type"], (data.get("delta") or {}).get("type", "")}

    assert types >= {
        "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
        "message_stop", "ping", "text_delta", "input_json_delta", "thinking_delta", "signature_delta",
        "citations_delta", "compaction_delta",
    }  # fmt: skip


def test_text_grows_and_usage_is_the_last_one_said():
    message = message_of(decode_stream(stream_of("text")), "v0")

    assert message.content == "Hello! How can I help you today?"
    assert message.usage_metadata == {
        "input_tokens": 25,
        "output_tokens": 40,
        "total_tokens": 65,
        "input_token_details": {"cache_read": 0, "cache_creation": 0},
    }
    assert message.response_metadata["stop_reason"] == "end_turn"
    assert message.response_metadata["model_provider"] == "anthropic"
    assert message.finish_reason == "stop"


def test_input_tokens_include_the_cached_ones():
    usage = message_of(decode_stream(stream_of("prompt-cache"))).usage_metadata

    assert usage["input_tokens"] == 21 + 456 + 1111
    assert usage["input_token_details"] == {
        "cache_read": 1111,
        "cache_creation": 456,
        "ephemeral_5m_input_tokens": 400,
        "ephemeral_1h_input_tokens": 56,
    }


def test_usage_that_was_not_said_is_absent():
    assert decode_usage({}) == {}
    assert decode_usage({"output_tokens": 3}) == {"output_tokens": 3}


def test_parallel_calls_finish_at_their_own_end():
    events = decode_stream(stream_of("tool-use"))
    finishes = [
        place for place, event in enumerate(events) if event["event"] == "content-block-finish"
    ]
    starts = [
        place for place, event in enumerate(events) if event["event"] == "content-block-start"
    ]
    message = message_of(events, "v0")

    assert finishes[1] < starts[2]
    assert [(call["id"], call["args"]) for call in message.tool_calls] == [
        ("toolu_01A", {"city": "Zürich", "days": [1, 2], "unit": None}),
        ("toolu_01B", {"city": "東京"}),
    ]
    assert message.finish_reason == "tool_use"


@pytest.mark.parametrize(
    ("name", "args"), [("tool-no-arguments", {}), ("tool-input-at-start", {"city": "Oslo"})]
)
def test_arguments_may_be_absent_or_come_with_the_start(name, args):
    (call,) = message_of(decode_stream(stream_of(name))).tool_calls

    assert call["args"] == args


def test_a_call_cut_by_the_limit_is_invalid_and_keeps_its_text():
    message = message_of(decode_stream(stream_of("tool-cut-by-max-tokens")))

    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == '{"text": "unfin'
    assert message.finish_reason == "length"


def test_the_signature_of_thinking_travels_live_and_ends_up_on_its_block():
    events = decode_stream(stream_of("thinking"))
    blocks = message_of(events).content_blocks
    live = [
        event["delta"]["fields"]
        for event in events
        if event.get("delta", {}).get("type") == "block-delta"
    ]

    assert blocks[0]["reasoning"].startswith("27 * 453")
    assert blocks[0]["extras"]["signature"].startswith("EqQBCgIYAhIM")
    assert live[0]["extras"]["signature"] == blocks[0]["extras"]["signature"]
    assert message_of(events).usage_metadata["output_token_details"] == {"reasoning": 29}


def test_omitted_thinking_has_a_signature_and_no_text():
    block = message_of(decode_stream(stream_of("thinking-omitted"))).content_blocks[0]

    assert "reasoning" not in block
    assert block["extras"] == {"signature": "EosnCkYICxIMMb3LzNrMu"}


def test_each_citation_becomes_an_annotation_as_it_arrives():
    events = decode_stream(stream_of("citations-documents"))
    live = [
        len(event["delta"]["fields"]["annotations"])
        for event in events
        if "annotations" in event.get("delta", {}).get("fields", {})
    ]
    (_, cited, _) = message_of(events).content_blocks

    assert live == [2, 3]
    assert [note.get("title") for note in cited["annotations"]] == ["My Document", None, "Notes"]
    assert cited["annotations"][0]["cited_text"] == "The grass is green. "
    assert cited["annotations"][0]["extras"]["citation_type"] == "char_location"


def test_a_web_search_is_a_call_a_result_and_cited_text():
    blocks = message_of(decode_stream(stream_of("web-search"))).content_blocks

    assert [block["type"] for block in blocks] == [
        "text",
        "server_tool_call",
        "server_tool_result",
        "text",
    ]
    assert blocks[1]["args"] == {"query": "claude shannon birth date"}
    assert blocks[2]["tool_call_id"] == blocks[1]["id"]
    assert blocks[2]["status"] == "success"
    assert blocks[3]["annotations"][0]["url"] == "https://en.example.org/wiki/Claude_Shannon"


def test_a_server_tool_that_failed_says_so():
    result = message_of(decode_stream(stream_of("web-search-error"))).content_blocks[1]

    assert result["status"] == "error"
    assert result["output"]["error_code"] == "max_uses_exceeded"


def test_server_calls_are_never_the_clients_calls():
    message = message_of(decode_stream(stream_of("mcp")))

    assert message.tool_calls == []
    assert [block["type"] for block in message.content_blocks] == [
        "non_standard", "server_tool_call", "server_tool_result", "text",
    ]  # fmt: skip
    assert message.content_blocks[1]["extras"] == {
        "server_name": "example-mcp",
        "tool_name": "echo",
    }


def test_compaction_is_kept_whole_in_anthropics_words():
    block = message_of(decode_stream(stream_of("compaction"))).content_blocks[0]

    assert block["value"] == {
        "type": "compaction",
        "content": "Summary: the user wants a website.",
        "encrypted_content": "opaque",
    }


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("text", "end_turn", "stop"),
        ("stop-sequence", "stop_sequence", "stop"),
        ("max-tokens", "max_tokens", "length"),
        ("context-window-exceeded", "model_context_window_exceeded", "length"),
        ("tool-use", "tool_use", "tool_use"),
        ("pause-turn", "pause_turn", "pause"),
        ("compaction-only", "compaction", "pause"),
        ("refusal", "refusal", "refusal"),
        ("refusal-empty", "refusal", "refusal"),
        ("unknown-block", "brand_new_reason", "unknown"),
    ],
)
def test_F_T16_the_stop_reason_is_kept_raw_and_normalised(name, raw, reason):
    message = message_of(decode_stream(stream_of(name)))

    assert (message.response_metadata["stop_reason"], message.finish_reason) == (raw, reason)


def test_a_refusal_says_why():
    message = message_of(decode_stream(stream_of("refusal")))

    details = message.response_metadata["stop_details"]
    assert details["category"] == "bio"
    *before, refusal = message.content_blocks
    assert refusal == {
        "type": "refusal",
        "refusal": details.get("explanation") or "",
        "extras": {"category": "bio"},
    }
    assert message.text == "".join(block["text"] for block in before)


def test_a_refusal_without_text_is_a_block_and_not_an_empty_answer():
    message = message_of(decode_stream(stream_of("refusal-empty")))

    assert [block["type"] for block in message.content_blocks] == ["refusal"]
    assert message.text == ""


def test_F_S12_what_nobody_knows_is_kept_and_harms_nothing():
    block = message_of(decode_stream(stream_of("unknown-block"))).content_blocks[0]
    message = message_of(decode_stream(stream_of("unknown-events")))

    assert block == {
        "type": "non_standard",
        "value": {"type": "hologram", "shape": {"kind": "cube"}, "id": "h1"},
    }
    assert message.text == "Hello"
    assert message.content_blocks[0]["extras"] == {"mood_delta": {"mood": "glad"}}


def test_F_T01_a_stream_that_just_ends_is_truncated():
    events, error = decode_until_error(stream_of("truncated"))

    assert isinstance(error, StreamTruncatedError)
    assert events[-1]["delta"]["text"] == "Half a"


def test_F_T02_a_stop_reason_is_enough():
    assert message_of(decode_stream(stream_of("no-message-stop"))).text == "Half a"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("error-mid-stream", ModelOverloadedError),
        ("error-first", ModelOverloadedError),
        ("error-without-key", ModelOverloadedError),
        ("error-as-text", ModelAPIError),
    ],
)
def test_F_T04_an_error_inside_a_stream_is_typed(name, kind):
    _, error = decode_until_error(stream_of(name))

    assert type(error) is kind
    assert error.is_retryable


@pytest.mark.parametrize("data", [None, [], "text", {"content": None}, {}])
def test_an_answer_of_another_shape_is_malformed(data):
    with pytest.raises(MalformedStreamError):
        decoder().decode_answer(data)


@pytest.mark.parametrize("name", ["tool-use", "thinking", "web-search", "citations-documents"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_F_T15_lost_doubled_and_swapped_events_give_a_message_or_a_typed_error(name, data):
    events = payloads(stream_of(name))
    at = data.draw(st.integers(0, len(events) - 1))
    other = data.draw(st.integers(0, len(events) - 1))
    how = data.draw(st.sampled_from(["drop", "double", "swap"]))
    if how == "drop":
        del events[at]
    elif how == "double":
        events.insert(at, events[at])
    else:
        events[at], events[other] = events[other], events[at]
    decoding, decoded_events = decoder(), []
    try:
        for kind, payload in events:
            decoded_events += decoding.feed(payload, kind)
        decoded_events += decoding.end(marked=False)
    except FoldlineError:
        return
    # A result whose call was lost (V19) is reported all the same: nothing is dropped.
    assert {violation.rule for violation in check(decoded_events)} <= {"V19"}


@pytest.mark.parametrize("name", ["text-unicode", "tool-use", "thinking", "web-search"])
@given(cuts=st.lists(st.integers(0, 4000), max_size=12))
@settings(max_examples=20, deadline=None)
def test_bytes_may_be_cut_anywhere(name, cuts):
    raw = stream_of(name)
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    sse, decoding, events = SSEDecoder(1 << 20, 1 << 23), decoder(), []
    for start, end in pairwise(places):
        for kind, data, _ in sse.feed(raw[start:end]):
            events += decoding.feed(json.loads(data), kind)
    events += decoding.end(marked=False)

    assert message_of(events) == message_of(decode_stream(raw))


@pytest.mark.parametrize("name", ["tool-use", "thinking", "web-search", "citations-documents"])
def test_E2_whatever_arrived_of_a_cut_stream_is_the_beginning_of_the_message(name):
    payload, full_message = payloads(stream_of(name)), message_of(decode_stream(stream_of(name)))
    for count in range(1, len(payload)):
        decoding, builder = decoder(), MessageBuilder()
        for kind, data in payload[:count]:
            for event in decoding.feed(data, kind):
                builder.feed(event)
        partial = AIMessage.from_fold(builder.result(partial=True), "v1")
        assert str(full_message.text).startswith(str(partial.text))
        assert [call for call in partial.tool_calls if call not in full_message.tool_calls] == []
