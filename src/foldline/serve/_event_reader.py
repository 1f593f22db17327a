"""`ChatReader`: reads a run's events into the few operations that chat wires encode.

Messages that did not stream (a graph's node that returns one), chunks of text from a chain, and results of tools become
the same operations. Blocks are numbered through the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from foldline.messages import AIMessage, ToolMessage, convert_to_messages
from foldline.protocol.replay import message_to_events
from foldline.protocol.writer import EventWriter
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, decode_event, method_of

__all__ = ["ChatReader", "Op", "text_of_output"]

Kind = Literal[
    "message", "text-start", "text", "text-end", "reasoning-start", "reasoning", "reasoning-end",
    "refusal-start", "refusal", "refusal-end", "call-start", "call-args", "call-end", "block", "message-end", "reset",
    "tool-start", "tool-delta", "tool-end", "ask", "custom", "step", "end",
]  # fmt: skip

READ_METHODS: Final = frozenset(
    {b"messages", b"chunk", b"tools", b"updates", b"input.requested", b"custom", b"run"}
)
GROWING: Final = {
    "text-delta": "text",
    "reasoning-delta": "reasoning",
    "refusal-delta": "refusal",
    "tool-call-delta": "args",
}
TEXTS: Final = frozenset({"text", "reasoning", "refusal"})
"""Blocks that grow by text, in the field of their name."""
CALLS: Final = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call"})


class Op(NamedTuple):
    """One operation of a chat answer: its kind, the number of its block, its text or id, and more data."""

    kind: Kind
    number: int = 0
    text: str = ""
    data: Any = None


@dataclass(slots=True)
class _Block:
    number: int
    kind: str
    length: int = 0
    is_open: bool = False
    id: str | None = None
    name: str | None = None


@dataclass(slots=True)
class ChatReader:
    """Turns the events of the log into operations. One reader per view of a run."""

    reads_inner: bool = False
    """Whether messages of sub-agents are shown too."""
    count: int = 0
    seen: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    _blocks: dict[int, _Block] = field(default_factory=dict)
    _writer: EventWriter | None = None
    _pieces: list[Any] = field(default_factory=list)

    def read(self, event: EncodedEvent) -> Iterable[Op]:
        """Return the operations of one event. Only events of the methods that have some are parsed."""
        method = method_of(event)
        if method not in READ_METHODS:
            return ()
        params = decode_event(event)["params"]
        if params["namespace"] and not self.reads_inner:
            return ()
        return self._operations(method, params["data"])

    def _operations(self, method: bytes, data: Any) -> Iterable[Op]:  # noqa: ANN401  of any form
        ops: Iterable[Op] = ()
        match method:
            case b"messages":
                ops = self._message(data)
            case b"chunk":
                ops = self._chunk(data)
            case b"tools":
                ops = self._tool(data)
            case b"updates":
                ops = self._update(data)
            case b"input.requested":
                ops = (Op("ask", 0, data["interrupt_id"], data["payload"]),)
            case b"custom":
                content = data.get("payload") if isinstance(data, Mapping) else data
                ops = (Op("custom", 0, "", content),)
            case b"run" if data["event"] != "started":
                ops = self._end(data)
            case _:
                pass
        return ops

    def _end(self, data: JsonObject) -> Iterator[Op]:
        yield from self._close_chunks()
        yield Op("end", 0, data["event"], data)

    # -- messages

    def _message(self, data: Mapping[str, Any]) -> Iterable[Op]:
        ops: Iterable[Op] = ()
        match data["event"]:
            case "content-block-delta":
                ops = self._grow(data["index"], data["delta"])
            case "content-block-start":
                ops = self._start(data["index"], data["content"])
            case "content-block-finish":
                ops = self._finish(data["index"], data["content"])
            case "message-start":
                self.seen.add(data["id"])
                self._blocks = {}
                ops = (Op("message", 0, data["id"], data.get("metadata") or {}),)
            case "message-finish":
                ops = (Op("message-end", 0, data.get("finish_reason") or "unknown", data),)
            case "message-reset":
                ops = (Op("reset", 0, data["id"], data),)
            case _:
                pass  # unknown events are ignored
        return ops

    def _start(self, index: int, content: JsonObject) -> Iterator[Op]:
        kind = content["type"]
        block = self._blocks[index] = _Block(self.count, kind)
        self.count += 1
        if kind in TEXTS:
            yield from self._grow_block(block, kind, content.get(kind) or "", opens=True)
        elif kind in CALLS:
            block.id, block.name = content.get("id"), content.get("name")
            args = content.get("args")
            if block.id and block.name:
                yield from self._open_call(block)
                if isinstance(args, str):
                    yield from self._grow_block(block, "args", args)

    def _open_call(self, block: _Block) -> Iterator[Op]:
        if not block.is_open:
            block.is_open = True
            data = {"id": block.id, "name": block.name}
            yield Op("call-start", block.number, block.id or "", data)

    def _grow_block(
        self, block: _Block, field_name: str, text: str, *, opens: bool = False
    ) -> list[Op]:
        kind: Any = "call-args" if field_name == "args" else field_name
        ops = []
        if (opens or text) and kind != "call-args" and not block.is_open:
            block.is_open = True
            start: Any = f"{kind}-start"
            ops.append(Op(start, block.number))
        if text:
            block.length += len(text)
            ops.append(Op(kind, block.number, text))
        return ops

    def _grow(self, index: int, delta: JsonObject) -> Iterable[Op]:
        block = self._blocks.get(index)
        field_name = GROWING.get(delta["type"])
        if block is None:
            return ()
        if field_name is None:
            fields = delta.get("fields") or {}
            block.id = block.id or fields.get("id")
            block.name = block.name or fields.get("name")
            return ()
        if field_name != "args":
            return self._grow_block(block, field_name, delta[field_name])
        if not (block.id and block.name):
            return ()  # `_finish_call` yields all of it
        return (*self._open_call(block), *self._grow_block(block, "args", delta["args"]))

    def _finish(self, index: int, content: JsonObject) -> Iterator[Op]:
        block = self._blocks.get(index)
        if block is None:
            return
        kind = content["type"]
        if kind in TEXTS:
            full_text = content.get(kind) or ""
            yield from self._grow_block(block, kind, full_text[block.length :], opens=True)
            end: Any = f"{kind}-end"
            yield Op(end, block.number, full_text, content)
        elif kind in CALLS:
            yield from self._finish_call(block, content)
        else:
            yield Op("block", block.number, kind, content)

    def _finish_call(self, block: _Block, content: JsonObject) -> Iterator[Op]:
        block.id = block.id or content.get("id") or f"call_{block.number}"
        block.name = block.name or content.get("name") or "unknown"
        yield from self._open_call(block)
        if not block.length:
            args = content.get("args")
            yield from self._grow_block(
                block, "args", args if isinstance(args, str) else json.dumps(args)
            )
        yield Op("call-end", block.number, block.id, content)

    # -- what did not stream

    def _chunk(self, data: object) -> Iterator[Op]:
        text = data if isinstance(data, str) else _text_of_message(data)
        if text is None:
            self._pieces.append(data)
            return
        if self._writer is None:
            self._writer = EventWriter("answer")
        for event in self._writer.text(text) if text else ():
            yield from self._message(event)

    def _close_chunks(self) -> Iterator[Op]:
        writer, self._writer = self._writer, None
        if self._pieces:
            writer = writer or EventWriter("answer")
            for event in writer.text(text_of_output(_merge_pieces(self._pieces))):
                yield from self._message(event)
            self._pieces = []
        if writer is not None:
            for event in writer.finish("stop"):
                yield from self._message(event)

    def _update(self, data: JsonObject) -> Iterator[Op]:
        values = data.get("values")
        messages = values.get("messages") if isinstance(values, Mapping) else None
        for item in messages if isinstance(messages, list) else ():
            if not isinstance(item, Mapping):
                continue
            if item.get("type") == "tool":
                yield from self._tool_message(item)
            elif item.get("type") == "ai" and item.get("id") not in self.seen:
                message = _message_of(item)
                if message is not None:
                    for event in message_to_events(message):
                        yield from self._message(event)
        yield Op("step", 0, str(data.get("node") or ""))

    def _tool_message(self, item: Mapping[str, Any]) -> Iterator[Op]:
        """Yield the result of a call that did not run: a person refused or answered it."""
        id = item.get("tool_call_id")
        if id and id not in self.answered:
            self.answered.add(id)
            message = _message_of(item)
            text = message.text if message is not None else str(item.get("content"))
            is_error = item.get("status") == "error"
            yield Op(
                "tool-end", 0, id, {"output": text, "is_error": is_error, "is_denied": is_error}
            )

    def _tool(self, data: JsonObject) -> Iterator[Op]:
        id = data.get("tool_call_id") or ""
        match data["event"]:
            case "tool-started":
                yield Op("tool-start", 0, id, data)
            case "tool-output-delta":
                yield Op("tool-delta", 0, id, data.get("delta"))
            case "tool-finished":
                self.answered.add(id)
                yield Op("tool-end", 0, id, {"output": data.get("output"), "is_error": False})
            case "tool-error":
                self.answered.add(id)
                yield Op("tool-end", 0, id, {"output": data.get("message"), "is_error": True})
            case _:
                pass


def _message_of(item: Mapping[str, Any]) -> AIMessage | ToolMessage | None:
    try:
        message = convert_to_messages([dict(item)])[0]
    except ValueError:
        return None
    return message if isinstance(message, AIMessage | ToolMessage) else None


def _text_of_message(data: object) -> str | None:
    """Return the text of a serialised message; None for other values."""
    if (
        isinstance(data, Mapping)
        and data.get("lc") == 1
        and isinstance(data.get("kwargs"), Mapping)
    ):
        content = data["kwargs"].get("content")
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            return "".join(
                item if isinstance(item, str) else item.get("text") or item.get("refusal") or ""
                for item in content
                if isinstance(item, str | Mapping)
            )
    return None


def _merge_pieces(pieces: list[Any]) -> object:
    if len(pieces) > 1 and all(isinstance(piece, Mapping) for piece in pieces):
        merged: JsonObject = {}
        for piece in pieces:
            for name, value in piece.items():
                old = merged.get(name)
                is_text = isinstance(old, str) and isinstance(value, str)
                merged[name] = old + value if is_text else value
        return merged
    return pieces[-1] if len(pieces) == 1 else pieces


def text_of_output(output: object) -> str:
    """Return an app's output as text: JSON where it is not a string."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
