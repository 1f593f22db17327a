"""Messages in the form in which threads store them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from foldline.exceptions import SchemaError
from foldline.load._compact import compact_message, copy_fields, read_message
from foldline.load._packed import Packer, Reader
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.workflows.values import from_text, pack, to_text, unpack

CALL = {"name": "add", "args": {"a": {"b": [1]}}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
COMPACT: list[BaseMessage] = [
    HumanMessage("hi", id="1"),
    HumanMessage("", name="ann"),
    HumanMessage([{"type": "text", "text": "hi"}, "there"], additional_kwargs={"a": [1, 2.5]}),
    SystemMessage("né \U0001f600", response_metadata={"x": {"y": None}}),
    AIMessage("hi", finish_reason="stop", status="incomplete"),
    AIMessage("", tool_calls=[CALL], usage_metadata=USAGE, id="2"),
    AIMessage("", invalid_tool_calls=[{"name": "x", "args": "{", "id": None, "error": "bad"}]),
    AIMessage("x", own_field={"a": 1}),
    ToolMessage("3", tool_call_id="c1", artifact={"rows": [1]}, status="error", name="add"),
    ToolMessage("3", tool_call_id="c1"),
    ToolMessage("3", tool_call_id="", artifact=[]),
    ToolMessage([], tool_call_id="c1", artifact={}),
    ToolMessage("3", tool_call_id="c1", artifact=0),
    ToolMessage("3", tool_call_id="c1", artifact=False),
    HumanMessage("hi", id="", name=""),
]
OTHER: list[BaseMessage] = [
    HumanMessage("hi", additional_kwargs={"a": (1, 2)}),
    HumanMessage("hi", additional_kwargs={1: 2}),
    HumanMessage("hi", additional_kwargs={"n": float("inf")}),
    HumanMessage("hi", additional_kwargs={"n": 2**70}),
    ToolMessage("3", tool_call_id="c1", artifact={1, 2}),
    AIMessageChunk("hi"),
    ChatMessage("hi", role="critic"),
    RemoveMessage(id="1"),
]


def through_text(value: object) -> Any:
    body = {"v": 1, "kind": "x", "value": pack(value, "it")}
    return unpack(from_text(to_text(body), "it")["value"], "it")


@pytest.mark.parametrize("message", COMPACT, ids=repr)
def test_a_message_of_plain_json_is_stored_in_its_compact_form(message):
    form = compact_message(message)

    assert form is not None
    assert form[:2] == [message.type, message.content]
    restored = through_text([message])[0]
    assert restored == message
    assert type(restored) is type(message)
    assert restored.model_dump() == message.model_dump()
    assert restored.__pydantic_extra__ == message.__pydantic_extra__


@pytest.mark.parametrize("message", OTHER, ids=repr)
def test_any_other_message_is_stored_as_before(message):
    assert compact_message(message) is None
    assert through_text(message) == message


def test_a_class_of_the_program_with_a_known_name_is_not_taken_for_ours():
    cls = type("HumanMessage", (HumanMessage,), {"__module__": "foldline.messages.human"})

    assert compact_message(cls("hi")) is None
    assert copy_fields(cls("hi")) is None


def test_the_compact_form_shares_nothing_with_the_message():
    message = AIMessage("", tool_calls=[CALL], response_metadata={"a": {"b": 1}})
    form = compact_message(message)
    before = json.dumps(form)
    message.tool_calls[0]["args"]["a"]["b"].append(2)
    message.response_metadata["a"]["b"] = 2
    first, second = read_message(form), read_message(form)
    first.response_metadata["a"]["b"] = 3
    first.tool_calls[0]["args"]["a"]["b"].append(3)

    assert json.dumps(form) == before
    assert second.response_metadata == {"a": {"b": 1}}
    assert second.tool_calls[0]["args"] == {"a": {"b": [1]}}


@pytest.mark.parametrize(
    "form",
    [
        [],
        ["human"],
        ["human", "x"],
        ["human", "x", {}, {}],
        ["human", "x", []],
        ["human", 5, {}],
        ["human", [5], {}],
        ["human", "x", {"id": []}],
        ["human", "x", {"response_metadata": 5}],
        ["human", "x", {"content": "y"}],
        ["human", "x", {"type": "ai"}],
        ["human", "x", {"content_blocks": []}],
        ["ai", "x", {"tool_calls": "all"}],
        ["ai", "x", {"finish_reason": "whim"}],
        ["ai", "x", {"status": "lost"}],
        ["tool", "x", {}],
        ["tool", "x", {"tool_call_id": {}}],
        ["os.system", "x", {}],
        [None, "x", {}],
        [["human"], "x", {}],
        "human",
        5,
        None,
    ],
    ids=repr,
)
def test_a_damaged_message_raises_a_schema_error(form):
    with pytest.raises(SchemaError):
        unpack({"__foldline__": "message", "v": form}, "it")


def test_a_lone_surrogate_in_stored_content_is_spelled_out():
    packed = json.loads('["human", "a\\ud83d", {}]')

    assert read_message(packed).content == "a\\ud83d"


def test_messages_in_the_older_form_are_read():
    old = {"__foldline__": "lc", "v": {"lc": 1, "type": "constructor", "id": ["foldline", "messages", "HumanMessage"],
           "kwargs": {"content": "hi", "type": "human", "id": "1"}}}  # fmt: skip

    assert Reader().unpack([old]) == [HumanMessage("hi", id="1")]


def test_a_change_at_any_depth_shows_in_the_copied_fields():
    message = AIMessage("", tool_calls=[CALL], id="1")
    kept = copy_fields(message)
    assert kept == (message.__dict__, message.__pydantic_extra__)
    message.tool_calls[0]["args"]["a"]["b"].append(5)

    assert kept != (message.__dict__, message.__pydantic_extra__)


@pytest.mark.timing
def test_a_compact_message_is_read_in_ten_microseconds():
    count = 2000
    packed = Packer("it").pack([HumanMessage("x" * 500, id=str(n)) for n in range(count)])
    Reader().unpack(packed)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        Reader().unpack(packed)
        seconds.append(time.process_time() - start)

    assert min(seconds) / count < 10e-6
