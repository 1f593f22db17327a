"""What `process` and `postprocess` give, as events and as a message: records, deltas, dicts of their fields. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from foldline.exceptions import MalformedStreamError, UsageError
from foldline.language_models.records.reading import MEDIA, read_call, read_file
from foldline.language_models.records.records import (
    ChatModelOutput,
    ChatModelOutputUsage,
    output_of,
)
from foldline.messages import AIMessage
from foldline.protocol.events import Event
from foldline.protocol.replay import describe
from foldline.protocol.writer import EventWriter
from foldline.utils.json import dumps_canonical, to_jsonable
from foldline.utils.spelling import snake_keys
from foldline.utils.uuid import new_id

Options = dict[str, Any]
KEYS = frozenset({"text", "json", "tool_calls", "usage", "model", "files", "thoughts", "message"})
VIEWS: dict[str, frozenset[str]] = {
    "thoughts": frozenset({"reasoning"}),
    "text": frozenset({"text"}),
    "tool_calls": frozenset({"tool_call"}),
    "files": MEDIA,
}
"""Fields of a record -> the blocks they show, in the order in which a record is said."""


class Teller:
    """Turns records and deltas into events: text and thoughts append, JSON merges, calls and files add."""

    def __init__(self, model: str | None = None) -> None:
        """Write one message; `model` is the name of the model where no record says another."""
        self._writer = EventWriter(usage_mode="last")
        self._json: Any = None
        self._reason = "stop"
        self._has_text = False
        self._model = model
        self._calls: set[str] = set()
        self._files: list[Any] = []

    def write(self, said: object) -> list[Event]:
        """Say one record or delta."""
        fields = _fields(said)
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
            self._json = _merged(self._json, fields["json"])
        if fields.get("usage") is not None:
            writer.usage(_usage(fields["usage"]))
        self._model = fields.get("model") or self._model
        return events

    def end(self) -> list[Event]:
        """End the message; JSON is said as text where there is no other, so that every reader finds it."""
        events: list[Event] = []
        if self._json is not None:
            value = to_jsonable(self._json)
            if not self._has_text:
                text = {"type": "text", "text": dumps_canonical(value)}
                events += self._writer.block(text, whole=True)
            self._writer.metadata({"json": value})
        if self._model:
            self._writer.metadata({"model_name": self._model})
        return [*events, *self._writer.finish(self._reason)]

    def _message(self, message: AIMessage) -> list[Event]:
        writer = self._writer
        events = list(writer.start(id=message.id, metadata=message.response_metadata))
        for block in message.content_blocks:
            events += writer.block(cast("Any", block), whole=True)
        metadata = message.response_metadata
        self._has_text = True
        self._model = metadata.get("model_name") or self._model
        raw = message.finish_reason or metadata.get("finish_reason") or metadata.get("stop_reason")
        self._reason = str(raw or ("tool_use" if message.tool_calls else "stop"))
        writer.usage(cast("Any", message.usage_metadata))
        writer.additional_kwargs(message.additional_kwargs)
        return events

    def _call(self, call: Mapping[str, Any]) -> list[Event]:
        """Say a tool call; one that a delta says again, as lists that grow do, is said once."""
        self._reason = "tool_use"
        read = _read_call(call)
        if (id := read.pop("id")) in self._calls:
            return []
        self._calls.add(id)
        events = self._writer.tool_call(key=id, id=id, **read)
        return [*events, *self._writer.close(id)]

    def _file(self, file: object) -> list[Event]:
        read = read_file(file)
        if read in self._files:
            return []
        self._files.append(read)
        return self._writer.block(read, whole=True)


def _fields(said: object) -> Options:
    if isinstance(said, ChatModelOutput):
        fields = {
            name: getattr(said, name) for name in ChatModelOutput.model_fields if name != "json_"
        }
        return {**fields, "json": said.json_}
    if isinstance(said, str):
        return {"text": said}
    if isinstance(said, AIMessage):
        return {"message": said}
    if not isinstance(said, Mapping):
        raise UsageError(
            f"`process` gave {type(said).__name__}: give a ChatModelOutput, a dict of its fields, or deltas"
        )
    if isinstance(delta := said.get("delta"), Mapping):  # AIGNE's response chunks
        said = {**(delta.get("json") or {}), **(delta.get("text") or {})}
    fields = snake_keys(said)
    unknown = sorted(fields.keys() - KEYS)
    if unknown:
        raise MalformedStreamError(
            f"`process` gave the field {unknown[0]!r}: known are {', '.join(sorted(KEYS))}"
        )
    return fields


def replaced(changed: object, before: AIMessage) -> AIMessage:
    """Return the message that `postprocess` gave instead of another.

    A record stands for the whole answer: what its fields say as before keeps its blocks, the rest is said anew. Tokens
    that were spent stay spent, so usage and the model's name change only where they are given.
    """
    if isinstance(changed, AIMessage):
        return changed
    fields = _fields(changed)
    own = fields.get("message")
    if isinstance(own, AIMessage) and own is not before:
        return own
    folded, views = describe(before), output_of(before)
    metadata = dict(folded.metadata)
    if fields.get("json") is None:
        metadata.pop("json", None)
    elif fields["json"] != views.json_:
        metadata["json"] = to_jsonable(fields["json"])
    if "json" in metadata and fields.get("text") is None:  # said as text where there is no other
        fields["text"] = dumps_canonical(metadata["json"])
    if fields.get("model"):
        metadata["model_name"] = fields["model"]
    blocks: list[Any] = list(folded.blocks)
    shown = {name: getattr(views, name) for name in VIEWS}
    shown["text"] = str(before.text)
    for name, kinds in VIEWS.items():
        if (fields.get(name) or None) != (shown[name] or None):
            blocks = _replace_blocks(blocks, kinds, _blocks_of(name, fields.get(name)))
    usage = folded.usage if fields.get("usage") is None else cast("Any", _usage(fields["usage"]))
    made = dataclasses.replace(folded, blocks=blocks, metadata=metadata, usage=usage)
    is_v1 = before.response_metadata.get("output_version") == "v1"
    return AIMessage.from_fold(made, "v1" if is_v1 else "v0")


def _replace_blocks(blocks: list[Any], kinds: frozenset[str], said: list[Any]) -> list[Any]:
    places = [place for place, block in enumerate(blocks) if block.get("type") in kinds]
    first = places[0] if places else len(blocks)
    rest = [block for block in blocks[first:] if block.get("type") not in kinds]
    return [*blocks[:first], *said, *rest]


def _blocks_of(name: str, value: Any) -> list[Any]:  # noqa: ANN401  text, or a list of files or calls: `name` says which
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
    """Read a tool call; one without an id gets one."""
    read = read_call(call)
    return {**read, "id": read["id"] or f"call_{new_id()}"}


def _merged(left: object, right: object) -> object:
    """Overlay what came later: objects merge, anything else replaces."""
    if not isinstance(left, dict) or not isinstance(right, Mapping):
        return right
    return {**left, **{key: _merged(left.get(key), value) for key, value in right.items()}}


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
    kept = {key: value for key, value in details.items() if value}
    total = (counts.get("input_tokens") or 0) + (counts.get("output_tokens") or 0)
    return {**counts, "total_tokens": total, **({"input_token_details": kept} if kept else {})}
