"""The messages API -> events. Pure.

Blocks have an index and an explicit end in this API. Results of server tools become one complete block at once; blocks
without an equivalent (redacted thinking, compactions, unknown types) become one `non_standard` block at their end. An
answer that is not streamed is decoded as the equivalent stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeGuard, cast

from foldline.exceptions import MalformedStreamError, StreamTruncatedError
from foldline.messages.block_translators._refusals import refusal_of_metadata
from foldline.messages.block_translators.anthropic import translate
from foldline.protocol.events import Event
from foldline.protocol.merge import merge_dicts
from foldline.protocol.writer import EventWriter
from foldline.providers._wire import Fail
from foldline.providers.anthropic._wire import (
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

__all__ = [
    "decode_usage",
]


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
    """Decodes the events of one answer."""

    def __init__(
        self, fail: Fail, *, model: str | None = None, provider: str = "anthropic"
    ) -> None:
        self._fail = fail
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._usage: dict[str, Any] = {}
        self._inputs: dict[int | None, Block] = {}
        """Calls whose start had arguments; these are used if no deltas follow."""
        self._opaque_blocks: dict[int | None, Block] = {}
        """Blocks without an equivalent, collected until they end."""
        self._complete_keys: set[int | None] = set()
        self._server_keys: set[int | None] = set()
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
        """Return our events for one event of the stream."""
        if type(data) is not dict:
            raise MalformedStreamError(f"an event is a JSON object, not {type(data).__name__}")
        if self._writer.is_over:
            return []
        kind = data.get("type") or event
        if kind == "content_block_delta":  # the most frequent
            return self._block_delta(data)
        if kind == "error" or event == "error" or data.get("error"):
            raise self._fail(data)
        read = self._events.get(kind)
        return read(data) if read is not None else []  # ping, and unknown events

    def decode_answer(self, data: Message) -> list[Event]:
        """Return the events of an answer that is not streamed."""
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
        """Return the last events; raise if the answer is incomplete."""
        if self._writer.is_over:
            return []
        if not self._is_stopped:
            raise StreamTruncatedError(
                "the stream ended without message_stop and without stop_reason"
            )
        return self._message_stop({})

    def partial_state(self) -> dict[str, Any]:
        """Return usage, metadata and unfinished blocks, for the partial message of an interrupted stream."""
        metadata = {**self._writer.metadata_so_far, **self._metadata}
        return {
            "usage": self._writer.usage_so_far,
            "metadata": {**metadata, "usage": self._usage} if self._usage else metadata,
            "blocks": [
                {"type": "non_standard", "value": block} for block in self._opaque_blocks.values()
            ],
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
        for index in list(self._inputs) + list(self._opaque_blocks):
            events += self._block_stop({"index": cast("int", index)})
        if self._usage:
            self._metadata["usage"] = self._usage
        self._metadata.setdefault("stop_sequence", None)
        events += self._refusal()
        return events + self._writer.finish(metadata=self._metadata)

    def _stop(self, reason: str | None) -> None:
        if reason:
            self._is_stopped = True
            self._writer.metadata({"stop_reason": reason})
            self._writer.reason(STOP_REASONS.get(reason, reason))

    def _refusal(self) -> list[Event]:
        """Return the block of a refusal, which this API reports as a reason; text before it stays."""
        metadata = {**self._metadata, **self._writer.metadata_so_far}
        refusal = refusal_of_metadata(metadata, has_content=self._writer.has_blocks)
        return [] if refusal is None else self._writer.block(refusal, is_complete=True)

    def _note(self, fields: Block, known_fields: frozenset[str]) -> None:
        self._metadata |= _unknown_fields(fields, *known_fields)

    def _count(self, usage: Usage | None) -> None:
        if isinstance(usage, dict):  # malformed usage must not fail the answer
            self._usage |= {name: value for name, value in usage.items() if value is not None}
            self._writer.usage(decode_usage(cast("Usage", self._usage)))
        elif usage:
            self._metadata["usage"] = usage

    # -- blocks

    def _block_start(self, data: StreamEvent) -> list[Event]:
        block, key = data.get("content_block") or {}, data.get("index")
        kind = block.get("type")
        self._complete_keys.discard(key)
        if kind == "text":
            return self._text(block, key)
        if kind == "thinking":
            extras = _unknown_fields(block, "type", "thinking")
            return self._writer.reasoning(block.get("thinking"), key, extras=extras)
        if kind in CALLS:
            return self._call(block, key)
        blocks = translate(block)
        if blocks and all(result["type"] == "server_tool_result" for result in blocks):
            self._complete_keys.add(key)
            return [
                event for result in blocks for event in self._writer.block(result, is_complete=True)
            ]
        self._opaque_blocks[key] = dict(block)
        return []

    def _text(self, block: Block, key: int | None) -> list[Event]:
        fields: dict[str, Any] = {}
        if block.get("citations"):
            fields["annotations"] = [decode_citation(citation) for citation in block["citations"]]
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
        (self._server_keys.add if is_server else self._server_keys.discard)(key)
        return self._writer.tool_call(key, block.get("id"), name, None, extras, server=is_server)

    def _block_delta(self, data: StreamEvent) -> list[Event]:
        delta, key = data.get("delta") or {}, data.get("index")
        if key in self._opaque_blocks:
            self._opaque_blocks[key] = merge_dicts(
                self._opaque_blocks[key], _unknown_fields(cast("Block", delta), "type")
            )
            return []
        kind = delta.get("type") or ""
        read = self._deltas.get(kind)
        if read is not None:
            return read(key, delta)
        fields = _unknown_fields(cast("Block", delta), "type")
        return self._fields(key, {"extras": {kind or "delta": fields}}) if fields else []

    def _json_delta(self, key: int | None, delta: Delta) -> list[Event]:
        piece = delta["partial_json"]
        if not piece:
            return []
        self._inputs.pop(key, None)
        return self._writer.tool_call(key, args=piece, server=key in self._server_keys)

    def _signature_delta(self, key: int | None, delta: Delta) -> list[Event]:
        return self._writer.reasoning(None, key, extras={"signature": delta["signature"]})

    def _citations_delta(self, key: int | None, delta: Delta) -> list[Event]:
        return self._writer.text("", key, annotations=[decode_citation(delta["citation"])])

    def _block_stop(self, data: StreamEvent) -> list[Event]:
        key = data.get("index")
        opaque_block, call = self._opaque_blocks.pop(key, None), self._inputs.pop(key, None)
        if opaque_block is not None:
            return self._writer.block(
                {"type": "non_standard", "value": opaque_block}, is_complete=True
            )
        if call is not None:
            server = CALLS[call["type"]]
            events = self._writer.tool_call(key, args=_arguments(call["input"]), server=server)
            return events + self._writer.close(key)
        return self._writer.close(key) if key not in self._complete_keys else []

    def _fields(self, key: int | None, fields: dict[str, Any]) -> list[Event]:
        """Add unknown fields to the block at `key`, if it is open."""
        try:
            return self._writer.fields(fields, key)
        except MalformedStreamError:
            return []


def _arguments(arguments: object) -> Any:  # noqa: ANN401  JSON written by the model
    """Return arguments as the writer accepts them: anything but an object as JSON text."""
    return arguments if isinstance(arguments, (dict, str)) else json.dumps(arguments)


def _unknown_fields(block: Block, *known_fields: str) -> Block:
    return {
        name: value
        for name, value in block.items()
        if name not in known_fields and value is not None
    }


def decode_citation(citation: Block) -> Block:
    """Return a citation as an annotation; Anthropic's own fields (indexes, locations) are kept in `extras`."""
    blocks = translate({"type": "text", "text": "", "citations": [citation]}) or [{}]
    annotations: list[Block] = blocks[0]["annotations"]
    return annotations[0]


def decode_usage(usage: Usage) -> dict[str, Any]:
    """Return the counts under our names: input tokens include cached ones, which details list separately."""
    cache_read, cache_creation = (
        usage.get("cache_read_input_tokens"),
        usage.get("cache_creation_input_tokens"),
    )
    input_tokens, output_tokens = usage.get("input_tokens"), usage.get("output_tokens")
    counts: dict[str, Any] = {}
    if _is_number(input_tokens):
        counts["input_tokens"] = sum(
            count for count in (input_tokens, cache_read, cache_creation) if _is_number(count)
        )
    if _is_number(output_tokens):
        counts["output_tokens"] = output_tokens
    if len(counts) == 2:
        counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]
    details = {
        "cache_read": cache_read,
        "cache_creation": cache_creation,
        **_dict(usage.get("cache_creation")),
    }
    if numbers := {name: count for name, count in details.items() if _is_number(count)}:
        counts["input_token_details"] = numbers
    details = _dict(usage.get("output_tokens_details"))
    if numbers := {
        OUTPUT_DETAILS.get(name, name): count
        for name, count in details.items()
        if _is_number(count)
    }:
        counts["output_token_details"] = numbers
    return counts


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
