"""A block that cannot be read is an error, and costs none of the good blocks of an answer that came whole."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import MalformedStreamError
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI
from tests.servers.script import json_answer


def item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": f"msg_{text}", "role": "assistant", "content": content}


def anthropic(server: Any, bad: Any) -> Any:
    content = [{"type": "text", "text": "A"}, bad, {"type": "text", "text": "B"}]
    body = {"id": "m", "type": "message", "content": content, "stop_reason": "end_turn"}
    server.script("/v1/messages", json_answer(body))
    return ChatAnthropic(model="c", api_key="k", base_url=server.url, max_retries=0)


def responses(server: Any, bad: Any) -> Any:
    body = {"id": "r", "status": "completed", "output": [item("A"), bad, item("B")]}
    server.script("/v1/responses", json_answer(body))
    return ChatOpenAI(
        model="c", api_key="k", base_url=f"{server.url}/v1", max_retries=0, use_responses_api=True
    )


def completions(server: Any, bad: Any) -> Any:
    content = [{"type": "text", "text": "A"}, bad, {"type": "text", "text": "B"}]
    choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
    server.script("/v1/chat/completions", json_answer({"id": "r", "choices": [choice]}))
    return ChatOpenAI(
        model="c", api_key="k", base_url=f"{server.url}/v1", max_retries=0, use_responses_api=False
    )


def google(server: Any, bad: Any) -> Any:
    content = {"role": "model", "parts": [{"text": "A"}, bad, {"text": "B"}]}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    server.script("/models/g:generateContent", json_answer(body))
    return ChatGoogle(model="g", api_key="k", base_url=server.url, max_retries=0)


BAD = {
    anthropic: ["x", 5, {"type": "text", "text": 5}, {"type": "tool_use", "id": "c", "name": 5}],
    responses: ["x", 5, None, {"type": "message", "content": [3]}],
    completions: [5, ["x"], {"type": "thinking", "thinking": 5}],
    google: ["x", 5, {"functionCall": 5}, {"functionCall": {"name": 5}}],
}


@pytest.mark.parametrize(
    ("provider", "bad"), [(provider, bad) for provider in BAD for bad in BAD[provider]]
)
def test_a_malformed_block_costs_no_good_one(call, fault_server, provider, bad):
    model = provider(fault_server, bad)

    with pytest.raises(MalformedStreamError) as excinfo:
        call.invoke(model, "?")

    assert excinfo.value.partial is not None
    assert excinfo.value.partial.text == "AB"


def test_a_malformed_call_costs_neither_text_nor_calls(call, fault_server):
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": 5}},
        {"id": "c3", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    message = {"content": "A", "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    fault_server.script("/v1/chat/completions", json_answer({"id": "r", "choices": [choice]}))
    model = ChatOpenAI(model="c", api_key="k", base_url=f"{fault_server.url}/v1", max_retries=0)

    with pytest.raises(MalformedStreamError, match="name of a block") as excinfo:
        call.invoke(model, "?")

    partial = excinfo.value.partial
    assert partial is not None
    assert partial.text == "A"
    assert [tool_call["name"] for tool_call in partial.tool_calls] == ["f", "g"]
