"""Comparison with the official package: it accepts the bodies we send, and reads the recordings as we do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic
from anthropic.lib._parse._transform import transform_schema
from anthropic.types.beta import BetaMessage
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from pydantic import BaseModel, TypeAdapter

from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic._schema import encode_schema
from tests.providers.anthropic.recordings import (
    LLAMA,
    PAIRS,
    decode_stream,
    message_of,
    stream_of,
    whole_of,
)
from tests.providers.recordings import FOLDER
from tests.servers.script import Answer

PATH = "/v1/messages"
TAKEN = TypeAdapter(MessageCreateParamsNonStreaming)
MODEL = ChatAnthropic(model="claude-opus-5", api_key="key")


def heard_by_them(server, raw: bytes) -> BetaMessage:
    url = server.script(
        PATH, Answer(raw, headers={"content-type": "text/event-stream"}, framing="chunked")
    )
    with (
        Anthropic(base_url=url.removesuffix(PATH), api_key="key", max_retries=0) as client,
        client.beta.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as stream,
    ):
        return stream.get_final_message()


def same(message: AIMessage, sdk_message: Any) -> None:
    assert message.text == "".join(
        block.text for block in sdk_message.content if block.type == "text"
    )
    calls = [
        (block.id, block.name, block.input)
        for block in sdk_message.content
        if block.type == "tool_use"
    ]
    assert [(call["id"], call["name"], call["args"]) for call in message.tool_calls] == calls
    usage = sdk_message.usage
    cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    assert message.usage_metadata["input_tokens"] == usage.input_tokens + cached
    assert message.usage_metadata["output_tokens"] == usage.output_tokens
    assert message.response_metadata["stop_reason"] == sdk_message.stop_reason


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PAIRS if name != "unknown-block"])
def test_they_hear_the_same_in_every_recording(fault_server, name):
    same(message_of(decode_stream(stream_of(name))), heard_by_them(fault_server, stream_of(name)))
    same(message_of(decode_stream(stream_of(name))), BetaMessage.model_validate(whole_of(name)))


@pytest.mark.parametrize("path", LLAMA, ids=lambda path: path.stem)
def test_they_hear_the_same_in_what_a_real_server_said(fault_server, path):
    same(
        message_of(decode_stream(path.read_bytes())), heard_by_them(fault_server, path.read_bytes())
    )


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


CONVERSATIONS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": ([HumanMessage("Hi")], {"stop": ["x"]}),
    "media": (
        [
            SystemMessage(
                [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
            ),
            HumanMessage(
                [
                    {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
                    {"type": "image", "url": "https://x/a.png"},
                    {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"},
                    {"type": "text-plain", "text": "Notes", "title": "T"},
                ]
            ),
        ],
        {},
    ),
    "tools": (
        [
            HumanMessage("Add"),
            AIMessage(
                "",
                tool_calls=[
                    {"id": "toolu_1", "name": "add", "args": {"a": 1}, "type": "tool_call"}
                ],
            ),
            ToolMessage([{"type": "text", "text": "3"}], tool_call_id="toolu_1"),
        ],
        {
            "tools": [add, {"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": "add",
            "parallel_tool_calls": False,
        },
    ),
    "thinking": (
        [HumanMessage("Think")],
        {"reasoning_effort": "high", "betas": ["x"], "service_tier": "auto"},
    ),
    "late-system": ([HumanMessage("Hi"), SystemMessage("Now.")], {"user": "u_1"}),
    "schema": (
        [HumanMessage("Hi")],
        {"response_format": {"title": "A", "type": "object", "properties": {}}},
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_they_take_the_bodies_we_send(name):
    messages, options = CONVERSATIONS[name]
    body = MODEL.explain(messages, **options).body

    validated_body = TAKEN.validate_python(body)

    assert set(validated_body) == set(body)


@pytest.mark.parametrize(
    "name", [name for name in PAIRS if whole_of(name)["content"] and name != "unknown-block"]
)
def test_they_take_back_what_was_recorded(name):
    message = message_of(decode_stream(stream_of(name)))
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in message.tool_calls]

    TAKEN.validate_python(
        MODEL.explain([HumanMessage("Hi"), message, *results, HumanMessage("On")]).body
    )


def test_they_take_what_the_real_server_took():
    body = json.loads((FOLDER / "llama" / "messages-tool.request.json").read_text())
    options = {name: body[name] for name in ("tools", "tool_choice", "max_tokens", "temperature")}
    explanation = ChatAnthropic(api_key="k", model=body["model"]).explain(
        [("system", body["system"]), ("human", body["messages"][0]["content"])], **options
    )

    assert explanation.body == body


class Inner(BaseModel):
    tags: list[str]
    size: float | None = None


class Outer(BaseModel):
    """A thing."""

    inner: Inner
    kind: str


def test_schemas_are_closed_as_they_close_them():
    sdk_schema = transform_schema(Outer.model_json_schema())
    schema = encode_schema(Outer.model_json_schema())

    assert (
        schema["$defs"]["Inner"]["properties"]["tags"]
        == sdk_schema["$defs"]["Inner"]["properties"]["tags"]
    )
    assert schema["properties"] == sdk_schema["properties"]
    assert schema["additionalProperties"] is sdk_schema["additionalProperties"] is False
