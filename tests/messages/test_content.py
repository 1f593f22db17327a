"""Makers of blocks, small questions about blocks, and the smaller modules of messages."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, TypeAdapter

import foldline.messages
from foldline.exceptions import UsageError
from foldline.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    ToolMessage,
    ToolMessageChunk,
    content,
)
from foldline.messages._kinds import MESSAGE_CLASSES
from foldline.messages._output_version import output_version
from foldline.messages.chat import ChatMessageChunk
from foldline.messages.dicts import message_to_chunk
from foldline.messages.function import FunctionMessageChunk
from foldline.messages.notification import add_notification_metadata, get_notification_metadata
from foldline.messages.system import SystemMessageChunk


def test_makers_give_ids_and_put_the_unknown_in_extras():
    block = content.create_text_block("x", odd=1, extras={"more": 2})

    assert block["id"].startswith("lc_")
    assert block["extras"] == {"odd": 1, "more": 2}
    assert content.create_text_block("x", id="i") == {"type": "text", "text": "x", "id": "i"}


@pytest.mark.parametrize("kind", ["image", "video", "audio", "file"])
def test_media_makers(kind):
    make = getattr(content, f"create_{kind}_block")

    assert make(url="u", id="i") == {"type": kind, "id": "i", "url": "u"}
    assert make(base64="AA", mime_type="a/b", id="i", index=0)["index"] == 0
    with pytest.raises(UsageError, match="one of"):
        make()
    if kind != "image":
        with pytest.raises(UsageError, match="mime_type"):
            make(base64="AA")


def test_the_other_makers():
    assert content.create_reasoning_block("r", id="i") == {
        "type": "reasoning",
        "reasoning": "r",
        "id": "i",
    }
    assert content.create_plaintext_block("t", id="i")["mime_type"] == "text/plain"
    assert content.create_tool_call("f", {}, id="i")["args"] == {}
    assert content.create_non_standard_block({"a": 1}, id="i")["value"] == {"a": 1}
    assert content.create_citation(url="u", id="i") == {"type": "citation", "id": "i", "url": "u"}


@pytest.mark.parametrize(
    ("block", "is_data"),
    [
        ({"type": "image", "url": "u"}, True),
        ({"type": "image", "source_type": "id", "id": "x"}, True),
        ({"type": "image", "data": "AA", "mimeType": "image/png"}, True),
        ({"type": "audio", "file_id": "f"}, True),
        ({"type": "text-plain", "text": "t"}, True),
        ({"type": "image"}, False),
        ({"type": "image", "source": {}}, False),
        ({"type": "file", "file": {}}, False),
        ({"type": "text", "text": "t"}, False),
        ({"type": "image_url", "image_url": "u"}, False),
    ],
)
def test_data_blocks(block, is_data):
    assert content.is_data_content_block(block) is is_data


@pytest.mark.parametrize("module", ["", ".content", ".utils", ".tool", ".ai", ".base"])
def test_every_name_that_is_announced_exists(module):
    package = __import__(f"foldline.messages{module}", fromlist=["__all__"])

    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_any_message_reads_what_it_writes():
    adapter = TypeAdapter(list[AnyMessage])
    extra = {"chat": {"role": "r"}, "function": {"name": "n"}, "tool": {"tool_call_id": "1"}}
    messages = []
    for kind, cls in MESSAGE_CLASSES.items():
        family = next((name for name in extra if kind.lower().startswith(name)), "")
        fields = {"id": "i"} if kind == "remove" else {"content": "x", **extra.get(family, {})}
        messages.append(cls(**fields))

    assert adapter.validate_json(adapter.dump_json(messages)) == messages
    assert [
        type(message) for message in adapter.validate_python(adapter.dump_python(messages))
    ] == [*map(type, messages)]


def test_messages_have_a_json_schema():
    class Body(BaseModel):
        messages: list[AnyMessage]

    schema = json.dumps(Body.model_json_schema())

    assert "AIMessageChunk" in schema
    assert "tool_call_id" in schema


def test_a_tool_result_is_coerced_to_content():
    assert ToolMessage(3, tool_call_id=1).content == "3"
    assert ToolMessage((1, "x", {"a": 1}), tool_call_id="1").content == ["1", "x", {"a": 1}]
    assert ToolMessage("x", tool_call_id=1).tool_call_id == "1"


def test_tool_chunks_add_up_within_one_call():
    first = ToolMessageChunk("a", tool_call_id="1", artifact={"x": 1})
    two = ToolMessageChunk("b", tool_call_id="1", status="error", artifact={"y": 2})

    total = first + two

    assert (total.content, total.status, total.artifact) == ("ab", "error", {"x": 1, "y": 2})
    with pytest.raises(UsageError):
        first + ToolMessageChunk("b", tool_call_id="2")


def test_chunks_of_different_speakers_do_not_add_up():
    with pytest.raises(UsageError, match="roles"):
        ChatMessageChunk("a", role="x") + ChatMessageChunk("b", role="y")
    with pytest.raises(UsageError, match="different names"):
        FunctionMessageChunk("a", name="x") + FunctionMessageChunk("b", name="y")
    assert (SystemMessageChunk("a") + SystemMessageChunk("b")).content == "ab"


def test_every_message_becomes_a_chunk_and_back():
    message = AIMessage("x", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "1"}], id="i")

    assert foldline.messages.message_chunk_to_message(message_to_chunk(message)) == message
    assert foldline.messages.message_chunk_to_message(message) is message


def test_notifications_are_marked_on_a_copy():
    message = HumanMessage("summary")
    marked_message = add_notification_metadata(message, source="summariser", data={"n": 1})

    assert get_notification_metadata(marked_message) == {"source": "summariser", "data": {"n": 1}}
    assert get_notification_metadata(message) is None


def test_the_output_version_is_asked_for_or_in_the_environment(monkeypatch):
    monkeypatch.delenv("FOLDLINE_OUTPUT_VERSION", raising=False)
    monkeypatch.delenv("LC_OUTPUT_VERSION", raising=False)
    assert output_version() == "v0"

    monkeypatch.setenv("LC_OUTPUT_VERSION", "v1")
    assert output_version() == "v1"

    monkeypatch.setenv("FOLDLINE_OUTPUT_VERSION", "v0")
    assert output_version() == "v0"
    assert output_version("v1") == "v1"

    monkeypatch.setenv("FOLDLINE_OUTPUT_VERSION", "v9")
    with pytest.raises(UsageError, match="FOLDLINE_OUTPUT_VERSION"):
        output_version()


def test_pretty_print_prints(capsys):
    HumanMessage("hi", name="ann").pretty_print()

    assert capsys.readouterr().out.endswith("\nName: ann\n\nhi\n")
