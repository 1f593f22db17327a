"""Our types compared with the published `langchain-protocol` package: the same, with listed exceptions and reasons.

A front end that reads the published events reads ours. The package is a test dependency only: importing it costs more
than importing all of `foldline.protocol`.
"""

from __future__ import annotations

import re
from typing import Any, get_args, get_origin

import langchain_protocol.protocol as published
import pytest

from foldline.protocol import blocks, events

EXTRAS = "every block may carry provider data that has no field of its own"

SAME: dict[str, Any] = {
    "TextContentBlock": blocks.TextContentBlock,
    "ReasoningContentBlock": blocks.ReasoningContentBlock,
    "ToolCall": blocks.ToolCall,
    "ToolCallChunk": blocks.ToolCallChunk,
    "InvalidToolCall": blocks.InvalidToolCall,
    "ServerToolCall": blocks.ServerToolCall,
    "ServerToolCallChunk": blocks.ServerToolCallChunk,
    "ServerToolResult": blocks.ServerToolResult,
    "ImageContentBlock": blocks.ImageContentBlock,
    "AudioContentBlock": blocks.AudioContentBlock,
    "VideoContentBlock": blocks.VideoContentBlock,
    "FileContentBlock": blocks.FileContentBlock,
    "NonStandardContentBlock": blocks.NonStandardContentBlock,
    "Citation": blocks.Citation,
    "NonStandardAnnotation": blocks.NonStandardAnnotation,
    "InputTokenDetails": blocks.InputTokenDetails,
    "OutputTokenDetails": blocks.OutputTokenDetails,
    "UsageInfo": blocks.UsageInfo,
    "TextDelta": events.TextDelta,
    "ReasoningDelta": events.ReasoningDelta,
    "DataDelta": events.DataDelta,
    "ToolCallDelta": events.ToolCallDelta,
    "BlockDelta": events.BlockDelta,
    "MessageStartData": events.MessageStart,
    "ContentBlockStartData": events.ContentBlockStart,
    "ContentBlockDeltaData": events.ContentBlockDeltaEvent,
    "ContentBlockFinishData": events.ContentBlockFinish,
    "MessageFinishData": events.MessageFinish,
    "MessageErrorData": events.StreamError,
}
"""Published type -> ours."""

ADDED: dict[tuple[str, str], str] = {
    **{
        (name, "extras"): EXTRAS
        for name in SAME
        if name.endswith(("ContentBlock", "ToolCall", "CallChunk", "ToolResult", "Citation"))
    },
    (
        "MessageFinishData",
        "finish_reason",
    ): "why the message ended, in eight words all providers share",
    ("MessageFinishData", "metadata"): "raw response metadata is known only at the end",
    (
        "MessageFinishData",
        "additional_kwargs",
    ): "provider fields without a block survive replay (T66)",
    ("MessageErrorData", "retryable"): "the caller's next move, where the provider said it",
}
"""(published type, field) -> why we have it and they do not."""

REQUIRED_DIFFERS: dict[tuple[str, str], str] = {
    ("ToolCall", "type"): "LangChain's own `tool_calls` of old messages have no type",
    ("ToolCallChunk", "type"): "as for ToolCall",
    ("InvalidToolCall", "type"): "as for ToolCall",
}
"""(published type, field) -> why we require it and they do not, or the other way round."""

VALUES_DIFFER: dict[tuple[str, str], str] = {
    ("MessageStartData", "role"): "tool messages can be replayed too: role 'tool'",
}
"""(published type, field) -> why its literal values are not theirs."""

ONLY_OURS: dict[str, str] = {
    "MessageReset": "sent only to who asked for repeated attempts; the published protocol has no retries",
    "RefusalContentBlock": "refusals are standard blocks in LangChain's messages",
    "RefusalDelta": "a refusal streams like text; who does not know the delta has the finish",
    "PlainTextContentBlock": "text-plain documents are standard blocks in LangChain's messages",
}
"""Our blocks that are not in their unions."""

ONLY_THEIRS: dict[str, str] = {
    "MessageMetadata": "ours is any dict of scalars: the same keys and whatever else a provider says",
    "BlockDeltaFields": "ours is a dict; the writer always puts the block's `type` in it, as theirs demands",
    "ToolOutputDeltaData": "output of tools that run in a graph is another channel, not part of a message",
}
"""Their types about messages that we have no TypedDict for."""

CONCERNS_MESSAGES = re.compile(
    r"Block|Delta|^Message|ToolCall|ToolResult|Citation|Annotation|Usage|TokenDetails"
)
NOT_OF_A_MESSAGE = re.compile(r"Event$|Cause|^Messages|^ToolContent|^Annotation$|^BlockIndex$")


def annotations_of(type_: Any) -> dict[str, str]:
    """Field -> its annotation as text, those of base classes included."""
    return {
        name: str(getattr(value, "__forward_arg__", value))
        for name, value in type_.__annotations__.items()
    }


def literals(annotation: str) -> set[str]:
    return set(re.findall(r"Literal\[([^\]]*)\]", annotation)) and {
        word.strip("'\" ")
        for part in re.findall(r"Literal\[([^\]]*)\]", annotation)
        for word in part.split(",")
    }


def expanded(name: str, annotation: str) -> str:
    """Put the literals of a named alias (`MessageRole`, `Role`) in its place."""
    for alias in ("MessageRole", "Role", "FinishReason"):
        for module in (published, events):
            if annotation == alias and hasattr(module, alias):
                return str(getattr(module, alias))
    return annotation


def is_required(annotation: str) -> bool:
    return not annotation.startswith("NotRequired[")


@pytest.mark.parametrize("name", SAME)
def test_fields_are_theirs_and_the_listed_additions(name):
    published_fields, our_fields = (
        annotations_of(getattr(published, name)),
        annotations_of(SAME[name]),
    )

    assert set(published_fields) - set(our_fields) == set()
    assert set(our_fields) - set(published_fields) == {
        field for type_, field in ADDED if type_ == name
    }


@pytest.mark.parametrize("name", SAME)
def test_the_same_fields_are_required(name):
    published_fields, our_fields = (
        annotations_of(getattr(published, name)),
        annotations_of(SAME[name]),
    )
    total = getattr(SAME[name], "__total__", True)

    differ = {
        field
        for field in published_fields
        if is_required(published_fields[field]) != (is_required(our_fields[field]) and total)
    }

    assert differ == {field for type_, field in REQUIRED_DIFFERS if type_ == name}


@pytest.mark.parametrize("name", SAME)
def test_tags_and_other_literals_are_theirs(name):
    published_fields, our_fields = (
        annotations_of(getattr(published, name)),
        annotations_of(SAME[name]),
    )

    differ = {
        field
        for field in published_fields
        if literals(expanded(field, published_fields[field]))
        != literals(expanded(field, our_fields[field]))
    }

    assert differ == {field for type_, field in VALUES_DIFFER if type_ == name}


@pytest.mark.parametrize(
    ("published_union", "our_union"),
    [
        (published.ContentBlock, blocks.ContentBlock),
        (published.FinalizedContentBlock, blocks.FinalizedContentBlock),
        (published.ContentBlockDelta, events.ContentBlockDelta),
        (published.MessagesData, events.Event),
    ],
)
def test_unions_have_the_same_members_but_for_those_listed(published_union, our_union):
    members = {SAME[member.__name__] for member in get_args(published_union)}

    assert members <= set(get_args(our_union))
    assert {member.__name__ for member in set(get_args(our_union)) - members} <= set(ONLY_OURS)


def test_every_published_type_about_messages_is_compared_or_listed():
    names = {
        name
        for name, thing in vars(published).items()
        if CONCERNS_MESSAGES.search(name)
        and not NOT_OF_A_MESSAGE.search(name)
        and isinstance(thing, type)
        and get_origin(thing) is None
        and hasattr(thing, "__annotations__")
    }

    assert names - set(SAME) == set(ONLY_THEIRS)


def test_every_difference_has_its_reason_in_words():
    for reasons in (ADDED, REQUIRED_DIFFERS, VALUES_DIFFER, ONLY_OURS, ONLY_THEIRS):
        assert all(len(reason.split()) >= 3 for reason in reasons.values())


def test_what_the_writer_sends_fits_the_published_types():
    """Held by their own TypedDicts through pydantic: start, deltas, finish of every kind."""
    from pydantic import TypeAdapter

    from foldline.protocol import EventWriter

    writer = EventWriter(id="msg_1", metadata={"provider": "acme", "model": "anvil-1"})
    events = [
        *writer.text("a", annotations=[{"type": "citation", "url": "u"}]),
        *writer.reasoning("r"),
        *writer.tool_call(id="c", name="f", args="{}"),
        *writer.tool_call(id="d", name="g", args="["),
        *writer.block({"type": "server_tool_call", "id": "s", "name": "f", "args": {}}),
        *writer.finish("stop", usage={"input_tokens": 1}),
    ]
    of_event = {
        "message-start": published.MessageStartData,
        "content-block-delta": published.ContentBlockDeltaData,
        "content-block-finish": published.ContentBlockFinishData,
        "message-finish": published.MessageFinishData,
    }

    for event in events:
        if event["event"] in of_event:
            type_ = of_event[event["event"]]
            TypeAdapter(type_).validate_python(event)
