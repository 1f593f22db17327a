"""Malformed messages: a typed error or correct handling, never a crash, a hang or a loss."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from foldline.exceptions import LimitExceededError, UsageError
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    count_tokens_approximately,
    get_buffer_string,
    merge_message_runs,
    messages_from_dict,
)


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "wizard", "content": "x"}],
        [{"role": 3, "content": "x"}],
        [{"content": "x"}],
        [{"role": "user"}],
        [{"role": "tool", "content": "x"}],
        [{"role": "remove", "content": ""}],
        [{"role": "assistant", "content": "", "tool_calls": "f"}],
        [("a", "b", "c")],
        [(3, "b")],
        [("wizard", "b")],
        [3],
        3,
        None,
        [None],
        [b"bytes"],
        [{"type": "constructor", "id": ["os", "system"], "kwargs": {}}],
    ],
)
def test_what_is_no_message_is_a_usage_error(value):
    with pytest.raises(UsageError):
        convert_to_messages(value)


@pytest.mark.parametrize(
    "value",
    [{"type": "wizard", "data": {}}, {"data": {}}, {"type": "ai"}, {"type": "ai", "data": 3}, 3],
)
def test_a_dict_that_is_no_message_is_a_usage_error(value):
    with pytest.raises(UsageError):
        messages_from_dict([value])


def test_an_unknown_type_is_refused_by_the_union():
    with pytest.raises(ValidationError):
        TypeAdapter(AnyMessage).validate_python({"type": "wizard", "content": "x"})


@pytest.mark.parametrize("content", [3, None, {"a": 1}, [3], [None], object()])
def test_content_of_a_wrong_type_is_refused(content):
    with pytest.raises(ValidationError):
        HumanMessage(content)


def test_missing_fields_are_refused():
    with pytest.raises(ValidationError, match="tool_call_id"):
        ToolMessage("x")
    with pytest.raises(ValidationError, match="name"):
        FunctionMessage("x")
    with pytest.raises(UsageError, match="content"):
        RemoveMessage("x", content="y")


def test_ten_megabytes_are_a_message_like_any_other():
    text = "x" * 10_000_000
    message = HumanMessage(text)
    total = AIMessageChunk(text) + AIMessageChunk("y")

    assert len(message.text) == 10_000_000
    assert len(total.content) == 10_000_001
    assert HumanMessage.model_validate_json(message.model_dump_json()) == message


def test_lone_surrogates_are_spelled_so_that_they_can_be_sent():
    message = HumanMessage(["a\ud800", {"type": "text", "text": "\udc00"}])
    from_wire = AIMessageChunk._trusted(content="a\ud800") + AIMessageChunk("b")

    assert HumanMessage("a\ud800").content == "a\\ud800"
    assert message.text == "a\\ud800\\udc00"
    assert message.model_dump_json()
    assert from_wire.content == "a\\ud800b"


def test_deep_json_is_kept_and_too_deep_to_copy_is_an_error():
    deep = nested(10_000)
    message = HumanMessage("x", additional_kwargs=deep)

    assert message.additional_kwargs is not None
    with pytest.raises(LimitExceededError, match="nested too deep"):
        AIMessageChunk(content="", additional_kwargs=deep) + AIMessageChunk("x")


def test_a_message_nested_ten_thousand_levels_deep_is_shown_and_its_copying_is_refused():
    message = HumanMessage("hello", additional_kwargs={"deep": nested(10_000)})
    assert "content='hello'" in repr(message)
    assert "nested too deep to be shown" in repr(message)
    assert "nested too deep to be shown" in str(message)
    with pytest.raises(LimitExceededError, match="too deep to be copied"):
        message.model_copy(deep=True)
    assert message.model_copy().text == "hello"


def test_deep_tool_arguments_are_an_invalid_call():
    args = '{"a":' * 10_000 + "1" + "}" * 10_000
    chunk = AIMessageChunk(
        content="", tool_call_chunks=[{"name": "f", "args": args, "id": "1", "index": 0}]
    )

    assert chunk.tool_calls == []
    assert "deep" in str(chunk.invalid_tool_calls[0]["error"])


def test_a_cycle_is_an_error_where_it_would_be_walked():
    cycle: dict = {}
    cycle["self"] = cycle
    message = AIMessage("x", additional_kwargs=cycle)

    with pytest.raises(ValueError, match=r"[Cc]ircular"):
        message.model_dump_json()
    with pytest.raises(LimitExceededError):
        AIMessageChunk(content="", additional_kwargs=cycle) + AIMessageChunk("x")


def test_values_that_are_no_json_stay_what_they_are():
    marker = object()

    assert ToolMessage("x", tool_call_id="1", artifact=marker).artifact is marker
    assert AIMessage("x", additional_kwargs={"m": marker}).additional_kwargs["m"] is marker


def calling(args):
    return AIMessage("", tool_calls=[{"name": "f", "args": args, "id": "1"}])


@pytest.mark.parametrize(
    "message", [calling(nested(10_000)), AIMessage([{"type": "odd", "value": nested(10_000)}])]
)
def test_a_value_nested_too_deep_is_shown_as_that(message):
    assert "nested too deep to be shown" in message.pretty_repr()
    assert "nested too deep to be shown" in message._repr_html_()
    assert "nested too deep to be shown" in repr(message)


@pytest.mark.parametrize("verb", [get_buffer_string, count_tokens_approximately])
def test_a_value_nested_too_deep_is_neither_written_nor_counted(verb):
    with pytest.raises(LimitExceededError, match="nested too deep"):
        verb([calling(nested(10_000))])


def test_a_conversation_in_xml_cuts_what_is_nested_too_deep_or_contains_itself():
    itself = {}
    itself["a"] = itself

    assert "<tool_call" in get_buffer_string([calling(nested(10_000))], format="xml")
    assert "<tool_call" in get_buffer_string([calling(itself)], format="xml")


@pytest.mark.parametrize(
    "value", [nested(10_000), {"a": object()}, {"a": b"x"}, {"a": float("nan")}]
)
def test_arguments_that_are_no_json_are_not_said_to_openai(value):
    with pytest.raises(UsageError, match="the arguments of f cannot be written as JSON"):
        convert_to_openai_messages([calling(value)])


def test_metadata_with_keys_that_are_no_text_can_be_joined():
    message = AIMessage("a", additional_kwargs={1: "x"})

    assert merge_message_runs([message, message])[0].additional_kwargs == {1: "xx"}


@pytest.mark.parametrize("cls", [AIMessage, AIMessageChunk, HumanMessage])
@pytest.mark.parametrize("value", [3, "text", ["text"], [None], {"type": "text", "text": "x"}])
def test_content_blocks_are_a_list_of_dicts(cls, value):
    with pytest.raises(UsageError, match="content_blocks is a list of dicts"):
        cls(content_blocks=value)


@pytest.mark.parametrize("cls", [AIMessage, AIMessageChunk])
def test_additional_kwargs_of_a_wrong_type_are_refused(cls):
    with pytest.raises(ValidationError, match="additional_kwargs"):
        cls("x", additional_kwargs=["x"], tool_calls=[])


@pytest.mark.parametrize(
    "value",
    [
        {"role": "developer", "content": "x", "additional_kwargs": "x"},
        {"type": ["human"], "data": {}},
        {"type": "human", "data": ["x"]},
        {"type": "remove", "data": {}},
    ],
)
def test_dicts_that_are_nearly_messages_are_usage_errors(value):
    with pytest.raises(UsageError):
        convert_to_messages([value])
    with pytest.raises(UsageError):
        messages_from_dict([value])
