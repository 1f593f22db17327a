"""F-D01 on messages: whatever stands in a free field, the message comes back the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from foldline.documents import Document
from foldline.exceptions import SchemaError
from foldline.load import dumpd, dumps, load, loads
from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from foldline.outputs import Generation
from tests.load.values import json_values, keys, same

plain_texts = st.text(max_size=8)  # Pydantic takes no lone surrogates where it expects text
free = st.dictionaries(keys, json_values, max_size=2)
# `tool_calls` in additional_kwargs is not free: messages read calls out of it.
kwargs = free.filter(lambda value: "tool_calls" not in value)
blocks = st.builds(lambda kind, more: {**more, "type": kind}, plain_texts, free)
contents = plain_texts | st.lists(plain_texts | blocks, max_size=3)
extras = st.dictionaries(st.sampled_from(["mood", "lc", "__lc_escaped__"]), json_values, max_size=2)
calls = st.lists(
    st.builds(
        lambda name, args: {"name": name, "args": args, "id": "1", "type": "tool_call"},
        plain_texts,
        st.dictionaries(plain_texts, json_values, max_size=2),
    ),
    max_size=2,
)
common: dict[str, Any] = {
    "content": contents,
    "additional_kwargs": kwargs,
    "response_metadata": free,
    "id": st.none() | plain_texts,
}
messages = (
    st.builds(lambda more, **fields: HumanMessage(**fields, **more), extras, **common)
    | st.builds(SystemMessage, **common)
    | st.builds(
        lambda more, **fields: AIMessage(**fields, **more), extras, tool_calls=calls, **common
    )
    | st.builds(ToolMessage, tool_call_id=plain_texts, artifact=json_values, **common)
    | st.builds(ChatMessage, role=plain_texts, **common)
    | st.builds(FunctionMessage, name=plain_texts, **common)
)


def parts(message: BaseMessage) -> dict[str, Any]:
    return dict(message)


@given(st.lists(messages, max_size=2))
def test_F_D01_any_message_comes_back_as_it_was(messages):
    copies = loads(dumps(messages))

    for message, copy in zip(messages, copies, strict=True):
        assert type(copy) is type(message)
        assert same(parts(copy), parts(message))


@given(messages)
def test_F_D01_a_dump_may_stand_inside_a_message_as_data(message):
    outer = HumanMessage("x", additional_kwargs={"stored": dumps(message)})
    inner = HumanMessage("x", additional_kwargs={"stored": [loads(dumps({"a": 1}))]})

    assert loads(dumps(outer)).additional_kwargs["stored"] == dumps(message)
    assert loads(dumps(inner)) == inner


def test_a_growing_chunk_is_dumped_as_it_stands():
    slices = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[{"name": name, "args": args, "id": "1", "index": 0}],
        )
        for name, args in (("add", '{"a"'), (None, ": 1}"))
    ]
    total = slices[0] + slices[1]

    loaded_chunk = loads(dumps(total))

    assert type(loaded_chunk) is AIMessageChunk
    assert loaded_chunk.tool_calls == total.tool_calls
    assert loaded_chunk.tool_call_chunks == total.tool_call_chunks
    assert loaded_chunk + AIMessageChunk(content="x") == total + AIMessageChunk(content="x")


def test_an_object_hung_on_a_message_is_marked_and_the_message_comes_back_without_it():
    message = ToolMessage("3", tool_call_id="1", artifact=object(), additional_kwargs={"kept": 1})

    data = dumpd(message)
    loaded_message = load(data)

    assert data["kwargs"]["artifact"]["type"] == "not_implemented"
    assert loaded_message == ToolMessage("3", tool_call_id="1", additional_kwargs={"kept": 1})
    with pytest.raises(SchemaError, match=r"cannot dump artifact: .*object"):
        dumpd(message, unserializable="raise")


def test_a_model_hung_on_a_message_comes_back_as_a_dict():
    class Answer(BaseModel):
        sum: int
        parts: tuple[int, ...]

    message = AIMessage("x", additional_kwargs={"parsed": Answer(sum=3, parts=(1, 2))})

    loaded_message = loads(dumps(message))

    assert loaded_message.additional_kwargs == {"parsed": {"sum": 3, "parts": (1, 2)}}


@pytest.mark.parametrize(
    "note", [{"lc": 1}, {"__lc_escaped__": {"lc": 1}}, {"lc": 1, "a": [{"lc": 2}]}]
)
def test_data_that_looks_like_a_tag_is_written_as_langchain_writes_it(note):
    message = HumanMessage("x", additional_kwargs={"note": note})

    data = dumpd(message)

    assert data["kwargs"]["additional_kwargs"]["note"] == {"__lc_escaped__": note}
    assert load(data) == message


def test_data_that_looks_like_a_tag_and_is_not_json_comes_back_exactly():
    message = HumanMessage("x", additional_kwargs={"note": {"lc": 1, "size": (3, 4)}})

    assert loads(dumps(message)) == message


def test_a_dump_says_the_type_of_what_it_holds():
    values = [AIMessage("x"), Generation(text="x"), Document("x")]

    assert [dumpd(value)["kwargs"]["type"] for value in values] == ["ai", "Generation", "Document"]


def test_a_message_of_an_unknown_role_is_a_schema_error():
    data = '{"lc":1,"type":"constructor","id":["foldline","messages","GodMessage"],"kwargs":{}}'
    with pytest.raises(SchemaError, match="GodMessage is not a class that may be loaded"):
        loads(data)


def test_a_tool_message_without_its_call_is_a_schema_error():
    data = '{"lc":1,"type":"constructor","id":["foldline","messages","ToolMessage"],"kwargs":{"content":"x"}}'
    with pytest.raises(SchemaError, match="tool_call_id"):
        loads(data)


def test_a_subclass_of_the_users_own_is_loaded_when_named():
    class Note(HumanMessage):
        importance: int = 0

    note = Note("x", importance=3)

    assert loads(dumps(note), allowed_objects=[Note]) == note
    with pytest.raises(SchemaError, match="Note is not a class that may be loaded"):
        loads(dumps(note))
