"""Document 003, the guide to messages: what it says beside its samples, on the wire too."""

from __future__ import annotations

import json
from typing import Any, NotRequired, get_args, get_origin, get_type_hints

import pytest

from foldline import ContentBlock
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, content
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.testing import ScriptedChatModel

MODELS = [
    ChatOpenAI(model="gpt-5-nano", api_key="none"),
    ChatOpenAI(model="gpt-5-nano", api_key="none", use_responses_api=True),
    ChatAnthropic(model="claude-x", api_key="none", max_tokens=9),
]


def wire(model: Any, messages: list[Any]) -> str:
    """Return the body of the request that a model would send."""
    return json.dumps(model.explain(messages).body)


@pytest.mark.parametrize("model", MODELS, ids=["completions", "responses", "anthropic"])
def test_the_artifact_of_a_tool_message_is_not_sent_and_its_content_is(model: Any):
    messages = [
        HumanMessage("What's the weather?"),
        AIMessage(content=[], tool_calls=[{"name": "get_weather", "args": {}, "id": "call_123"}]),
        ToolMessage(
            content="Sunny, 72°F",
            tool_call_id="call_123",
            name="get_weather",
            artifact={"document_id": "doc_123"},
        ),
    ]

    body = wire(model, messages)

    assert "doc_123" not in body
    assert "Sunny" in body
    assert body.count("call_123") == 2


def test_a_message_of_a_model_has_an_id_and_one_by_hand_keeps_its_own(call: Any):
    message = call.invoke(ScriptedChatModel(script=["4"]), "2+2")

    assert message.id
    assert AIMessage("4", id="mine").id == "mine"


def test_an_ai_message_without_tools_and_usage_has_none_of_them():
    message = AIMessage("x")

    assert message.tool_calls == []
    assert message.usage_metadata is None
    assert message.response_metadata == {}


def test_the_content_of_a_message_is_read_as_standard_blocks_and_stays_as_it_was():
    native = [
        {"type": "thinking", "thinking": "...", "signature": "WaUjzkyp..."},
        {"type": "text", "text": "...", "id": "msg_abc123"},
    ]
    message = AIMessage(content=native, response_metadata={"model_provider": "anthropic"})

    assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]
    assert message.content == native


def test_a_model_told_to_store_standard_blocks_stores_them(call: Any):
    plain = call.invoke(ScriptedChatModel(script=["4"]), "x")
    standard = call.invoke(ScriptedChatModel(script=["4"], output_version="v1"), "x")

    assert plain.content == "4"
    assert standard.content == standard.content_blocks == [{"type": "text", "text": "4"}]


def test_a_chunk_has_the_parts_of_a_message_and_adds_up_to_one(call: Any):
    chunks = call.stream(ScriptedChatModel(script=["one two three"]), "x")
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk

    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    assert total.text == "one two three"
    assert total.id == chunks[0].id


REQUIRED = {
    "TextContentBlock": {"type", "text"},
    "ReasoningContentBlock": {"type"},
    "ImageContentBlock": {"type"},
    "AudioContentBlock": {"type"},
    "VideoContentBlock": {"type"},
    "FileContentBlock": {"type"},
    "PlainTextContentBlock": {"type"},
    "NonStandardContentBlock": {"type", "value"},
    "ServerToolCall": {"type", "id", "name", "args"},
    "ServerToolCallChunk": {"type"},
    "ServerToolResult": {"type", "tool_call_id", "status"},
    "ToolCall": {"name", "args", "id"},
    "ToolCallChunk": {"name", "args", "id"},
    "InvalidToolCall": {"name", "args", "id", "error"},
}


@pytest.mark.parametrize("name", REQUIRED)
def test_every_block_of_the_reference_is_a_type_with_the_keys_it_must_have(name: str):
    block = getattr(content, name)
    hints = get_type_hints(block, include_extras=True)

    assert REQUIRED[name] == {
        key for key, hint in hints.items() if get_origin(hint) is not NotRequired
    }
    assert block in get_args(content.ContentBlock)
    assert ContentBlock is content.ContentBlock


@pytest.mark.parametrize("model", MODELS[:2], ids=["completions", "responses"])
def test_the_file_name_of_a_pdf_is_sent_from_the_block_or_from_its_extras(model: Any):
    pdf = {"type": "file", "base64": "JVBERi0=", "mime_type": "application/pdf"}
    for block in ({**pdf, "filename": "a.pdf"}, {**pdf, "extras": {"filename": "a.pdf"}}):
        assert '"a.pdf"' in wire(model, [HumanMessage([block])])


@pytest.mark.parametrize("model", MODELS, ids=["completions", "responses", "anthropic"])
def test_an_image_by_url_is_sent_in_the_words_of_each_provider(model: Any):
    blocks = [
        {"type": "text", "text": "Describe the content of this image."},
        {"type": "image", "source_type": "url", "url": "https://example.com/path/to/image.jpg"},
    ]

    body = wire(model, [HumanMessage(blocks)])

    assert "https://example.com/path/to/image.jpg" in body
    assert "source_type" not in body
