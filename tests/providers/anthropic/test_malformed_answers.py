"""Malformed requests and answers of Anthropic: no secret shows, no answer is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldline.exceptions import ContextOverflowError, ModelAuthenticationError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic._schema import encode_schema
from foldline.providers.anthropic.encode import convert_to_anthropic_tool
from foldline.tools import tool
from tests.providers.anthropic.recordings import decoder, message_of
from tests.servers.script import json_answer, sse_answer

PATH = "/v1/messages"
ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Hi."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 2},
}


def model(server: Any, **fields: Any) -> ChatAnthropic:
    defaults = {
        "base_url": server.url,
        "api_key": "sk-canary",
        "model": "claude-x",
        "max_retries": 0,
    }
    return ChatAnthropic(**{**defaults, **fields})


def request_body(messages: list[Any], **fields: Any) -> dict[str, Any]:
    options = {"api_key": "k", "model": "claude-x", **fields}
    return ChatAnthropic(**options).explain(messages).body


def test_F_V08_a_token_that_a_server_says_back_is_not_shown(call, fault_server, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "tok-canary-1")
    body = {"type": "error", "error": {"type": "authentication_error", "message": "tok-canary-1?"}}
    fault_server.script(PATH, json_answer(body, status=401))
    with pytest.raises(ModelAuthenticationError) as excinfo:
        call.invoke(model(fault_server, api_key=None), "Hi")

    assert fault_server.requests()[0].headers["authorization"] == "Bearer tok-canary-1"
    assert "tok-canary-1" not in f"{excinfo.value} {excinfo.value.body}"


@pytest.mark.parametrize(
    "usage",
    [
        "free",
        ["x"],
        5,
        {"input_tokens": "5", "output_tokens": 2},
        {"input_tokens": True, "output_tokens": 1.5},
        {"input_tokens": 5, "cache_read_input_tokens": "3", "cache_creation": "x"},
        {"output_tokens": 2, "output_tokens_details": ["x"]},
    ],
)
def test_usage_that_counts_nothing_costs_no_answer(usage):
    message = message_of(decoder().decode_answer({**ANSWER, "usage": usage}))
    assert message.text == "Hi."
    assert message.response_metadata["usage"] == usage


@pytest.mark.parametrize("tool_input", [[], 0, False, [1], 3])
def test_F_U03_input_that_is_no_object_makes_an_invalid_call(tool_input):
    tool_use = {"type": "tool_use", "id": "c1", "name": "f", "input": tool_input}
    message = message_of(decoder().decode_answer({**ANSWER, "content": [tool_use]}))
    assert message.tool_calls == []
    assert message.invalid_tool_calls[0]["args"] == json.dumps(tool_input)


def test_F_H04_a_limit_of_the_context_is_an_overflow(call, fault_server):
    error_text = "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": error_text}}
    fault_server.script(PATH, json_answer(body, status=400))
    with pytest.raises(ContextOverflowError):
        call.invoke(model(fault_server), "Hi")


def test_E2_a_block_that_was_cut_off_is_in_the_partial_message(fault_server):
    start = {"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}}
    block = {"type": "redacted_thinking", "data": "RED"}
    block_start = {"type": "content_block_start", "index": 0, "content_block": block}
    fault_server.script(
        PATH, sse_answer([(event["type"], event) for event in (start, block_start)])
    )
    with pytest.raises(Exception) as excinfo:  # noqa: PT011  whichever: what it holds matters
        list(model(fault_server).stream("Hi"))

    partial = excinfo.value.partial
    assert partial.content_blocks == [{"type": "non_standard", "value": block}]
    assert partial.response_metadata["usage"] == ANSWER["usage"]
    body = request_body([HumanMessage("Hi"), partial, HumanMessage("Go on")])
    assert body["messages"][1]["content"] == [block]


@pytest.mark.parametrize("value", [None, "x", {"foo": 1}, []])
def test_E1_a_block_that_says_nothing_is_left_out(value):
    block = {"type": "non_standard"} if value is None else {"type": "non_standard", "value": value}
    message = AIMessage([{"type": "text", "text": "Hm."}, block])
    body = request_body([HumanMessage("Hi"), message, HumanMessage("Go on")])
    assert body["messages"][1]["content"] in ("Hm.", [{"type": "text", "text": "Hm."}])
    assert request_body([HumanMessage("Hi"), message])["messages"][1]["content"]


def test_results_of_tools_come_first_in_a_turn():
    tool_calls = [{"name": "f", "args": {}, "id": id} for id in ("c1", "c2")]
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=tool_calls),
        HumanMessage("Quick!"),
        ToolMessage("1", tool_call_id="c1"),
        ToolMessage("2", tool_call_id="c2"),
    ]
    kinds = [block["type"] for block in request_body(messages)["messages"][-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


def test_F_U06_a_call_without_a_name_goes_back_with_its_result():
    broken = {"name": None, "args": "{", "id": "c1", "error": "no name"}
    messages = [
        HumanMessage("Hi"),
        AIMessage("", invalid_tool_calls=[broken]),
        ToolMessage("no such tool", tool_call_id="c1", status="error"),
    ]
    call, result = (turn["content"][0] for turn in request_body(messages)["messages"][1:])
    assert (call["id"], call["name"]) == (result["tool_use_id"], "unknown")


def test_a_tool_that_says_it_is_strict_has_a_closed_schema():
    @tool(extras={"strict": True})
    def add(a: int) -> int:
        """Add."""
        return a

    encoded = convert_to_anthropic_tool(add)
    assert encoded["strict"] is True
    assert encoded["input_schema"]["additionalProperties"] is False


@pytest.mark.parametrize("effort", ["max", "xhigh", 50_000])
def test_thinking_leaves_the_limit_of_the_model_alone(effort):
    body = request_body([HumanMessage("Hi")], model="claude-opus-4-1", reasoning_effort=effort)
    assert body["max_tokens"] <= 32_000
    assert body["thinking"]["budget_tokens"] < body["max_tokens"]


def test_what_is_not_enforced_stands_in_the_description():
    encoded_schema = encode_schema({"type": "string", "pattern": "[0-9]+"})
    assert encoded_schema == {"type": "string", "description": "{pattern: [0-9]+}"}
