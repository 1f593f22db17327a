"""Converse -> events. Pure.

Blocks have an index and an explicit end in this API. Text and reasoning begin with their first delta, calls with a
start. Blocks that our events do not stream (results of server tools, images, redacted reasoning, unknown types) are
collected until their end. An answer that is not streamed goes through the same methods. Exceptions inside a stream are
separate frames, handled in `reading.py`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final, TypeGuard, cast

from foldline.exceptions import MalformedStreamError, StreamTruncatedError
from foldline.messages.block_translators._refusals import refusal_of_metadata
from foldline.messages.block_translators.bedrock_converse import translate
from foldline.protocol.events import Event
from foldline.protocol.merge import copy_json, merge_dicts
from foldline.protocol.writer import EventWriter
from foldline.providers.bedrock._wire import (
    ANSWER_FIELDS,
    EVENT_FIELDS,
    SERVER_CALL,
    Answer,
    Block,
    StreamEvent,
    Usage,
)

__all__ = [
    "decode_usage",
]


STOP_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
MEDIA: Final = ("image", "document", "video", "audio")
IGNORED_EVENTS: Final = frozenset({"initial-response", ""})


class BedrockDecoder:
    """Decodes the events of one answer."""

    def __init__(self, *, model: str | None = None, provider: str = "bedrock_converse") -> None:
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._pending: dict[int | None, Block] = {}
        """Blocks that are written when they end."""
        self._server_calls: set[int | None] = set()
        self._metadata: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._is_stopped = False
        self._events: dict[str, Callable[[StreamEvent], list[Event]]] = {
            "messageStart": lambda _: self._writer.start(),
            "contentBlockStart": self._block_start,
            "contentBlockDelta": self._block_delta,
            "contentBlockStop": self._block_stop,
            "messageStop": self._message_stop,
            "metadata": self._message_metadata,
        }
        self._deltas: dict[str, Callable[[int | None, Any], list[Event]]] = {
            "text": lambda key, text: self._writer.text(text, key),
            "toolUse": self._call_delta,
            "reasoningContent": self._reasoning_delta,
            "citation": self._citation_delta,
        }
        self._blocks: dict[str, Callable[[int | None, Block], list[Event]]] = {
            "text": self._text,
            "toolUse": self._call,
            "reasoningContent": self._reasoning,
            "citationsContent": self._cited_text,
            "toolResult": self._server_result,
            **dict.fromkeys(MEDIA, self._media),
        }

    def feed(self, data: StreamEvent, event: str) -> list[Event]:
        """Return our events for one event of the stream."""
        if type(data) is not dict:
            raise MalformedStreamError(f"an event is a JSON object, not {type(data).__name__}")
        if self._writer.is_over:
            return []
        read = self._events.get(event)
        if read is not None:
            return read(data)
        if event not in IGNORED_EVENTS:
            self._metadata[event] = _other_fields(cast("Block", data), "p")
        return []

    def decode_answer(self, data: Answer) -> list[Event]:
        """Return the events of an answer that is not streamed."""
        output = data.get("output") if type(data) is dict else None
        message = output.get("message") if isinstance(output, dict) else None
        if not isinstance(message, dict):
            raise MalformedStreamError("the answer has no output.message: is this Converse?")
        events = self._writer.start()
        for index, block in enumerate(message.get("content") or []):
            events += self._block(index, block) + self._writer.close(index)
        self._note(cast("Block", data), ANSWER_FIELDS)
        self._count(data.get("usage"))
        self._stop(data.get("stopReason"))
        return events + self._finish()

    def end(self, *, marked: bool) -> list[Event]:
        """Return the last events; raise if the answer is incomplete."""
        if self._writer.is_over:
            return []
        if not self._is_stopped:
            raise StreamTruncatedError("the stream ended without messageStop")
        return self._finish()

    def partial_state(self) -> dict[str, Any]:
        """Return usage, metadata and unfinished blocks, for the partial message of an interrupted stream."""
        return {
            "usage": self._writer.usage_so_far,
            "metadata": {**self._writer.metadata_so_far, **self._metadata},
            "blocks": [
                {"type": "non_standard", "value": pending} for pending in self._pending.values()
            ],
        }

    # -- the message

    def _message_stop(self, data: StreamEvent) -> list[Event]:
        self._stop(data.get("stopReason"))
        self._is_stopped = True
        self._note(cast("Block", data), EVENT_FIELDS)
        return []  # usage follows

    def _message_metadata(self, data: StreamEvent) -> list[Event]:
        self._count(data.get("usage"))
        self._note(cast("Block", data), EVENT_FIELDS)
        return self._finish() if self._is_stopped else []

    def _finish(self) -> list[Event]:
        events = [event for key in list(self._pending) for event in self._release(key)]
        refusal = refusal_of_metadata(self._metadata, has_content=self._writer.has_blocks)
        if refusal is not None:
            events += self._writer.block(refusal, is_complete=True)
        return events + self._writer.finish(metadata=self._metadata)

    def _stop(self, reason: str | None) -> None:
        if reason:
            self._metadata["stopReason"] = reason
            self._writer.reason(STOP_REASONS.get(reason, reason))

    def _note(self, data: Block, known_fields: frozenset[str]) -> None:
        self._metadata |= _other_fields(data, *known_fields)

    def _count(self, usage: Usage | None) -> None:
        if usage:
            self._metadata["usage"] = usage
        if isinstance(usage, dict):
            self._writer.usage(decode_usage(usage))

    # -- blocks of a stream

    def _block_start(self, data: StreamEvent) -> list[Event]:
        start, key = data.get("start") or {}, data.get("contentBlockIndex")
        if isinstance(call := start.get("toolUse"), dict):
            return self._call_start(key, call)
        if start:
            self._pending[key] = copy_json(start)
        return []

    def _block_delta(self, data: StreamEvent) -> list[Event]:
        key, events = data.get("contentBlockIndex"), []
        for kind, value in (data.get("delta") or {}).items():
            read = self._deltas.get(kind)
            if read is not None and key not in self._pending:
                events += read(key, value)
            else:
                self._collect(key, kind, value)
        return events

    def _block_stop(self, data: StreamEvent) -> list[Event]:
        key = data.get("contentBlockIndex")
        return self._release(key) + self._writer.close(key)

    def _call_delta(self, key: int | None, delta: Block) -> list[Event]:
        part = delta.get("input")
        if not part:
            return []
        is_server = key in self._server_calls
        return self._writer.tool_call(key, args=_arguments(part), server=is_server)

    def _reasoning_delta(self, key: int | None, delta: Block) -> list[Event]:
        if "redactedContent" in delta:
            self._collect(key, "reasoningContent", delta)
            return []
        events = self._writer.reasoning(delta["text"], key) if delta.get("text") else []
        if extras := _other_fields(delta, "text"):
            events += self._writer.reasoning(None, key, extras=extras)
        return events

    def _citation_delta(self, key: int | None, delta: Block) -> list[Event]:
        return self._writer.text("", key, annotations=[decode_citation(delta)])

    def _collect(self, key: int | None, kind: str, value: object) -> None:
        """Add a delta to a block that is written at its end."""
        pending = self._pending.setdefault(key, {})
        if kind == "toolResult" and isinstance(value, list):
            result = pending.setdefault(kind, {})
            result["content"] = _join_texts([*result.get("content", []), *value])
        elif isinstance(pending.get(kind), dict) and isinstance(value, dict):
            pending[kind] = _merge_parts(pending[kind], value)
        else:
            pending[kind] = value

    def _release(self, key: int | None) -> list[Event]:
        pending = self._pending.pop(key, None)
        return [] if pending is None else self._block(key, pending)

    # -- complete blocks

    def _block(self, key: int | None, block: Block) -> list[Event]:
        kind = next((name for name in self._blocks if block.get(name) is not None), None)
        if kind is None or not _is_of_known_shape(kind, block[kind]):
            return self._writer.block(
                {"type": "non_standard", "value": dict(block)}, is_complete=True
            )
        return self._blocks[kind](key, block)

    def _text(self, key: int | None, block: Block) -> list[Event]:
        fields: Block = {"extras": extras} if (extras := _other_fields(block, "text")) else {}
        return self._writer.text(block["text"], key, **fields)

    def _cited_text(self, key: int | None, block: Block) -> list[Event]:
        content = block["citationsContent"]
        text = "".join(str(part.get("text") or "") for part in content.get("content") or ())
        annotations = [decode_citation(citation) for citation in content.get("citations") or ()]
        extras = _other_fields(content, "content", "citations") | _other_fields(
            block, "citationsContent"
        )
        fields: Block = {"annotations": annotations, **({"extras": extras} if extras else {})}
        return self._writer.text(text, key, **fields)

    def _reasoning(self, key: int | None, block: Block) -> list[Event]:
        content = block["reasoningContent"]
        text = content.get("reasoningText")
        inner = text if isinstance(text, dict) else content
        extras = _other_fields(inner, "text") | _other_fields(block, "reasoningContent")
        if inner is not content:
            extras |= _other_fields(content, "reasoningText")
        return self._writer.reasoning(inner.get("text"), key, extras=extras)

    def _call(self, key: int | None, block: Block) -> list[Event]:
        call = block["toolUse"]
        events = self._call_start(key, call)
        if call.get("input") not in (None, "", {}):
            is_server = key in self._server_calls
            events += self._writer.tool_call(key, args=_arguments(call["input"]), server=is_server)
        return events

    def _call_start(self, key: int | None, call: Block) -> list[Event]:
        is_server = call.get("type") == SERVER_CALL
        (self._server_calls.add if is_server else self._server_calls.discard)(key)
        known_fields = ("toolUseId", "name", "input", *(("type",) if is_server else ()))
        return self._writer.tool_call(
            key,
            call.get("toolUseId"),
            call.get("name"),
            None,
            _other_fields(call, *known_fields),
            server=is_server,
        )

    def _server_result(self, key: int | None, block: Block) -> list[Event]:
        result = block["toolResult"]
        result_block: Block = {
            "type": "server_tool_result",
            "tool_call_id": str(result.get("toolUseId") or ""),
            "status": "error" if result.get("status") == "error" else "success",
            "output": result.get("content"),
        }
        if extras := _other_fields(result, "toolUseId", "status", "content"):
            result_block["extras"] = extras
        return self._writer.block(result_block, is_complete=True)

    def _media(self, key: int | None, block: Block) -> list[Event]:
        blocks = translate(block) or [{"type": "non_standard", "value": dict(block)}]
        return [event for part in blocks for event in self._writer.block(part, is_complete=True)]


def _is_of_known_shape(kind: str, value: object) -> bool:
    return isinstance(value, str if kind == "text" else dict)


def _arguments(value: object) -> Any:  # noqa: ANN401  JSON written by the model
    """Return arguments as the writer accepts them: anything but an object as JSON text."""
    return value if isinstance(value, dict | str) else json.dumps(value)


def _other_fields(block: Block, *known_fields: str) -> Block:
    return {
        name: value
        for name, value in block.items()
        if name not in known_fields and value is not None
    }


def _merge_parts(pending: Block, value: Block) -> Block:
    """Merge two parts of a block; slices of bytes are separate base64 texts."""
    merged: Block = merge_dicts(
        pending, {k: v for k, v in value.items() if k not in ("bytes", "source")}
    )
    for name in ("bytes", "redactedContent"):
        if name in pending and name in value:
            merged[name] = _join_bytes(pending[name], value[name])
        elif name in value:
            merged[name] = value[name]
    if isinstance(value.get("source"), dict):
        source = pending.get("source")
        merged["source"] = _merge_parts(source, value["source"]) if source else value["source"]
    return merged


def _join_bytes(first: str, second: str) -> str:
    return b64encode(b64decode(first) + b64decode(second)).decode()


def _join_texts(parts: list[Block]) -> list[Block]:
    """Join adjacent slices of text."""
    joined: list[Block] = []
    for part in parts:
        if joined and part.keys() == joined[-1].keys() == {"text"}:
            joined[-1] = {"text": joined[-1]["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def decode_citation(citation: Block) -> Block:
    """Return a citation as an annotation; Bedrock's own fields (its location) are kept in `extras`."""
    location = citation.get("location")
    web = location.get("web") if isinstance(location, dict) else None
    sources = citation.get("sourceContent")
    annotation: Block = {"type": "citation"}
    if citation.get("title") is not None:
        annotation["title"] = citation["title"]
    if isinstance(sources, list) and sources:
        annotation["cited_text"] = "".join(str(part.get("text") or "") for part in sources)
    if isinstance(web, dict) and web.get("url"):
        annotation["url"] = web["url"]
    is_single_text = (
        isinstance(sources, list) and len(sources) == 1 and sources[0].keys() == {"text"}
    )
    if extras := _other_fields(citation, "title", *(("sourceContent",) if is_single_text else ())):
        annotation["extras"] = extras
    return annotation


def decode_usage(usage: Usage) -> dict[str, Any]:
    """Return the counts under our names: input tokens include cached ones, which details list separately."""
    cache_read, cache_creation = (
        usage.get("cacheReadInputTokens"),
        usage.get("cacheWriteInputTokens"),
    )
    input_count, output_count = usage.get("inputTokens"), usage.get("outputTokens")
    counts: dict[str, Any] = {}
    if _is_number(input_count):
        counts["input_tokens"] = input_count + sum(
            n for n in (cache_read, cache_creation) if _is_number(n)
        )
    if _is_number(output_count):
        counts["output_tokens"] = output_count
    if len(counts) == 2:
        counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]
    details = {
        "cache_read": cache_read,
        "cache_creation": cache_creation,
        **_count_by_lifetime(usage.get("cacheDetails")),
    }
    if numbers := {name: count for name, count in details.items() if _is_number(count)}:
        counts["input_token_details"] = numbers
    return counts


def _count_by_lifetime(details: object) -> dict[str, Any]:
    """Return the tokens written to the cache by lifetime, under Anthropic's names."""
    rows = details if isinstance(details, list) else []
    return {
        f"ephemeral_{row.get('ttl')}_input_tokens": row.get("inputTokens")
        for row in rows
        if isinstance(row, dict)
    }


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int
