"""Calls whose ids or names come oddly: names in slices, one id twice, ids that a vendor does not take."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError, ModelError
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic._messages import encode_call_id as anthropic_id
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock._messages import encode_call_id as bedrock_id
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatGroq
from tests.servers.script import json_answer, sse_answer

PATH = "/v1/chat/completions"


def openai(server: Any, cls: Any = ChatOpenAI) -> Any:
    url = f"{server.url}/v1"
    return cls(model="m", api_key="k", base_url=url, max_retries=0)


def call_slice(
    args: str | None, index: int | None = None, id: str | None = "c1", name: Any = "look"
):
    function = {"name": name, "arguments": args}
    place = {} if index is None else {"index": index}
    return {"id": id, "type": "function", "function": function, **place}


def stream_answer(*deltas: dict[str, Any]) -> Any:
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    chunks = [
        {"id": "x", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices
    ]
    return sse_answer(chunks, done="[DONE]")


# -- a name in slices (T26)

NAMES = {
    "two slices": ["get_", "weather"],
    "three slices": ["g", "et_", "weather"],
    "repeated": ["get_weather", "get_weather"],
    "a slice repeated": ["get_", "get_", "weather"],
}


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_T26_a_name_in_slices_is_one_name_in_the_sum_of_chunks(call, fault_server, names, version):
    first, *more = names
    deltas = [{"tool_calls": [call_slice("", 0, "c1", first)]}]
    deltas += [{"tool_calls": [call_slice("", 0, None, name)]} for name in more]
    deltas += [{"tool_calls": [call_slice("{}", 0, None, None)]}]
    fault_server.script(PATH, stream_answer(*deltas))
    model = openai(fault_server).model_copy(update={"output_version": version})

    total = reduce(operator.add, call.stream(model, "?"))

    assert [tool_call["name"] for tool_call in total.tool_calls] == ["get_weather"]
    assert [tool_call["name"] for tool_call in call.invoke(model, "?").tool_calls] == [
        "get_weather"
    ]


# -- one id twice (F-U09)

TWICE = {
    "whole": lambda first, two: json_answer(
        {
            "id": "x",
            "choices": [
                {"index": 0, "message": {"tool_calls": [first, two]}, "finish_reason": "tool_calls"}
            ],
        }
    ),
    "streamed": lambda first, two: stream_answer({"tool_calls": [first]}, {"tool_calls": [two]}),
    "in one delta": lambda first, two: stream_answer({"tool_calls": [first, two]}),
}


@pytest.mark.parametrize("form", TWICE)
@pytest.mark.parametrize("indexes", [(None, None), (0, 1)], ids=["no index", "index"])
def test_F_U09_two_whole_calls_of_one_id_are_an_error(call, fault_server, form, indexes):
    first, two = call_slice('{"a": 1}', indexes[0]), call_slice('{"a": 2}', indexes[1])
    fault_server.script(PATH, TWICE[form](first, two))

    with pytest.raises(MalformedStreamError, match="share the id 'c1'"):
        list(call.stream(openai(fault_server), "?"))


@pytest.mark.parametrize("form", TWICE)
def test_a_call_that_is_told_twice_is_one_call(call, fault_server, form):
    fault_server.script(PATH, TWICE[form](call_slice('{"a": 1}'), call_slice('{"a":1}')))

    answer = call.invoke(openai(fault_server), "?")

    assert [tool_call["args"] for tool_call in answer.tool_calls] == [{"a": 1}]


@pytest.mark.parametrize("indexes", [(None, None), (0, 1)])
def test_two_whole_calls_of_one_id_stay_two_in_a_sum_of_chunks(indexes):
    parts = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[{"id": "c1", "name": "look", "args": args, "index": index}],
        )
        for args, index in zip(['{"a": 1}', '{"a": 2}'], indexes, strict=True)
    ]

    assert [tool_call["args"] for tool_call in (parts[0] + parts[1]).tool_calls] == [
        {"a": 1},
        {"a": 2},
    ]


# -- tools that Groq ran

RAN = {"index": 0, "type": "python", "arguments": '{"code": "2+2"}'}


@pytest.mark.parametrize(
    "deltas",
    [
        [[RAN], [{**RAN, "output": "4"}]],
        [[{**RAN, "output": "4"}], [{**RAN, "output": "4"}]],
        [[{**RAN, "arguments": '{"code"'}], [{**RAN, "output": "4"}]],
        [[{**RAN, "output": "4"}]],
    ],
    ids=["call, then result", "twice", "arguments grow", "once"],
)
def test_a_tool_that_groq_ran_is_told_once(call, fault_server, deltas):
    tool_deltas = [{"executed_tools": tools} for tools in deltas]
    fault_server.script(PATH, stream_answer(*tool_deltas, {"content": "4"}))

    answer = call.invoke(openai(fault_server, ChatGroq), "?")

    assert [block["type"] for block in answer.content_blocks] == [
        "server_tool_call",
        "server_tool_result",
        "text",
    ]
    assert answer.content_blocks[0]["args"] == {"code": "2+2"}
    assert answer.content_blocks[1]["output"] == "4"


def test_a_tool_without_output_is_told_at_the_end(call, fault_server):
    fault_server.script(PATH, stream_answer({"executed_tools": [RAN]}, {"content": "4"}))

    answer = call.invoke(openai(fault_server, ChatGroq), "?")

    assert [block["type"] for block in answer.content_blocks] == [
        "server_tool_call",
        "text",
        "server_tool_result",
    ]


# -- ids that a vendor does not take


@pytest.mark.parametrize("encode", [anthropic_id, bedrock_id])
def test_ids_that_must_change_do_not_become_alike(encode):
    ids = ["a.1", "a_1", "a/1", "a 1", "a\ud800", "", "x" * 100, "x" * 101, "ü", "toolu_01-X"]

    encoded = [encode(id) for id in ids]

    assert len(set(encoded)) == len(ids)
    assert all(0 < len(id) <= 64 and id.isascii() for id in encoded)
    assert encoded == [encode(id) for id in ids]
    assert encoded[-1] == "toolu_01-X"


def test_results_of_calls_with_like_ids_go_to_their_calls():
    calls = [{"name": "f", "args": {}, "id": id, "type": "tool_call"} for id in ("a.1", "a_1")]
    messages = [
        HumanMessage("?"),
        AIMessage("", tool_calls=calls),
        ToolMessage("one", tool_call_id="a.1"),
        ToolMessage("two", tool_call_id="a_1"),
    ]

    sent_messages = ChatAnthropic(model="claude-x", api_key="k").explain(messages).body["messages"]

    ids = [block["id"] for block in sent_messages[1]["content"]]
    results = {block["tool_use_id"]: block["content"] for block in sent_messages[2]["content"]}
    assert [results[id] for id in ids] == ["one", "two"]


# -- the id of a request that failed

FAILED = {
    "type": "error",
    "error": {"type": "overloaded_error", "message": "busy"},
    "request_id": "req_body",
}


@pytest.mark.parametrize(
    "answer",
    [json_answer(FAILED, status=529), sse_answer([("error", FAILED)])],
    ids=["status", "in the stream"],
)
def test_the_request_id_in_an_error_body_is_kept(call, fault_server, answer):
    fault_server.script("/v1/messages", answer)
    model = ChatAnthropic(model="claude-x", api_key="k", base_url=fault_server.url, max_retries=0)

    with pytest.raises(ModelError) as excinfo:
        list(call.stream(model, "?"))

    assert excinfo.value.request_id == "req_body"


# -- arguments that come as an object, not as text (F-U04, F-Y19)


def anthropic_call(args: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": args}
    return {"id": "m", "type": "message", "content": [block], "stop_reason": "tool_use"}


def google_call(args: Any) -> dict[str, Any]:
    parts = [{"functionCall": {"name": "look", "args": args}}]
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}


def bedrock_call(args: Any) -> dict[str, Any]:
    block = {"toolUse": {"toolUseId": "c1", "name": "look", "input": args}}
    message = {"role": "assistant", "content": [block]}
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    return {"output": {"message": message}, "stopReason": "tool_use", "usage": usage}


OBJECT_CALLS = {
    "anthropic": ("/v1/messages", anthropic_call),
    "google": ("/models/m:generateContent", google_call),
    "bedrock": ("/model/m/converse", bedrock_call),
}


def object_model(server: Any, vendor: str) -> Any:
    if vendor == "bedrock":
        return ChatBedrockConverse(
            model="m", endpoint_url=server.url, region_name="eu-central-1", max_retries=0,
            aws_access_key_id="AKIAEXAMPLE", aws_secret_access_key="secret",
        )  # fmt: skip
    cls: Any = ChatAnthropic if vendor == "anthropic" else ChatGoogle
    return cls(model="m", api_key="k", base_url=server.url, max_retries=0)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")], ids=str)
@pytest.mark.parametrize("vendor", OBJECT_CALLS)
def test_F_U04_a_number_that_is_none_makes_an_object_of_arguments_invalid(
    call, fault_server, vendor, number
):
    path, body = OBJECT_CALLS[vendor]
    fault_server.script(path, json_answer(body({"a": [1, {"b": number}]})))

    answer = call.invoke(object_model(fault_server, vendor), "?")

    assert answer.tool_calls == []
    assert [tool_call["name"] for tool_call in answer.invalid_tool_calls] == ["look"]


def test_F_Y19_a_streamed_object_of_arguments_with_nan_is_invalid_too(call, fault_server):
    answer = sse_answer([google_call({"a": float("nan")})])
    fault_server.script("/models/m:streamGenerateContent", answer)

    chunks = call.stream(object_model(fault_server, "google"), "?")

    message = reduce(operator.add, chunks)
    assert (message.tool_calls, len(message.invalid_tool_calls)) == ([], 1)


@pytest.mark.parametrize("index", [float("nan"), float("inf")], ids=str)
def test_F_Y19_an_index_that_is_no_number_loses_no_text(call, fault_server, index):
    choices: list[dict[str, Any]] = [
        {"index": index, "delta": {"content": "a"}, "finish_reason": None},
        {"index": index, "delta": {"content": "b"}, "finish_reason": "stop"},
    ]
    chunks = [
        {"id": "x", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices
    ]
    fault_server.script(PATH, sse_answer(chunks, done="[DONE]"))

    assert "".join(chunk.text for chunk in call.stream(openai(fault_server), "?")) == "ab"
