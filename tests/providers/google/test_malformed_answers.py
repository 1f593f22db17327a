"""Answers of Gemini that are odd, unfinished or hostile: an answer stands, or an error has its type."""

from __future__ import annotations

import json

import pytest

from foldline.exceptions import (
    MalformedStreamError,
    ModelAuthenticationError,
    ModelRateLimitError,
    StreamTruncatedError,
)
from foldline.messages.block_translators.google_genai import translate
from foldline.protocol.fold import MessageBuilder
from foldline.providers.google import ChatGoogle, GoogleGenerativeAIEmbeddings
from tests.providers.google.recordings import decoder, message_of
from tests.servers.script import Answer, json_answer

CHAT = "/models/gemini-2.5-flash:generateContent"
STREAM = "/models/gemini-2.5-flash:streamGenerateContent"
EMBED = "/models/gemini-embedding-001:batchEmbedContents"
TOKEN = "ya29.a-token-of-google-cloud"
BUSY = {
    "code": 429,
    "status": "RESOURCE_EXHAUSTED",
    "message": "slow",
    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "32.5s"}],
}


def answer(*parts, usage=None, **candidate) -> dict:
    default_candidate = {"content": {"parts": list(parts)}, "finishReason": "STOP", **candidate}
    more = {} if usage is None else {"usageMetadata": usage}
    return {"responseId": "r-1", "candidates": [default_candidate], **more}


def decode_message(*parts, **fields):
    return message_of(decoder().decode_answer(answer(*parts, **fields)))


def decode_chunks(*chunks) -> list:
    decoding = decoder()
    events = [event for chunk in chunks for event in decoding.feed(chunk)]
    return events + decoding.end(marked=False)


def growing(*pieces, ends=True, **call) -> list[dict]:
    """The chunks of a call whose arguments come one by one."""
    first_part = {"functionCall": {"name": "book", "willContinue": True, **call}}
    next_part = {"functionCall": {"partialArgs": list(pieces), "willContinue": not ends}}
    return [answer(part, finishReason=None) for part in (first_part, next_part)]


def events_of(*chunks) -> Answer:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    return Answer(body, headers={"content-type": "text/event-stream"}, framing="chunked")


# -- usage


@pytest.mark.parametrize(
    ("usage", "expected_counts"),
    [
        ({"promptTokenCount": "12"}, None),
        ({"promptTokenCount": True, "candidatesTokenCount": 3}, (0, 3, 3)),
        ({"promptTokenCount": 2, "promptTokensDetails": "x"}, (2, 0, 2)),
        ({"promptTokenCount": 2, "promptTokensDetails": [None, "x"]}, (2, 0, 2)),
        ({"promptTokenCount": 2, "totalTokenCount": [9]}, (2, 0, 2)),
        ("x", None),
        ([1], None),
    ],
)
def test_E1_odd_usage_costs_only_the_counts(usage, expected_counts):
    decoding = decoder()
    message = message_of(decoding.decode_answer(answer({"text": "Hi"}, usage=usage)))

    assert message.text == "Hi"
    assert message.response_metadata["usage_metadata"] == usage
    counts = message.usage_metadata and tuple(message.usage_metadata.values())
    assert counts == expected_counts
    assert decoding.partial_state()["metadata"]["usage_metadata"] == usage


def test_E1_a_later_null_takes_no_count_back():
    first = answer({"text": "Hi"}, usage={"promptTokenCount": 7}, finishReason=None)
    message = message_of(decode_chunks(first, answer(usage={"promptTokenCount": None})))

    assert message.usage_metadata["input_tokens"] == 7


def test_E1_what_was_heard_holds_counts_alone():
    decoding = decoder()
    decoding.feed(answer(usage={"promptTokenCount": -4, "candidatesTokenCount": 2}))

    assert decoding.partial_state()["usage"]["output_tokens"] == 2
    assert "input_tokens" not in decoding.partial_state()["usage"]


# -- calls


@pytest.mark.parametrize("args", [[1], [], "x", '{"a": 1}', 3, False])
def test_F_U03_E5_arguments_that_are_no_object_make_an_invalid_call(args):
    call = {"name": "wipe", "id": "1", "args": args}
    message = decode_message({"functionCall": call})
    (block,) = translate({"functionCall": call})

    assert message.tool_calls == []
    assert [tool_call["args"] for tool_call in message.invalid_tool_calls] == [json.dumps(args)]
    assert (block["type"], block["args"]) == ("invalid_tool_call", json.dumps(args))


@pytest.mark.parametrize("args", [None, "", {}])
def test_a_call_without_arguments_is_a_call(args):
    call = {"name": "now", "id": "1", "args": args}

    assert decode_message({"functionCall": call}).tool_calls[0]["args"] == {}
    assert translate({"functionCall": call})[0]["args"] == {}


def test_F_U01_a_call_that_never_ends_is_invalid():
    chunks = growing({"jsonPath": "$.city", "stringValue": "New "}, ends=False)
    message = message_of(decode_chunks(*chunks, answer()))

    assert message.tool_calls == []
    (call,) = message.invalid_tool_calls
    assert (call["name"], call["args"]) == ("book", '{"city": "New "}')


def test_F_U01_another_call_does_not_finish_one_that_never_ended():
    chunks = growing({"jsonPath": "$.city", "stringValue": "New "}, ends=False)
    other = answer({"functionCall": {"name": "wait", "args": {"days": 1}}})
    message = message_of(decode_chunks(*chunks, other))

    assert [(call["name"], call["args"]) for call in message.tool_calls] == [("wait", {"days": 1})]
    assert [call["name"] for call in message.invalid_tool_calls] == ["book"]
    assert message.tool_calls[0]["id"] != message.invalid_tool_calls[0]["id"]


def test_E2_a_call_that_was_cut_off_is_in_the_partial_message_as_invalid(fault_server, call):
    chunks = growing({"jsonPath": "$.city", "stringValue": "New "}, ends=False)
    fault_server.script(STREAM, events_of(*chunks))
    model = ChatGoogle(base_url=fault_server.url, api_key="key", max_retries=0)
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.stream(model, "Hi")

    (tool_call,) = excinfo.value.partial.invalid_tool_calls
    assert (tool_call["name"], tool_call["args"]) == ("book", '{"city": "New "}')
    assert excinfo.value.partial.tool_calls == []


@pytest.mark.parametrize(
    "path", ["$.a[20000000]", "$.a[17]", f"$.a[{'9' * 5000}]", "$" + ".a" * 5000]
)
def test_E8_a_path_of_a_few_bytes_makes_no_huge_value(path):
    with pytest.raises(MalformedStreamError):
        decode_chunks(*growing({"jsonPath": path, "numberValue": 1}))


def test_E8_a_path_through_a_value_that_is_no_object_is_malformed():
    pieces = [{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": "$.a.b", "numberValue": 2}]

    with pytest.raises(MalformedStreamError):
        decode_chunks(*growing(*pieces))


@pytest.mark.parametrize(
    ("pieces", "args"),
    [
        (
            [{"jsonPath": "$.a[1].x", "numberValue": 1}, {"jsonPath": "$.a[0].x", "numberValue": 2}],
            {"a": [{"x": 2}, {"x": 1}]},
        ),
        (
            [{"jsonPath": "$.a[1]", "stringValue": "b"}, {"jsonPath": "$.a[0]", "stringValue": "a"}],
            {"a": ["a", "b"]},
        ),
        ([{"jsonPath": "$.a[2]", "boolValue": True}], {"a": [None, None, True]}),
    ],
)  # fmt: skip
def test_E8_places_of_a_list_share_nothing(pieces, args):
    (call,) = message_of(decode_chunks(*growing(*pieces), answer())).tool_calls

    assert call["args"] == args


# -- answers that are not complete


def test_E3_a_whole_answer_without_a_reason_to_stop_is_truncated_and_keeps_what_was_heard():
    decoding, builder = decoder(), MessageBuilder()
    part = answer({"text": "Half a"}, finishReason=None, usage={"promptTokenCount": 5})
    with pytest.raises(StreamTruncatedError, match="finishReason"):
        decoding.decode_answer(part)
    builder.note(**decoding.partial_state())

    assert decoding.partial_state()["usage"]["input_tokens"] == 5
    assert [block["text"] for block in builder.blocks(partial=True)] == ["Half a"]


@pytest.mark.parametrize(
    "response", [{"candidates": []}, {"candidates": None}, {"promptFeedback": {}, "candidates": []}]
)
def test_E3_a_whole_answer_without_candidates_is_malformed(response):
    decoding = decoder()
    with pytest.raises(MalformedStreamError, match="no candidates"):
        decoding.decode_answer({**response, "usageMetadata": {"promptTokenCount": 5}})

    assert decoding.partial_state()["usage"]["input_tokens"] == 5


def test_E3_a_prompt_that_was_blocked_is_an_answer():
    feedback = {"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []}

    assert message_of(decoder().decode_answer(feedback)).finish_reason == "content_filter"


def test_E3_the_partial_message_of_a_truncated_whole_answer_has_its_text(fault_server, call):
    part = answer({"text": "Half a"}, finishReason=None, usage={"promptTokenCount": 5})
    fault_server.script(CHAT, json_answer(part))
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.invoke(ChatGoogle(base_url=fault_server.url, api_key="key", max_retries=0), "Hi")

    partial = excinfo.value.partial
    assert (partial.text, partial.usage_metadata["input_tokens"]) == ("Half a", 5)


# -- secrets, and how long to wait


@pytest.mark.parametrize("key", [TOKEN, "AIza-a-key-of-the-api"])
def test_a_credential_that_is_said_back_is_not_shown(fault_server, call, key):
    refusal = json_answer({"error": {"code": 401, "message": f"no such key: {key}"}}, 401)
    fault_server.script(CHAT, refusal)
    fault_server.script(EMBED, refusal)
    settings = {"base_url": fault_server.url, "api_key": key, "max_retries": 0}
    with pytest.raises(ModelAuthenticationError) as chat:
        call.invoke(ChatGoogle(**settings), "Hi")
    with pytest.raises(ModelAuthenticationError) as embeddings:
        call.run(GoogleGenerativeAIEmbeddings(**settings), "embed_query", "a")

    for error in (chat.value, embeddings.value):
        assert key not in f"{error} {error.message} {error.body}"


@pytest.mark.parametrize(
    ("fields", "header"),
    [
        ({"api_key": TOKEN}, "authorization"),
        ({"api_key": "AIza-a-key"}, "x-goog-api-key"),
        ({"api_key": "AIza-a-key", "project": "p"}, "x-goog-api-key"),
        ({"api_key": lambda: TOKEN, "project": "p"}, "authorization"),
    ],
)
def test_explain_shows_the_header_that_would_be_sent(fields, header):
    headers = ChatGoogle(**fields).explain("Hi").headers

    assert {name for name in headers if name in ("authorization", "x-goog-api-key")} == {header}
    assert headers[header] == "***"


def test_F_H01_embeddings_read_from_the_body_how_long_to_wait(fault_server, call):
    fault_server.script(EMBED, json_answer({"error": BUSY}, 429))
    model = GoogleGenerativeAIEmbeddings(base_url=fault_server.url, api_key="key", max_retries=0)
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.run(model, "embed_query", "a")

    assert excinfo.value.retry_after == 32.5


@pytest.mark.parametrize(
    ("way", "response"),
    [("stream", events_of({"error": BUSY})), ("invoke", json_answer({"error": BUSY}))],
)
def test_F_T05_an_error_under_a_good_status_says_how_long_to_wait(
    fault_server, call, way, response
):
    fault_server.script(STREAM, response)
    fault_server.script(CHAT, response)
    model = ChatGoogle(base_url=fault_server.url, api_key="key", max_retries=0)
    with pytest.raises(ModelRateLimitError) as excinfo:
        getattr(call, way)(model, "Hi")

    assert excinfo.value.retry_after == 32.5


@pytest.mark.parametrize("details", [3, "x", {"a": 1}, [None], [{"violations": 3}]])
def test_odd_details_of_an_error_do_not_hide_it(details):
    error = ChatGoogle(api_key="key")._stream_error({"error": {**BUSY, "details": details}})

    assert (type(error), error.retry_after) == (ModelRateLimitError, None)


# -- sources


def grounding(*segments, source=None) -> dict:
    chunk = source or {"web": {"uri": "https://a.example", "title": "A"}}
    supports = [{"segment": segment, "groundingChunkIndices": [0]} for segment in segments]
    return {"groundingMetadata": {"groundingChunks": [chunk], "groundingSupports": supports}}


def cited(message) -> list[list[tuple]]:
    return [
        [(note.get("start_index"), note["end_index"]) for note in block.get("annotations", ())]
        for block in message.content_blocks
        if block["type"] == "text"
    ]


def test_a_place_on_the_map_is_a_source_with_address_and_title():
    place = {"maps": {"uri": "https://maps.example/1", "title": "A café", "placeId": "p"}}
    message = decode_message({"text": "Here"}, **grounding({"endIndex": 4}, source=place))

    (note,) = message.content_blocks[0]["annotations"]
    assert (note["url"], note["title"]) == ("https://maps.example/1", "A café")


CODE = {"executableCode": {"code": "1", "language": "PYTHON"}}
FIRST, LAST = {"text": "Zürich."}, {"text": "Rome."}
SEGMENTS = ({"partIndex": 0, "endIndex": 7, "text": "Zürich"}, {"partIndex": 2, "endIndex": 4})


def test_a_citation_lands_on_the_part_it_names_in_a_stream_as_in_a_whole_answer():
    message = decode_message(FIRST, CODE, LAST, **grounding(*SEGMENTS))
    slices = [{"text": "Zür"}, {"text": "ich."}, CODE, LAST]
    chunks = [answer(part, finishReason=None) for part in slices]
    stream = message_of(decode_chunks(*chunks, answer(**grounding(*SEGMENTS))))

    assert cited(message) == cited(stream) == [[(None, 6)], [(None, 4)]]


def text_events(events) -> list[str]:
    """Return the events of text blocks, and where another block begins."""
    labels = []
    kinds = {}
    for event in events:
        if event["event"] == "content-block-start":
            kinds[event["index"]] = event["content"]["type"]
        if kinds.get(event.get("index")) == "text":
            delta = event.get("delta") or {}
            labels.append("sources" if delta.get("type") == "block-delta" else event["event"][14:])
        elif event["event"] == "content-block-start":
            labels.append("other")
    return labels


def test_a_text_ends_where_something_else_is_said():
    chunks = [answer(part, finishReason=None) for part in ({"text": "Zürich."}, CODE, LAST)]
    events = decode_chunks(*chunks, answer(**grounding(*SEGMENTS)))

    assert text_events(events) == [
        *("start", "delta", "finish", "other"),
        *("start", "delta", "sources", "finish"),
    ]


def test_sources_that_come_with_a_text_are_told_before_its_end():
    events = decode_chunks(
        answer({"text": "Zürich."}, finishReason=None, **grounding(SEGMENTS[0])),
        answer(CODE, finishReason=None),
        answer(LAST, **grounding(*SEGMENTS)),
    )

    assert text_events(events) == [
        *("start", "delta", "sources", "finish", "other"),
        *("start", "delta", "sources", "finish"),
    ]
    assert "late_citations" not in message_of(events).response_metadata


def test_sources_that_come_after_the_end_of_their_text_are_on_the_message():
    chunks = [answer(part, finishReason=None) for part in (FIRST, CODE, LAST)]
    message = message_of(decode_chunks(*chunks, answer(**grounding(*SEGMENTS))))

    (citation,) = message.response_metadata["late_citations"]
    assert (citation["text_block"], citation["end_index"], citation["url"]) == (
        0,
        6,
        "https://a.example",
    )


def test_a_citation_of_a_later_part_of_one_block_is_counted_from_the_block():
    message = decode_message(
        FIRST, LAST, **grounding({"partIndex": 1, "endIndex": 4, "text": "Rome"})
    )

    (block,) = message.content_blocks
    (note,) = block["annotations"]
    assert block["text"][note["start_index"] : note["end_index"]] == "Rome"


def test_a_citation_that_names_no_part_lands_on_the_text_it_cites():
    segments = (
        {"endIndex": 7, "text": "Zürich"},
        {"endIndex": 4},
        {"partIndex": [1], "endIndex": 4},
    )
    message = decode_message(FIRST, CODE, LAST, **grounding(*segments))

    assert cited(message) == [[(None, 6)], [(None, 4), (None, 4)]]


def test_a_citation_does_not_land_on_a_text_that_says_nothing():
    signature = {"text": "", "thoughtSignature": "c2lnbg=="}
    message = decode_message(FIRST, CODE, signature, **grounding({"endIndex": 7}))

    assert cited(message) == [[(None, 6)], []]


@pytest.mark.parametrize(
    "grounding_metadata", ["x", [1], {"groundingSupports": 3}, {"groundingSupports": [None]}]
)
def test_odd_grounding_costs_no_answer(grounding_metadata):
    assert decode_message({"text": "Hi"}, groundingMetadata=grounding_metadata).text == "Hi"


def test_an_empty_part_says_nothing():
    message = decode_message({}, {"text": "Hi"}, {})

    assert [block["type"] for block in message.content_blocks] == ["text"]


def test_letters_that_come_one_by_one_are_all_kept():
    pieces = [
        {"jsonPath": "$.word", "stringValue": letter, "willContinue": True} for letter in "aab"
    ]
    message = message_of(decode_chunks(*growing(*pieces), answer()))
    assert message.tool_calls[0]["args"] == {"word": "aab"}
