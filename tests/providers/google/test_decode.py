"""Streams and whole answers of `generateContent`, decoded."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from google.genai.types import GenerateContentResponse
from hypothesis import given, settings, strategies as st

from foldline._sse import SSEDecoder
from foldline.exceptions import (
    FoldlineError,
    MalformedStreamError,
    ModelOverloadedError,
    StreamTruncatedError,
)
from foldline.messages import AIMessage
from foldline.protocol.fold import MessageBuilder
from foldline.protocol.grammar import assert_valid_event_stream, check
from foldline.providers.google.decode import decode_usage
from tests.providers.google.recordings import (
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


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "unknown-part"])
def test_googles_own_types_hear_the_same(name):
    message, sdk_response = (
        message_of(decoder().decode_answer(whole_of(name))),
        GenerateContentResponse(**whole_of(name)),
    )
    parts = (
        sdk_response.candidates[0].content.parts
        if sdk_response.candidates and sdk_response.candidates[0].content
        else None
    ) or []

    assert message.text == "".join(part.text for part in parts if part.text and not part.thought)
    calls = [
        (part.function_call.name, part.function_call.args or {})
        for part in parts
        if part.function_call
    ]
    assert [(call["name"], call["args"]) for call in message.tool_calls] == calls
    assert message.usage_metadata["total_tokens"] == sdk_response.usage_metadata.total_token_count


def test_text_grows_and_usage_is_the_last_one_said():
    message = message_of(decode_stream(stream_of("text")), "v0")

    assert message.content == "Hello! How can I help you today?"
    assert message.usage_metadata == {"input_tokens": 12, "output_tokens": 30, "total_tokens": 42}
    assert message.response_metadata["finish_reason"] == "STOP"
    assert message.response_metadata["model_name"] == "gemini-3-flash-preview"
    assert message.response_metadata["safety_ratings"][0]["probability"] == "NEGLIGIBLE"
    assert message.finish_reason == "stop"


def test_thoughts_are_reasoning_and_count_as_output():
    message = message_of(decode_stream(stream_of("thinking")))

    assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]
    assert message.content_blocks[1]["extras"] == {"thought_signature": "RWpRS01nRU1PZGJIMg=="}
    assert message.usage_metadata["output_tokens"] == 63
    assert message.usage_metadata["output_token_details"] == {"reasoning": 33}


def test_several_calls_in_a_chunk_get_ids_of_their_own_that_stay_the_same():
    first = message_of(decode_stream(stream_of("function-calls-parallel")))
    second = message_of(decode_stream(stream_of("function-calls-parallel")))

    assert [call["args"] for call in first.tool_calls] == [{"city": "Paris"}, {"city": "東京"}, {}]
    assert len({call["id"] for call in first.tool_calls}) == 3
    assert [call["id"] for call in first.tool_calls] == [call["id"] for call in second.tool_calls]
    assert len(message_of(decode_stream(stream_of("function-call-same-twice"))).tool_calls) == 2


def test_the_signature_belongs_to_its_call():
    blocks = message_of(decode_stream(stream_of("function-calls-parallel"))).content_blocks

    assert [block.get("extras") for block in blocks[1:]] == [
        {"thought_signature": "RXBRQmJvdGg="},
        None,
        None,
    ]


def test_googles_ids_are_kept():
    (call,) = message_of(decode_stream(stream_of("function-call-with-id"))).tool_calls

    assert call["id"] == "function-call-123"


def test_arguments_that_come_one_by_one_make_one_call():
    (call,) = message_of(decode_stream(stream_of("function-call-arguments-streamed"))).tool_calls

    assert call["args"] == {"place": {"city": "New York"}, "nights": [2], "late": False}
    assert (call["id"], call["name"]) == ("fc-9", "book")


def test_code_that_google_ran_is_a_server_tool():
    message = message_of(decode_stream(stream_of("code-execution")))
    _, call, result, _ = message.content_blocks

    assert call["args"] == {"code": "print(sum([2, 3]))", "language": "PYTHON"}
    assert result["tool_call_id"] == call["id"]
    assert (result["status"], result["output"]) == ("success", "5\n")
    assert message.tool_calls == []
    assert (
        message_of(decode_stream(stream_of("code-execution-failed"))).content_blocks[1]["status"]
        == "error"
    )


def test_grounding_becomes_citations_counted_in_characters():
    (block,) = message_of(decode_stream(stream_of("grounding"))).content_blocks
    notes = block["annotations"]

    assert [note["title"] for note in notes] == ["aljazeera.com", "aljazeera.com", "uefa.com"]
    assert block["text"][: notes[0]["end_index"]] == notes[0]["cited_text"]
    assert block["text"][notes[2]["start_index"] : notes[2]["end_index"]] == notes[2]["cited_text"]


def test_recited_sources_are_citations():
    (block,) = message_of(decode_stream(stream_of("citations"))).content_blocks

    assert block["annotations"] == [
        {"type": "citation", "url": "https://example.org/hamlet", "end_index": 18}
    ]


def test_pictures_and_sounds_are_media_blocks():
    _, image = message_of(decode_stream(stream_of("image"))).content_blocks
    (sound,) = message_of(decode_stream(stream_of("audio"))).content_blocks

    assert (image["type"], image["mime_type"], image["base64"]) == (
        "image",
        "image/png",
        "iVBORw0KGgo=",
    )
    assert sound["type"] == "audio"


def test_usage_knows_cache_tools_and_modalities():
    usage = decode_usage(
        {
            "promptTokenCount": 100,
            "toolUsePromptTokenCount": 20,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 5,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 40},
                {"modality": "AUDIO", "tokenCount": 60},
            ],
        }
    )

    assert usage == {
        "input_tokens": 120,
        "output_tokens": 5,
        "total_tokens": 125,
        "input_token_details": {"audio": 60, "cache_read": 60},
    }
    assert decode_usage({}) == {}
    assert decode_usage({"promptTokenCount": 3}) == {
        "input_tokens": 3,
        "output_tokens": 0,
        "total_tokens": 3,
    }


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("max-tokens", "MAX_TOKENS", "length"),
        ("max-tokens-in-thought", "MAX_TOKENS", "length"),
        ("safety", "SAFETY", "content_filter"),
        ("safety-without-content", "SAFETY", "content_filter"),
        ("recitation", "RECITATION", "content_filter"),
        ("malformed-function-call", "MALFORMED_FUNCTION_CALL", "error"),
        ("blocked-prompt", "PROHIBITED_CONTENT", "content_filter"),
        ("unknown-part", "BRAND_NEW", "unknown"),
        ("function-call", "STOP", "stop"),
    ],
)
def test_F_T17_a_block_or_a_broken_call_is_never_an_ordinary_end(name, raw, reason):
    message = message_of(decode_stream(stream_of(name)))

    assert (message.response_metadata["finish_reason"], message.finish_reason) == (raw, reason)


def test_F_T17_a_blocked_prompt_is_a_refusal_that_says_why():
    message = message_of(decode_stream(stream_of("blocked-prompt")))

    assert message.content_blocks == [
        {"type": "refusal", "refusal": "", "extras": {"block_reason": "PROHIBITED_CONTENT"}}
    ]
    assert message.response_metadata["prompt_feedback"]["blockReason"] == "PROHIBITED_CONTENT"


@pytest.mark.parametrize("name", ["safety", "safety-without-content"])
def test_F_T17_an_answer_that_was_stopped_for_safety_ends_with_a_refusal(name):
    message = message_of(decode_stream(stream_of(name)))

    *before, refusal = message.content_blocks
    assert refusal["type"] == "refusal"
    assert refusal["extras"] == {"finish_reason": "SAFETY"}
    assert [block["type"] for block in before] == (["text"] if name == "safety" else [])
    assert message.text == "".join(block["text"] for block in before)


def test_F_T17_a_malformed_call_can_be_asked_for_again():
    with pytest.raises(MalformedStreamError, match="get_weather") as excinfo:
        decode_stream(stream_of("malformed-function-call"), retries_malformed_calls=True)

    assert excinfo.value.is_retryable


def test_F_S12_what_nobody_knows_is_kept():
    block = message_of(decode_stream(stream_of("unknown-part"))).content_blocks[0]

    assert block == {"type": "non_standard", "value": {"hologram": {"shape": "cube"}}}


def test_F_T12_empty_and_null_chunks_harm_nothing():
    message = message_of(decode_stream(stream_of("odd-chunks")))

    assert (message.text, message.usage_metadata["input_tokens"]) == ("Hi", 3)


def test_F_T14_other_candidates_are_kept_apart():
    others = []
    message = message_of(decoder(others=others).decode_answer(whole_of("two-candidates")))

    assert message.text == "One."
    assert [(other_message.text, other_message.finish_reason) for other_message in others] == [
        ("Two.", "length")
    ]


def test_a_stream_that_came_as_a_list_is_one_answer():
    chunks = [data for _, data in payloads(stream_of("thinking"))]

    assert message_of(decoder().decode_answer(chunks)) == message_of(
        decode_stream(stream_of("thinking"))
    )


def test_F_T01_a_stream_that_just_ends_is_truncated():
    events, error = decode_until_error(stream_of("truncated"))

    assert isinstance(error, StreamTruncatedError)
    assert events[-1]["delta"]["text"] == "Half a"


@pytest.mark.parametrize("name", ["error-mid-stream", "error-first"])
def test_F_T04_an_error_inside_a_stream_is_typed(name):
    _, error = decode_until_error(stream_of(name))

    assert type(error) is ModelOverloadedError
    assert (error.status, error.code) == (503, "UNAVAILABLE")


@pytest.mark.parametrize("data", [{}, {"usageMetadata": {}}, "text", [[]]])
def test_an_answer_of_another_shape_is_malformed(data):
    with pytest.raises(MalformedStreamError):
        decoder().decode_answer(data)


@pytest.mark.parametrize("name", ["thinking", "function-calls-parallel", "code-execution"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_F_T15_lost_doubled_and_swapped_chunks_give_a_message_or_a_typed_error(name, data):
    chunks = [payload for _, payload in payloads(stream_of(name))]
    at, other = (data.draw(st.integers(0, len(chunks) - 1)) for _ in range(2))
    how = data.draw(st.sampled_from(["drop", "double", "swap"]))
    if how == "drop":
        del chunks[at]
    elif how == "double":
        chunks.insert(at, chunks[at])
    else:
        chunks[at], chunks[other] = chunks[other], chunks[at]
    decoding = decoder()
    try:
        events = [event for chunk in chunks for event in decoding.feed(chunk)]
        events += decoding.end(marked=False)
    except FoldlineError:
        return
    assert {violation.rule for violation in check(events)} <= {"V19"}


@pytest.mark.parametrize("name", ["text-unicode", "thinking", "function-calls-parallel"])
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


@pytest.mark.parametrize(
    "name", ["thinking", "text-unicode", "function-calls-parallel", "code-execution"]
)
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
