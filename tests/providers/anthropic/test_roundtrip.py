"""Anthropic's answers are sent back unchanged: every block, every signature. Other providers' answers go by policy."""

from __future__ import annotations

import copy

import pytest

from foldline.exceptions import UsageError
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.anthropic._messages import encode_call_id
from tests.providers.anthropic.recordings import (
    MODEL,
    PAIRS,
    decode_stream,
    message_of,
    stream_of,
    whole_of,
)

NOT_SENT_BACK = ("file_id",)


def native(name: str) -> list[dict]:
    """The blocks of a recording, as the API takes them back: no empty text, no null."""
    blocks = copy.deepcopy(whole_of(name)["content"])
    for block in blocks:
        for citation in block.get("citations") or ():
            if isinstance(citation, dict):
                [citation.pop(key, None) for key in NOT_SENT_BACK]
    return blocks


def sent_back(message: AIMessage, model: ChatAnthropic = MODEL) -> list[dict]:
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in message.tool_calls]
    body = model.explain(
        [HumanMessage("Hi"), message, *results, *([] if results else ["And?"])]
    ).body
    content = body["messages"][1]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("name", [name for name in PAIRS if whole_of(name)["content"]])
def test_every_block_and_signature_goes_back_exactly(name, version):
    message = message_of(decode_stream(stream_of(name)), version)
    expected = native(name)

    if version == "v0" and isinstance(message.content, str):
        expected = [
            {**block, "text": block["text"]} if block["type"] == "text" else block
            for block in expected
        ]
    assert sent_back(message) == expected


@pytest.mark.parametrize("name", ["thinking-interleaved-tools", "web-search", "mcp"])
def test_a_message_that_was_stored_and_loaded_goes_back_exactly(name):
    message = message_of(decode_stream(stream_of(name)))

    assert sent_back(loads(dumps(message))) == native(name)


def openai_message() -> AIMessage:
    return AIMessage(
        content_blocks=[
            {
                "type": "reasoning",
                "reasoning": "Let me think.",
                "id": "rs_1",
                "extras": {"encrypted_content": "x"},
            },
            {
                "type": "server_tool_call",
                "id": "ws_1",
                "name": "web_search",
                "args": {"query": "x"},
            },
            {
                "type": "server_tool_result",
                "tool_call_id": "ws_1",
                "status": "success",
                "output": "found",
            },
            {"type": "text", "text": "Hello"},
            {"type": "tool_call", "id": "call_1|fc_1", "name": "f", "args": {"a": 1}},
        ],
        response_metadata={"model_provider": "openai"},
    )


def test_blocks_of_another_provider_are_told_as_text_and_the_loss_is_said():
    history = [HumanMessage("Hi"), openai_message(), ToolMessage("1", tool_call_id="call_1|fc_1")]
    explanation = MODEL.explain(history)
    content = explanation.body["messages"][1]["content"]

    assert [block["type"] for block in content] == ["text", "text", "text", "text", "tool_use"]
    assert (
        content[-1]["id"]
        == encode_call_id("call_1|fc_1")
        == explanation.body["messages"][2]["content"][0]["tool_use_id"]
    )
    assert "reasoning by openai was told as text" in explanation.notes


def test_blocks_of_another_provider_can_be_dropped_or_refused():
    history = [HumanMessage("Hi"), openai_message(), ToolMessage("1", tool_call_id="call_1|fc_1")]
    explanation = ChatAnthropic(api_key="key", foreign_blocks="drop").explain(history)

    assert [block["type"] for block in explanation.body["messages"][1]["content"]] == [
        "text",
        "tool_use",
    ]
    assert "reasoning by openai was left out" in explanation.notes
    with pytest.raises(UsageError, match="foreign_blocks"):
        ChatAnthropic(api_key="key", foreign_blocks="refuse").explain(history)


def test_reasoning_that_nobody_signed_is_left_out():
    message = AIMessage(
        content=[{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Yes"}]
    )
    explanation = MODEL.explain(["Hi", message, "And?"])

    assert explanation.body["messages"][1]["content"] == "Yes"
    assert explanation.notes == ["reasoning without a signature was left out"]
