"""Gemini's answers are sent back unchanged: every part, every signature. Other providers' answers go by policy."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.google import ChatGoogle
from tests.providers.google.recordings import (
    MODEL,
    PAIRS,
    decode_stream,
    message_of,
    stream_of,
    whole_of,
)

FULL = [name for name in PAIRS if (whole_of(name).get("candidates") or [{}])[0].get("content")]


def native(name: str) -> list[dict]:
    parts = whole_of(name)["candidates"][0]["content"]["parts"]
    return [
        {**part, "functionCall": {"args": {}, **part["functionCall"]}}
        if "functionCall" in part
        else part
        for part in parts
    ]


def sent_back(message: AIMessage) -> list[dict]:
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in message.tool_calls]
    body = MODEL.explain([HumanMessage("Hi"), message, *results, HumanMessage("And?")]).body
    return body["contents"][1]["parts"]


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("name", FULL)
def test_every_part_and_signature_goes_back_exactly(name, version):
    message = message_of(decode_stream(stream_of(name)), version)
    expected = native(name)
    unsigned = [part for part in expected if "functionCall" in part]
    if unsigned and not any("thoughtSignature" in part for part in unsigned):
        unsigned[0]["thoughtSignature"] = "skip_thought_signature_validator"

    assert sent_back(message) == expected


@pytest.mark.parametrize("name", ["function-calls-parallel", "thinking", "code-execution", "image"])
def test_a_message_that_was_stored_and_loaded_goes_back_exactly(name):
    message = message_of(decode_stream(stream_of(name)))

    assert sent_back(loads(dumps(message))) == native(name)


def anthropic_message() -> AIMessage:
    return AIMessage(
        content_blocks=[
            {"type": "reasoning", "reasoning": "Let me think.", "extras": {"signature": "Eq"}},
            {"type": "text", "text": "Hello"},
            {"type": "tool_call", "id": "toolu_1", "name": "f", "args": {"a": 1}},
        ],
        response_metadata={"model_provider": "anthropic"},
    )


def test_a_call_that_gemini_did_not_write_goes_unsigned_where_signatures_are_asked_for():
    history = [HumanMessage("Hi"), anthropic_message(), ToolMessage("1", tool_call_id="toolu_1")]
    new = MODEL.explain(history)
    old = ChatGoogle(model="gemini-2.5-flash", api_key="key").explain(history)

    assert new.body["contents"][1]["parts"] == [
        {"text": "<thinking>\nLet me think.\n</thinking>"},
        {"text": "Hello"},
        {
            "functionCall": {"name": "f", "args": {"a": 1}},
            "thoughtSignature": "skip_thought_signature_validator",
        },
    ]
    assert new.body["contents"][2]["parts"] == [
        {"functionResponse": {"name": "f", "response": {"output": "1"}}}
    ]
    assert "reasoning by anthropic was told as text" in new.notes
    assert "thoughtSignature" not in old.body["contents"][1]["parts"][2]


def test_blocks_of_another_provider_can_be_dropped_or_refused():
    history = [HumanMessage("Hi"), anthropic_message(), ToolMessage("1", tool_call_id="toolu_1")]
    explanation = ChatGoogle(api_key="key", foreign_blocks="drop").explain(history)

    assert explanation.body["contents"][1]["parts"][0] == {"text": "Hello"}
    with pytest.raises(UsageError, match="foreign_blocks"):
        ChatGoogle(api_key="key", foreign_blocks="refuse").explain(history)
