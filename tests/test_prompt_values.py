"""Filled-in prompts, as text and as messages."""

from __future__ import annotations

import pytest

from foldline.load import dumpd, load
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from foldline.prompt_values import (
    ChatPromptValue,
    ChatPromptValueConcrete,
    ImagePromptValue,
    PromptValue,
    StringPromptValue,
)

MESSAGES = [SystemMessage("be brief"), HumanMessage("a"), AIMessage("b")]


def test_a_text_is_also_a_human_message():
    value = StringPromptValue(text="hello")
    assert value.to_string() == "hello"
    assert value.to_messages() == [HumanMessage("hello")]


def test_messages_are_also_a_transcript():
    value = ChatPromptValue(messages=MESSAGES)
    assert value.to_string() == "System: be brief\nHuman: a\nAI: b"
    assert value.to_messages() == MESSAGES
    assert value.to_messages() is not value.messages


def test_an_image_is_a_message_with_an_image():
    value = ImagePromptValue(image_url={"url": "https://example.com/a.png", "detail": "low"})
    assert value.to_string() == "https://example.com/a.png"
    [message] = value.to_messages()
    assert message.content == [{"type": "image_url", "image_url": value.image_url}]


def test_a_concrete_chat_prompt_builds_messages_from_plain_dicts():
    value = ChatPromptValueConcrete(messages=MESSAGES)

    copy = ChatPromptValueConcrete.model_validate(value.model_dump())

    assert copy == value
    assert [type(message) for message in copy.messages] == [SystemMessage, HumanMessage, AIMessage]
    assert "HumanMessage" in ChatPromptValueConcrete.model_json_schema()["$defs"]


def test_tool_calls_survive_a_pydantic_dump():
    call = {"name": "add", "args": {}, "id": "1", "type": "tool_call"}
    value = ChatPromptValue(messages=[AIMessage("", tool_calls=[call])])
    assert value.model_dump()["messages"][0]["tool_calls"] == [call]


def test_a_prompt_value_must_say_both():
    with pytest.raises(TypeError, match="abstract"):
        PromptValue()


@pytest.mark.parametrize(
    "value",
    [
        StringPromptValue(text="hello"),
        ChatPromptValue(messages=MESSAGES),
        ChatPromptValueConcrete(messages=MESSAGES),
        ImagePromptValue(image_url={"url": "u"}),
    ],
)
def test_they_load_as_they_were_dumped(value):
    loaded_value = load(dumpd(value))
    assert loaded_value == value
    assert type(loaded_value) is type(value)
