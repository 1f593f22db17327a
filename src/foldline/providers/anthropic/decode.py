"""The messages API -> events. A decoder is fed the events of a stream and gives ours; it does no I/O.

Blocks have an index and true ends on this wire, so each event has one place to go. Blocks that do not grow are told
whole: results of server tools at once, what has no word in ours (redacted thinking, compactions, anything newer) at its
end, as `non_standard`, as it was. An answer that came whole is the stream it would have been.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeGuard, cast

from foldline.exceptions import MalformedStreamError, StreamTruncatedError
from foldline.messages.block_translators.anthropic import translate
from foldline.protocol.events import Event
from foldline.protocol.merge import merge_dicts
from foldline.protocol.writer import EventWriter
from foldline.providers._wire import Fail
from foldline.providers.anthropic.wire import (
    CALLS,
    EVENT_FIELDS,
    MESSAGE_FIELDS,
    REMOTE_TOOL,
    Block,
    Delta,
    Message,
    StreamEvent,
    Usage,
)

__all__ = ["AnthropicDecoder", "decode_citation", "decode_usage"]


STOP_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_use",
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
}

OUTPUT_DETAILS: Final = {"thinking_tokens": "reasoning"}


class AnthropicDecoder:
    """Turns the events of one answer into ours."""

    def __init__(
        self, fail: Fail, *, model: str | None = None, provider: str = "anthropic"
    ) -> None:
        self._fail = fail
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._usage: dict[str, Any] = {}
        self._inputs: dict[int | None, Block] = {}
        """Arguments that came with the start of a call; they count if no slices follow."""
        self._held: dict[int | None, Block] = {}
        """Blocks in Anthropic's own words, which are told when they are over."""
        self._whole: set[int | None] = set()
        self._server: set[int | None] = set()
        self._metadata: dict[str, Any] = {}
        self._is_stopped = False
        self._events: dict[str, Callable[[StreamEvent], list[Event]]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
        }
        self._deltas: dict[str, Callable[[int | None, Delta], list[Event]]] = {
            "text_delta": lambda key, delta: self._writer.text(delta["text"], key),
            "thinking_delta": lambda key, delta: self._writer.reasoning(delta["thinking"], key),
            "input_json_delta": self._json_delta,
            "signature_delta": self._signature_delta,
            "citations_delta": self._citations_delta,
        }

    def feed(self, data: StreamEvent, event: str = "message") -> list[Event]:
        """Take one event."""
        if type(data) is not dict:
            raise MalformedStreamError(f"an event is a JSON object, not {type(data).__name__}")
        if self._writer.is_over:
            return []
        kind = data.get("type") or event
        if kind == "content_block_delta":  # by far the most
            return self._block_delta(data)
        if kind == "error" or event == "error" or data.get("error"):
            raise self._fail(data)
        read = self._events.get(kind)
        return read(data) if read is not None else []  # ping, and what is newer than this file

    def whole(self, data: Message) -> list[Event]:
        """Take an answer that came in one piece."""
        if type(data) is not dict or not isinstance(data.get("content"), list):
            if type(data) is dict and data.get("type") == "error":
                raise self._fail(data)
            raise MalformedStreamError("the answer has no content: is this a messages endpoint?")
        events = self._message_start({"message": cast("Message", {**data, "stop_reason": None})})
        for index, block in enumerate(data["content"]):
            events += self._block_start({"index": index, "content_block": block})
            events += self._block_stop({"index": index})
        self._stop(data.get("stop_reason"))
        return events + self._message_stop({})

    def end(self, *, marked: bool) -> list[Event]:
        """Finish the message, if Anthropic said that it is complete."""
        if self._writer.is_over:
            return []
        if not self._is_stopped:
            raise StreamTruncatedError(
                "the stream ended without message_stop and without stop_reason"
            )
        return self._message_stop({})

    def partial_state(self) -> dict[str, Any]:
        """Return what was heard beside the content, for the partial message of a stream that broke."""
        metadata = {**self._writer.metadata_so_far, **self._metadata}
        return {
            "usage": self._writer.usage_so_far,
            "metadata": {**metadata, "usage": self._usage} if self._usage else metadata,
            "blocks": [{"type": "non_standard", "value": held} for held in self._held.values()],
        }

    # -- the message

    def _message_start(self, data: StreamEvent) -> list[Event]:
        message = data.get("message") or {}
        if message.get("model"):
            self._metadata["model"] = message[
                "model"
            ]  # beside `model_name`, as LangChain's messages have it
        events = self._writer.start(
            message.get("id"), {"model": message["model"]} if message.get("model") else None
        )
        self._note(cast("Block", message), MESSAGE_FIELDS)
        self._count(message.get("usage"))
        return events

    def _message_delta(self, data: StreamEvent) -> list[Event]:
        delta = data.get("delta") or {}
        self._stop(delta.get("stop_reason"))
        self._note(cast("Block", delta), frozenset({"type", "stop_reason"}))
        self._note(cast("Block", data), EVENT_FIELDS)
        self._count(data.get("usage"))
        return []

    def _message_stop(self, data: StreamEvent) -> list[Event]:
        self._is_stopped = True
        events: list[Event] = []
        for index in list(self._inputs) + list(self._held):
            events += self._block_stop({"index": cast("int", index)})
        if self._usage:
            self._metadata["usage"] = self._usage
        self._metadata.setdefault("stop_sequence", None)
        return events + self._writer.finish(metadata=self._metadata)

    def _stop(self, reason: str | None) -> None:
        if reason:
            self._is_stopped = True
            self._writer.metadata({"stop_reason": reason})
            self._writer.reason(STOP_REASONS.get(reason, reason))

    def _note(self, said: Block, known: frozenset[str]) -> None:
        self._metadata |= _unknown_fields(said, *known)

    def _count(self, usage: Usage | None) -> None:
        if isinstance(usage, dict):  # or it counts nothing, which must not cost the answer
            self._usage |= {name: value for name, value in usage.items() if value is not None}
            self._writer.usage(decode_usage(cast("Usage", self._usage)))
        elif usage:
            self._metadata["usage"] = usage

    # -- blocks

    def _block_start(self, data: StreamEvent) -> list[Event]:
        block, key = data.get("content_block") or {}, data.get("index")
        kind = block.get("type")
        self._whole.discard(key)
        if kind == "text":
            return self._text(block, key)
        if kind == "thinking":
            extras = _unknown_fields(block, "type", "thinking")
            return self._writer.reasoning(block.get("thinking"), key, extras=extras)
        if kind in CALLS:
            return self._call(block, key)
        known = translate(block)
        if known and all(one["type"] == "server_tool_result" for one in known):
            self._whole.add(key)
            return [event for one in known for event in self._writer.block(one, whole=True)]
        self._held[key] = dict(block)
        return []

    def _text(self, block: Block, key: int | None) -> list[Event]:
        fields: dict[str, Any] = {}
        if block.get("citations"):
            fields["annotations"] = [decode_citation(one) for one in block["citations"]]
        if extras := _unknown_fields(block, "type", "text", "citations"):
            fields["extras"] = extras
        return self._writer.text(block.get("text"), key, **fields)

    def _call(self, block: Block, key: int | None) -> list[Event]:
        is_server = CALLS[block["type"]]
        name, extras = block.get("name"), _unknown_fields(block, "type", "id", "name", "input")
        if block["type"] == "mcp_tool_use":
            name, extras = REMOTE_TOOL, {**extras, "tool_name": name}
        if block.get("input") not in (None, "", {}):
            self._inputs[key] = block
        (self._server.add if is_server else self._server.discard)(key)
        return self._writer.tool_call(key, block.get("id"), name, None, extras, server=is_server)

    def _block_delta(self, data: StreamEvent) -> list[Event]:
        delta, key = data.get("delta") or {}, data.get("index")
        if key in self._held:
            self._held[key] = merge_dicts(
                self._held[key], _unknown_fields(cast("Block", delta), "type")
            )
            return []
        kind = delta.get("type") or ""
        read = self._deltas.get(kind)
        if read is not None:
            return read(key, delta)
        said = _unknown_fields(cast("Block", delta), "type")
        return self._fields(key, {"extras": {kind or "delta": said}}) if said else []

    def _json_delta(self, key: int | None, delta: Delta) -> list[Event]:
        piece = delta["partial_json"]
        if not piece:
            return []
        self._inputs.pop(key, None)
        return self._writer.tool_call(key, args=piece, server=key in self._server)

    def _signature_delta(self, key: int | None, delta: Delta) -> list[Event]:
        return self._writer.reasoning(None, key, extras={"signature": delta["signature"]})

    def _citations_delta(self, key: int | None, delta: Delta) -> list[Event]:
        return self._writer.text("", key, annotations=[decode_citation(delta["citation"])])

    def _block_stop(self, data: StreamEvent) -> list[Event]:
        key = data.get("index")
        held, called = self._held.pop(key, None), self._inputs.pop(key, None)
        if held is not None:
            return self._writer.block({"type": "non_standard", "value": held}, whole=True)
        if called is not None:
            server = CALLS[called["type"]]
            events = self._writer.tool_call(key, args=_arguments(called["input"]), server=server)
            return events + self._writer.close(key)
        return self._writer.close(key) if key not in self._whole else []

    def _fields(self, key: int | None, fields: dict[str, Any]) -> list[Event]:
        """Keep what is newer than this file on the block that it was said of, if that block is open."""
        try:
            return self._writer.fields(fields, key)
        except MalformedStreamError:
            return []


def _arguments(given: object) -> Any:  # noqa: ANN401  JSON that the model wrote
    """Return arguments as the writer takes them; what is no object is judged as the text it is."""
    return given if isinstance(given, (dict, str)) else json.dumps(given)


def _unknown_fields(block: Block, *known: str) -> Block:
    return {name: value for name, value in block.items() if name not in known and value is not None}


def decode_citation(citation: Block) -> Block:
    """Return a citation in our words; what only Anthropic understands (indexes, locations) stays in `extras`."""
    read = translate({"type": "text", "text": "", "citations": [citation]}) or [{}]
    annotations: list[Block] = read[0]["annotations"]
    return annotations[0]


def decode_usage(usage: Usage) -> dict[str, Any]:
    """Return the counts under our names: input tokens include the cached ones, details say how many those are."""
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    told: dict[str, Any] = {}
    if _is_number(given):
        told["input_tokens"] = sum(one for one in (given, read, written) if _is_number(one))
    if _is_number(made):
        told["output_tokens"] = made
    if len(told) == 2:
        told["total_tokens"] = told["input_tokens"] + told["output_tokens"]
    details = {"cache_read": read, "cache_creation": written, **_dict(usage.get("cache_creation"))}
    if counted := {name: count for name, count in details.items() if _is_number(count)}:
        told["input_token_details"] = counted
    details = _dict(usage.get("output_tokens_details"))
    if counted := {
        OUTPUT_DETAILS.get(name, name): count
        for name, count in details.items()
        if _is_number(count)
    }:
        told["output_token_details"] = counted
    return told


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
