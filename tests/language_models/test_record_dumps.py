"""`ChatModelInput.model_dump`: AIGNE's JSON with `by_alias`, snake_case without, and both are read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.language_models import ChatModelInput
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.testing import ScriptedChatModel
from foldline.tools import tool

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}  # fmt: skip
RECORD: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be short.", "cacheControl": {"type": "ephemeral"}},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Where is this?"},
                {"type": "file", "data": "aGk=", "mimeType": "image/png", "filename": "a.png"},
                {"type": "url", "url": "https://example.com/a.pdf", "mimeType": "application/pdf"},
            ],
            "name": "Ada",
        },
        {"role": "agent", "content": "Let me see.", "toolCalls": [CALL]},
        {"role": "tool", "content": "sunny", "toolCallId": "c1", "name": "weather"},
    ],
    "responseFormat": {"type": "json_schema", "jsonSchema": {"name": "Answer", "schema": SCHEMA}},
    "outputFileType": "file",
    "tools": [{**TOOL, "cacheControl": {"type": "ephemeral"}}],
    "toolChoice": {"type": "function", "function": {"name": "weather"}},
    "modelOptions": {"topP": 0.5, "maxTokens": 9, "vendor_option": {"a_b": 1}},
}


def test_the_dump_by_alias_is_the_record_of_aigne():
    dump = ChatModelInput.model_validate(RECORD).model_dump(by_alias=True)

    assert dump == RECORD
    assert json.loads(ChatModelInput.model_validate(RECORD).model_dump_json(by_alias=True)) == dump


@pytest.mark.parametrize("by_alias", [True, False])
def test_a_dump_is_read_back_as_the_same_record(by_alias):
    record = ChatModelInput.model_validate(RECORD)

    again = ChatModelInput.model_validate(record.model_dump(by_alias=by_alias))

    assert again.model_dump(by_alias=True) == RECORD
    assert again.messages == record.messages


def test_the_dump_without_aliases_is_in_snake_case():
    dump = ChatModelInput.model_validate(RECORD).model_dump()

    assert dump["messages"][2]["tool_calls"] == [CALL]
    assert dump["messages"][3]["tool_call_id"] == "c1"
    assert dump["messages"][1]["content"][1]["mime_type"] == "image/png"
    assert dump["response_format"]["json_schema"]["name"] == "Answer"
    assert dump["tools"][0]["cache_control"] == {"type": "ephemeral"}
    assert dump["model_options"] == {"top_p": 0.5, "max_tokens": 9, "vendor_option": {"a_b": 1}}


def test_messages_of_langchains_style_become_those_of_aigne():
    record = ChatModelInput(
        messages=[
            SystemMessage("Be short."),
            HumanMessage("Hi", id="h1"),
            AIMessage(
                [
                    {"type": "reasoning", "reasoning": "Weather?"},
                    {"type": "text", "text": "Let me see."},
                    {
                        "type": "tool_call",
                        "id": "c1",
                        "name": "weather",
                        "args": {},
                        "extras": {"signature": "s"},
                    },
                ]
            ),
            ToolMessage("no", tool_call_id="c1", status="error"),
        ]
    )

    messages = record.model_dump(by_alias=True)["messages"]

    assert messages == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hi", "id": "h1"},
        {
            "role": "agent",
            "content": [
                {"type": "reasoning", "reasoning": "Weather?"},
                {"type": "text", "text": "Let me see."},
            ],
            "toolCalls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": {}},
                    "metadata": {"signature": "s"},
                }
            ],
        },
        {"role": "tool", "content": "no", "toolCallId": "c1", "status": "error"},
    ]
    again = ChatModelInput.model_validate({"messages": messages}).messages
    assert [message.content_blocks for message in again] == [
        message.content_blocks for message in record.messages
    ]
    assert again[2].tool_calls == record.messages[2].tool_calls


def test_an_image_whose_type_only_its_block_names_stays_an_image():
    image = {"type": "image", "url": "https://example.com/picture"}
    record = ChatModelInput(messages=[HumanMessage([image])])

    again = ChatModelInput.model_validate(record.model_dump(by_alias=True))

    assert again.messages[0].content_blocks[0]["type"] == "image"


def test_an_invalid_tool_call_is_kept_in_the_dump():
    invalid = {"name": "weather", "args": '{"city": ', "id": "c1", "error": "cut"}
    record = ChatModelInput(messages=[AIMessage("", invalid_tool_calls=[invalid])])

    again = ChatModelInput.model_validate(record.model_dump(by_alias=True))

    assert again.messages[0].content_blocks == record.messages[0].content_blocks


def test_a_tool_object_becomes_its_description_in_the_dump():
    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return "sunny"

    dump = ChatModelInput(messages=[HumanMessage("x")], tools=[weather]).model_dump(by_alias=True)

    assert dump["tools"][0]["function"]["name"] == "weather"
    assert dump["tools"][0]["function"]["parameters"]["required"] == ["city"]


@pytest.mark.parametrize(
    ("broken", "missing"),
    [
        ({"type": "function", "function": {"parameters": SCHEMA}}, "name"),
        ({"type": "function", "function": {"name": "", "parameters": SCHEMA}}, "name"),
        ({"type": "function", "function": {"name": "weather"}}, "parameters"),
        ({"type": "function", "function": {"name": "weather", "parameters": 3}}, "parameters"),
        ({"type": "function"}, "function"),
        ({"type": "function", "function": "weather"}, "function"),
        ({"type": "procedure", "function": TOOL["function"]}, "type"),
        ({"function": TOOL["function"]}, "type"),
    ],
)
def test_a_tool_of_a_record_without_a_required_part_is_an_error(call, broken, missing):
    model = ScriptedChatModel(script=["Hello"])

    with pytest.raises(UsageError, match=rf"tools\[0\].*`{missing}`"):
        call.run(model, "run", {"messages": "Hi", "tools": [broken]})
