"""`ChatGoogle` over HTTP, against a scripted server."""

from __future__ import annotations

import pytest

from foldline.exceptions import ModelAuthenticationError, ModelOverloadedError, StreamTruncatedError
from foldline.load import dumps, loads
from foldline.messages import HumanMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.google import ChatGoogle
from tests.providers.google.recordings import PAIRS, stream_of, whole_of
from tests.servers.script import Answer, json_answer

WHOLE = "/models/gemini-2.5-flash:generateContent"
STREAM = "/models/gemini-2.5-flash:streamGenerateContent"
SSE = {"content-type": "text/event-stream"}


def stream_answer(name: str) -> Answer:
    return Answer(stream_of(name), headers=SSE, framing="chunked")


def model_of(server, *answers: Answer, whole_answer: Answer | None = None, **fields) -> ChatGoogle:
    if answers:
        server.script(STREAM, *answers)
    if whole_answer is not None:
        server.script(WHOLE, whole_answer)
    return ChatGoogle(**{"base_url": server.url, "api_key": "key", "max_retries": 0, **fields})


def without_index(message) -> list[dict]:
    return [
        {key: value for key, value in block.items() if key != "index"}
        for block in message.content_blocks
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_invoke_and_stream_give_one_message(fault_server, call, name):
    model = model_of(fault_server, stream_answer(name), whole_answer=json_answer(whole_of(name)))

    answer = call.invoke(model, "Hi")
    chunks = call.stream(model, "Hi")

    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert without_index(total) == without_index(answer)
    assert total.usage_metadata == answer.usage_metadata
    assert total.response_metadata["finish_reason"] == answer.response_metadata["finish_reason"]


def test_a_stream_is_asked_for_as_events_and_carries_the_key(fault_server, call):
    events = call.stream_v2(model_of(fault_server, stream_answer("code-execution")), "Hi")
    (request,) = fault_server.requests()

    assert_valid_event_stream(events)
    assert request.target == f"{STREAM}?alt=sse"
    assert request.headers["x-goog-api-key"] == "key"


def test_streaming_asks_for_a_stream_under_invoke_too(fault_server, call):
    assert call.invoke(
        model_of(fault_server, stream_answer("text"), streaming=True), "Hi"
    ).text.startswith("Hello!")


def test_F_T04_an_error_in_the_middle_keeps_what_was_said(fault_server, call):
    with pytest.raises(ModelOverloadedError) as excinfo:
        call.stream(model_of(fault_server, stream_answer("error-mid-stream")), "Hi")

    partial = excinfo.value.partial
    assert (partial.text, partial.status) == ("Half a", "incomplete")
    assert partial.usage_metadata["input_tokens"] == 9


def test_F_T05_an_error_as_first_chunk_is_tried_again(fault_server, call):
    model = model_of(
        fault_server, stream_answer("error-first"), stream_answer("text"), max_retries=1
    )

    assert call.stream(model, "Hi")
    assert fault_server.hits() == 2


def test_F_T17_a_malformed_call_is_tried_again_if_asked_to(fault_server, call):
    answers = (stream_answer("malformed-function-call"), stream_answer("function-call"))
    as_it_is = call.stream(model_of(fault_server, *answers), "Hi")
    chunks = call.stream(
        model_of(fault_server, *answers, max_retries=1, retry_malformed_calls=True), "Hi"
    )

    assert as_it_is[-1].response_metadata["finish_reason"] == "MALFORMED_FUNCTION_CALL"
    assert any(chunk.tool_calls for chunk in chunks)


def test_F_T01_a_cut_stream_is_truncated_with_its_beginning(fault_server, call):
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.stream(model_of(fault_server, stream_answer("truncated")), "Hi")

    assert excinfo.value.partial.text == "Half a"


def test_several_answers_come_as_generations(fault_server, call):
    model = model_of(fault_server, whole_answer=json_answer(whole_of("two-candidates")), n=2)
    result = call.generate(model, [[HumanMessage("Hi")]])

    assert [generation.text for generation in result.generations[0]] == ["One.", "Two."]


def test_tokens_are_counted_exactly_only_when_asked(fault_server, call):
    fault_server.script("/models/gemini-2.5-flash:countTokens", json_answer({"totalTokens": 31}))
    model = model_of(fault_server)

    assert model.get_num_tokens_from_messages([HumanMessage("Hello there")]) > 0
    assert fault_server.hits() == 0
    assert call.run(model, "count_tokens_exactly", [("system", "S"), ("human", "Hi")]) == 31
    (request,) = fault_server.requests()
    assert request.json()["generateContentRequest"]["model"] == "models/gemini-2.5-flash"


def test_a_token_can_come_from_a_function(fault_server, call):
    model = model_of(
        fault_server, whole_answer=json_answer(whole_of("text")), api_key=lambda: "ya29.fresh"
    )
    call.invoke(model, "Hi")

    assert fault_server.requests()[0].headers["authorization"] == "Bearer ya29.fresh"


def test_a_missing_key_names_the_variable(call, monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)

    with pytest.raises(ModelAuthenticationError, match="GOOGLE_API_KEY"):
        call.invoke(ChatGoogle(), "Hi")


def test_a_model_is_stored_without_its_key():
    text = dumps(ChatGoogle(model="gemini-3-flash", api_key="the-secret", max_tokens=9))
    loaded = loads(text, valid_namespaces=["foldline"], allowed_objects=[ChatGoogle])

    assert "the-secret" not in text
    assert (loaded.model, loaded.max_tokens) == ("gemini-3-flash", 9)
