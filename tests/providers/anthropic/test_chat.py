"""`ChatAnthropic` over HTTP: against a scripted server, and against llama.cpp's real one."""

from __future__ import annotations

import time

import pytest

from foldline.exceptions import (
    ModelAuthenticationError,
    ModelNotFoundError,
    ModelOverloadedError,
    StreamInterruptedError,
    StreamTruncatedError,
)
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.protocol.grammar import assert_valid_event_stream
from foldline.providers.anthropic import ChatAnthropic
from tests.providers.anthropic.recordings import (
    PAIRS,
    decode_stream,
    message_of,
    stream_of,
    whole_of,
)
from tests.servers.script import Answer, json_answer

pytestmark = pytest.mark.timing

PATH = "/v1/messages"
SSE = {"content-type": "text/event-stream; charset=utf-8"}


def stream_answer(name: str) -> Answer:
    return Answer(stream_of(name), headers=SSE, framing="chunked")


def model_of(server, *answers: Answer, **fields) -> ChatAnthropic:
    url = server.script(PATH, *answers).removesuffix(PATH)
    return ChatAnthropic(**{"base_url": url, "api_key": "key", "max_retries": 0, **fields})


def without_index(message) -> list[dict]:
    return [
        {key: value for key, value in block.items() if key != "index"}
        for block in message.content_blocks
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_invoke_and_stream_give_one_message(fault_server, call, name):
    model = model_of(fault_server, json_answer(whole_of(name)), stream_answer(name))

    answer = call.invoke(model, "Hi")
    chunks = call.stream(model, "Hi")

    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert without_index(total) == without_index(answer)
    assert total.usage_metadata == answer.usage_metadata
    assert [request.json().get("stream") for request in fault_server.requests(PATH)] == [None, True]


def test_the_events_of_a_call_are_those_of_the_decoder(fault_server, call):
    events = call.stream_v2(model_of(fault_server, stream_answer("web-search")), "Hi")

    assert_valid_event_stream(events)
    assert (
        message_of(events).content_blocks
        == message_of(decode_stream(stream_of("web-search"))).content_blocks
    )


def test_streaming_asks_for_a_stream_under_invoke_too(fault_server, call):
    model = model_of(fault_server, stream_answer("text"), streaming=True)

    assert call.invoke(model, "Hi").text == "Hello! How can I help you today?"
    assert fault_server.requests(PATH)[0].json()["stream"] is True


def test_what_is_sent_carries_key_and_version(fault_server, call):
    call.invoke(model_of(fault_server, json_answer(whole_of("text"))), "Hi")
    (request,) = fault_server.requests(PATH)

    assert request.headers["x-api-key"] == "key"
    assert request.headers["anthropic-version"] == "2023-06-01"


def test_F_S11_the_last_event_ends_the_answer_though_the_connection_stays_open(fault_server, call):
    left_open = Answer([stream_of("text"), ("stall", None)], headers=SSE, framing="chunked")
    start = time.monotonic()

    chunks = call.stream(model_of(fault_server, left_open), "Hi")

    assert "".join(chunk.text for chunk in chunks) == "Hello! How can I help you today?"
    assert time.monotonic() - start < 0.5


def test_F_S11_what_happens_to_the_connection_after_the_last_event_does_no_harm(fault_server, call):
    answer = stream_answer("thinking")
    chunks = call.stream(
        model_of(fault_server, answer.cut(len(stream_of("thinking")), "rst")), "Hi"
    )

    assert "".join(chunk.text for chunk in chunks) == "27 * 453 = 12,231"


def test_F_T05_an_error_as_first_event_is_tried_again(fault_server, call):
    model = model_of(
        fault_server, stream_answer("error-first"), stream_answer("text"), max_retries=1
    )
    model.retry_on_error = {"initial": 0.001}

    assert call.stream(model, "Hi")[0] is not None
    assert fault_server.hits(PATH) == 2


def test_F_T04_an_error_in_the_middle_keeps_what_was_said(fault_server, call):
    with pytest.raises(ModelOverloadedError) as excinfo:
        call.stream(model_of(fault_server, stream_answer("error-mid-stream")), "Hi")

    partial = excinfo.value.partial
    assert (partial.text, partial.status) == ("Half a", "incomplete")
    assert partial.usage_metadata["input_tokens"] == 9


def test_F_T01_a_cut_stream_is_truncated_with_its_beginning(fault_server, call):
    with pytest.raises(StreamTruncatedError) as excinfo:
        call.stream(model_of(fault_server, stream_answer("truncated")), "Hi")

    assert excinfo.value.partial.text == "Half a"


@pytest.mark.parametrize("at", [900, 1500, 2150])
def test_F_T03_a_broken_connection_gives_a_prefix(fault_server, call, at):
    with pytest.raises(StreamInterruptedError) as excinfo:
        call.stream(model_of(fault_server, stream_answer("thinking").cut(at, "rst")), "Hi")

    assert "27 * 453 = 12,231".startswith(excinfo.value.partial.text)


def test_tokens_are_counted_exactly_only_when_asked(fault_server, call):
    fault_server.script(f"{PATH}/count_tokens", json_answer({"input_tokens": 14}))
    model = ChatAnthropic(base_url=fault_server.url, api_key="key", max_tokens=5, temperature=0.5)

    assert model.get_num_tokens_from_messages([HumanMessage("Hello there")]) > 0
    assert fault_server.hits() == 0
    tools = [{"name": "t", "input_schema": {"type": "object"}}]
    assert (
        call.run(model, "count_tokens_exactly", [("system", "S"), ("human", "Hi")], tools=tools)
        == 14
    )
    (request,) = fault_server.requests()
    assert request.json() == {
        "model": "claude-sonnet-5",
        "messages": [{"role": "user", "content": "Hi"}],
        "system": "S",
        "tools": tools,
    }


def test_tokens_of_bound_tools_are_counted_as_they_are_sent(fault_server, call):
    fault_server.script(f"{PATH}/count_tokens", json_answer({"input_tokens": 14}))
    tools = [{"name": "files.read", "input_schema": {"type": "object", "properties": {}}}]
    model = ChatAnthropic(base_url=fault_server.url, api_key="key", streaming=True)
    bound = model.bind_tools(tools, tool_choice="files.read")

    assert call.run(bound, "count_tokens_exactly", "Hi") == 14
    (request,) = fault_server.requests()
    assert [tool["name"] for tool in request.json()["tools"]] == ["files_read"]
    assert request.json()["tool_choice"] == {"type": "tool", "name": "files_read"}
    assert "stream" not in request.json()


def test_counting_tokens_fails_typed(fault_server, call):
    body = {"type": "error", "error": {"type": "not_found_error", "message": "no"}}
    fault_server.script(f"{PATH}/count_tokens", json_answer(body, 404))

    with pytest.raises(ModelNotFoundError):
        call.run(
            ChatAnthropic(base_url=fault_server.url, api_key="key"), "count_tokens_exactly", "Hi"
        )


def test_a_missing_key_names_the_variable(call, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)

    with pytest.raises(ModelAuthenticationError, match="ANTHROPIC_API_KEY"):
        call.invoke(ChatAnthropic(), "Hi")


def test_a_model_is_stored_without_its_key():
    model = ChatAnthropic(model="claude-opus-5", api_key="the-secret", max_tokens=9)
    text = dumps(model)
    loaded_model = loads(text, valid_namespaces=["foldline"], allowed_objects=[ChatAnthropic])

    assert "the-secret" not in text
    assert (loaded_model.model, loaded_model.max_tokens) == ("claude-opus-5", 9)


# -- a real server


def real(llama, **fields) -> ChatAnthropic:
    settings = {"temperature": 0, "max_tokens": 40, **fields}
    return ChatAnthropic(
        base_url=llama.base_url, api_key=llama.api_key, model=llama.model, **settings
    )


SYSTEM = ("system", "You are a helpful assistant.")
TOOL = {
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.mark.slow
def test_a_real_server_answers_whole_and_streamed(llama, call):
    messages = [SYSTEM, ("human", "What is the capital of France?")]
    answer = call.invoke(real(llama), messages)
    chunks = call.stream(real(llama), messages)

    assert "Paris" in answer.text
    assert "".join(chunk.text for chunk in chunks) == answer.text
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.finish_reason == "stop"
    assert len(chunks) > 3


@pytest.mark.slow
def test_a_real_server_calls_a_tool_and_takes_its_result(llama, call):
    messages = [SYSTEM, ("human", "What is the weather in Paris?")]
    call_message = call.invoke(
        real(llama), messages, tools=[TOOL], tool_choice="any", parallel_tool_calls=False
    )
    (tool_call,) = call_message.tool_calls
    events = call.stream_v2(
        real(llama), messages, tools=[TOOL], tool_choice="any", parallel_tool_calls=False
    )
    answer = call.invoke(
        real(llama),
        [*messages, call_message, ToolMessage("Sunny, 21 degrees.", tool_call_id=tool_call["id"])],
        tools=[TOOL],
    )

    assert tool_call["name"] == "get_weather"
    assert_valid_event_stream(events)
    assert message_of(events).tool_calls[0]["args"] == tool_call["args"]
    assert isinstance(answer, AIMessage)
    assert answer.finish_reason in ("stop", "length", "tool_use")


def test_a_real_server_counts_tokens(llama, call):
    short = call.run(real(llama), "count_tokens_exactly", "Hi")
    long = call.run(real(llama), "count_tokens_exactly", "Hi there, how are you today?")

    assert 0 < short < long
