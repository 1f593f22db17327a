"""Converts results of `process` and `postprocess` to events and messages: records, deltas, dicts of fields. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from foldline.exceptions import MalformedStreamError, UsageError
from foldline.language_models.records._reading import MEDIA, read_call, read_file
from foldline.language_models.records.records import (
    ChatModelOutput,
    ChatModelOutputUsage,
    output_of,
)
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.replay import describe
from foldline.protocol.writer import EventWriter
from foldline.utils._spelling import snake_keys
from foldline.utils.json import dumps_canonical, to_jsonable
from foldline.utils.uuid import new_id

Options = dict[str, Any]
KEYS = frozenset({"text", "json", "tool_calls", "usage", "model", "files", "thoughts", "message"})
VIEWS: dict[str, frozenset[str]] = {
    "thoughts": frozenset({"reasoning"}),
    "text": frozenset({"text"}),
    "tool_calls": frozenset({"tool_call"}),
    "files": MEDIA,
}
"""Fields of a record -> the types of their blocks, in the order in which a record is written."""


class RecordWriter:
    """Converts records and deltas to events: text and thoughts append, JSON merges, calls and files add."""

    def __init__(self, model: str | None = None) -> None:
        """Write one message; `model` is the name of the model if no record has another."""
        self._writer = EventWriter(usage_mode="last")
        self._json: Any = None
        self._reason = "stop"
        self._has_text = False
        self._model = model
        self._calls: set[str] = set()
        self._files: list[Any] = []

    def write(self, record: object) -> list[Event]:
        """Return the events of one record or delta."""
        fields = _fields(record)
        if isinstance(message := fields.get("message"), AIMessage):
            return self._message(message)
        writer, events = self._writer, list(self._writer.start())
        if fields.get("thoughts"):
            events += writer.reasoning(str(fields["thoughts"]))
        if fields.get("text"):
            self._has_text = True
            events += writer.text(str(fields["text"]))
        for call in fields.get("tool_calls") or ():
            events += self._call(call)
        for file in fields.get("files") or ():
            events += self._file(file)
        if fields.get("json") is not None:
            self._json = _merge_json(self._json, fields["json"])
        if fields.get("usage") is not None:
            writer.usage(_usage(fields["usage"]))
        self._model = fields.get("model") or self._model
        return events

    def end(self) -> list[Event]:
        """End the message; JSON is written as text if there is no text, so that every reader finds it."""
        events: list[Event] = []
        if self._json is not None:
            value = to_jsonable(self._json)
            if not self._has_text:
                text = {"type": "text", "text": dumps_canonical(value)}
                events += self._writer.block(text, is_complete=True)
            self._writer.metadata({"json": value})
        if self._model:
            self._writer.metadata({"model_name": self._model})
        return [*events, *self._writer.finish(self._reason)]

    def _message(self, message: AIMessage) -> list[Event]:
        writer = self._writer
        events = list(writer.start(id=message.id, metadata=message.response_metadata))
        for block in message.content_blocks:
            events += writer.block(cast("Any", block), is_complete=True)
        metadata = message.response_metadata
        self._has_text = True
        self._model = metadata.get("model_name") or self._model
        raw_reason = (
            message.finish_reason or metadata.get("finish_reason") or metadata.get("stop_reason")
        )
        self._reason = str(raw_reason or ("tool_use" if message.tool_calls else "stop"))
        writer.usage(cast("Any", message.usage_metadata))
        writer.additional_kwargs(message.additional_kwargs)
        return events

    def _call(self, call: Mapping[str, Any]) -> list[Event]:
        """Return the events of a tool call; one that a later delta repeats is written once."""
        self._reason = "tool_use"
        tool_call = _read_call(call)
        if (id := tool_call.pop("id")) in self._calls:
            return []
        self._calls.add(id)
        events = self._writer.tool_call(key=id, id=id, **tool_call)
        return [*events, *self._writer.close(id)]

    def _file(self, file: object) -> list[Event]:
        file_block = read_file(file)
        if file_block in self._files:
            return []
        self._files.append(file_block)
        return self._writer.block(file_block, is_complete=True)


def _fields(value: object) -> Options:
    if isinstance(value, ChatModelOutput):
        fields = {
            name: getattr(value, name) for name in ChatModelOutput.model_fields if name != "json_"
        }
        return {**fields, "json": value.json_}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, AIMessage):
        return {"message": value}
    if not isinstance(value, Mapping):
        raise UsageError(
            f"`process` gave {type(value).__name__}: give a ChatModelOutput, a dict of its fields, or deltas"
        )
    if isinstance(delta := value.get("delta"), Mapping):  # AIGNE's response chunks
        value = {**(delta.get("json") or {}), **(delta.get("text") or {})}
    fields = snake_keys(value)
    unknown_fields = sorted(fields.keys() - KEYS)
    if unknown_fields:
        raise MalformedStreamError(
            f"`process` gave the field {unknown_fields[0]!r}: known are {', '.join(sorted(KEYS))}"
        )
    return fields


def replace_message(new_value: object, old_message: AIMessage) -> AIMessage:
    """Return the message that `postprocess` returned in place of another.

    A record stands for the complete answer: fields that are equal to the old ones keep their blocks, others are written
    again. Usage and the model's name change only if they are set.
    """
    if isinstance(new_value, AIMessage):
        return new_value
    fields = _fields(new_value)
    new_message = fields.get("message")
    if isinstance(new_message, AIMessage) and new_message is not old_message:
        return new_message
    folded, views = describe(old_message), output_of(old_message)
    metadata = dict(folded.metadata)
    if fields.get("json") is None:
        metadata.pop("json", None)
    elif fields["json"] != views.json_:
        metadata["json"] = to_jsonable(fields["json"])
    if "json" in metadata and fields.get("text") is None:  # written as text if there is no text
        fields["text"] = dumps_canonical(metadata["json"])
    if fields.get("model"):
        metadata["model_name"] = fields["model"]
    blocks: list[Any] = list(folded.blocks)
    old_fields = {name: getattr(views, name) for name in VIEWS}
    old_fields["text"] = str(old_message.text)
    for name, kinds in VIEWS.items():
        if (fields.get(name) or None) != (old_fields[name] or None):
            blocks = _replace_blocks(blocks, kinds, _blocks_of(name, fields.get(name)))
    usage = folded.usage if fields.get("usage") is None else cast("Any", _usage(fields["usage"]))
    new_fold = dataclasses.replace(folded, blocks=blocks, metadata=metadata, usage=usage)
    is_v1 = old_message.response_metadata.get("output_version") == "v1"
    return AIMessage.from_fold(new_fold, "v1" if is_v1 else "v0")


def _replace_blocks(blocks: list[Any], kinds: frozenset[str], new_blocks: list[Any]) -> list[Any]:
    indexes = [index for index, block in enumerate(blocks) if block.get("type") in kinds]
    first = indexes[0] if indexes else len(blocks)
    blocks_after = [block for block in blocks[first:] if block.get("type") not in kinds]
    return [*blocks[:first], *new_blocks, *blocks_after]


def _blocks_of(name: str, value: Any) -> list[Any]:  # noqa: ANN401  text, or a list of files or calls, depending on `name`
    if not value:
        return []
    if name == "text":
        return [{"type": "text", "text": str(value)}]
    if name == "thoughts":
        return [{"type": "reasoning", "reasoning": str(value)}]
    if name == "files":
        return [read_file(file) for file in value]
    return [{"type": "tool_call", **_read_call(call)} for call in value]


def _read_call(call: Mapping[str, Any]) -> Options:
    """Return a tool call; one without an id gets one."""
    tool_call = read_call(call)
    return {**tool_call, "id": tool_call["id"] or f"call_{new_id()}"}


def _merge_json(left: object, right: object) -> object:
    """Merge two JSON values: objects are merged, anything else is replaced."""
    if not isinstance(left, dict) or not isinstance(right, Mapping):
        return right
    return {**left, **{key: _merge_json(left.get(key), value) for key, value in right.items()}}


def _usage(usage: ChatModelOutputUsage | Mapping[str, Any]) -> Options:
    counts = (
        usage.model_dump(exclude_none=True)
        if isinstance(usage, ChatModelOutputUsage)
        else snake_keys(usage)
    )
    details = {
        "cache_read": counts.pop("cache_read_input_tokens", 0),
        "cache_creation": counts.pop("cache_creation_input_tokens", 0),
    }
    nonzero_details = {key: value for key, value in details.items() if value}
    total = (counts.get("input_tokens") or 0) + (counts.get("output_tokens") or 0)
    return {
        **counts,
        "total_tokens": total,
        **({"input_token_details": nonzero_details} if nonzero_details else {}),
    }
