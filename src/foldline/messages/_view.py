"""Events as chunks: what `stream()` yields is a view of the event stream, and adds up to the same message.

Under "v0" text is plain `str` content for as long as a message is one plain text and tool calls; the first thing that
is more than that turns the view to lists, repeating as blocks what was said so far as text. Under "v1" content is
always a list. Blocks carry their `index`; slices of tool calls also go in `tool_call_chunks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, assert_never

from foldline.messages._lazy import real_fields, set_real_fields
from foldline.messages.ai_chunk import AIMessageChunk, set_sum, slice_chunk
from foldline.messages.ai_message import is_plain
from foldline.messages.native_content import holds_calls
from foldline.messages.usage import whole_usage
from foldline.protocol.events import DELTA_FIELDS, DeltaKind, EventKind
from foldline.protocol.folded import MESSAGE_KEYS, RESPONSE_KEYS
from foldline.protocol.merge import (
    append,
    copy_json,
    extend,
    first,
    leaf_rule,
    merge_block,
    merge_deep,
)
from foldline.protocol.promote import is_server_call
from foldline.utils.trusted import bare

__all__ = ["ChunkView"]

Block = dict[str, Any]

GROWING = {"tool_call": "tool_call_chunk", "server_tool_call": "server_tool_call_chunk"}
CALL_SLICES = frozenset(GROWING.values())
INVALID = "invalid_tool_call"
SLICE_KEYS = frozenset({"type", "index"})


class _BlockView:
    """What the view has shown of one block."""

    __slots__ = ("fields", "is_client_call", "kind", "pieces", "target")

    def __init__(self, kind: str, *, is_client_call: bool) -> None:
        self.kind = kind
        self.is_client_call = is_client_call
        self.fields: Block = {"type": kind}
        self.target = ""  # the field that grows by deltas
        self.pieces: list[str] = []

    def shown(self) -> Block:
        """Return the block as shown so far."""
        if self.pieces:
            merge_block(self.fields, {self.target: "".join(self.pieces)})
            self.pieces = []
        return self.fields


class ChunkView:
    """Turns events into chunks, one at a time.

    ```python
    from foldline.messages._view import ChunkView

    view = ChunkView("v0")
    view.feed({"event": "message-start", "role": "ai", "id": "msg_1"})
    view.feed({"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}})
    chunk = view.feed(
        {
            "event": "content-block-delta",
            "index": 0,
            "delta": {"type": "text-delta", "text": "hello"},
        }
    )
    print(chunk.content)
    #> hello
    ```
    """

    __slots__ = (
        "_blocks",
        "_growing",
        "_id",
        "_is_list",
        "_metadata",
        "_name",
        "_plain_text",
        "_status",
        "_version",
    )

    def __init__(self, output_version: Literal["v0", "v1"] = "v0") -> None:
        self._version = output_version
        self._is_list = output_version == "v1"
        self._id: str | None = None
        self._name: str | None = None
        self._status = "complete"
        self._metadata: Block = {}
        self._blocks: dict[int, _BlockView] = {}
        self._plain_text: _BlockView | None = None
        self._growing = -1
        """The index of the plain text while it is that, and has begun; -1 where there is no such."""

    def feed(self, event: Mapping[str, Any]) -> AIMessageChunk | None:
        """Return the chunk that shows this event, or None where there is nothing to show."""
        chunks = self.show((event,))
        return chunks[0] if chunks else None

    def show(self, events: Iterable[Mapping[str, Any]]) -> list[AIMessageChunk]:
        """Return the chunks that show some events; text that comes with the end of its message carries the end.

        A slice of a call does not: a sum tells its calls when the end is added.
        """
        chunks: list[AIMessageChunk] = []
        for event in events:
            if event["event"] != "content-block-delta":
                chunk = self._boundary(event)
                if (
                    chunks
                    and event["event"] == "message-finish"
                    and not chunks[-1].tool_call_chunks
                ):
                    chunk = _close(chunks.pop(), chunk)
            else:
                delta = event["delta"]
                if (
                    event["index"] == self._growing
                    and delta["type"] == "text-delta"
                    and (text := delta["text"])
                ):
                    # The hot path: one more piece of the one plain text. Here, because a call costs every piece.
                    self._plain_text.pieces.append(text)  # type: ignore[union-attr]
                    piece = bare(AIMessageChunk)
                    set_real_fields(piece, {"id": self._id, "content": text})
                    set_sum(piece, None)
                    chunks.append(piece)
                    continue
                chunk = self._delta(event["index"], delta)
            if chunk is not None:
                chunks.append(chunk)
        return chunks

    def _boundary(self, event: Mapping[str, Any]) -> AIMessageChunk | None:
        """Show where something begins or ends."""
        kind: EventKind = event["event"]
        match kind:
            case "content-block-start":
                return self._start(event["index"], event["content"])
            case "content-block-finish":
                return self._finish(event["index"], event["content"])
            case "message-finish":
                return self._end(event)
            case "message-start":
                self._begin(event)
            case "message-reset":
                return self._drop(event)
            case "content-block-delta" | "error":
                pass  # `show` takes deltas; the stream raises the error
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        return None

    def _drop(self, event: Mapping[str, Any]) -> AIMessageChunk:
        """Begin again, and say so: a chunk with `response_metadata["reset"]` drops all before it from a sum."""
        self.__init__(self._version)  # type: ignore[misc]  # everything it has seen is void
        told = {"attempt": event.get("attempt"), "reason": event.get("reason")}
        return AIMessageChunk(content="", response_metadata={"reset": told})

    def _begin(self, event: Mapping[str, Any]) -> None:
        self._id = event.get("id") or None
        metadata = event.get("metadata") or {}
        self._name = metadata.get("name")
        self._status = "incomplete" if metadata.get("status") == "incomplete" else "complete"
        self._metadata = {
            RESPONSE_KEYS.get(key, key): value
            for key, value in metadata.items()
            if key not in MESSAGE_KEYS
        }

    def _start(self, index: int, content: Block) -> AIMessageChunk | None:
        kind = str(content["type"])
        kind = GROWING.get(kind, kind)
        is_client = kind in ("tool_call_chunk", INVALID) and not is_server_call(content)
        block = _BlockView(kind, is_client_call=is_client)
        if kind == "text" and not self._is_list and self._plain_text is None:
            self._plain_text = block
        self._blocks[index] = block
        if self._is_list and content.keys() <= {"type", "index", kind} and not content.get(kind):
            return None  # a text that begins empty is shown with its first words, or when it is finished
        return self._show(index, block, {**content, "type": kind})

    def _delta(self, index: int, delta: Block) -> AIMessageChunk | None:
        block = self._blocks.get(index)
        if block is None:  # the fold says what is wrong with such a stream
            return None
        kind: DeltaKind = delta["type"]
        match kind:
            case "text-delta" | "reasoning-delta" | "tool-call-delta" | "data-delta":
                field, target = DELTA_FIELDS[kind]
            case "block-delta":
                return self._show(index, block, _news(block.shown(), delta["fields"]))
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
                return None
        piece = delta[field]
        if block.target == target:
            block.pieces.append(piece)
        else:
            block.target = target
            merge_block(block.fields, {target: piece})
            if target == "text" and block is self._plain_text and not self._is_list:
                self._growing = index
        if block.is_client_call and not self._is_list and target == "args":
            return slice_chunk(piece, index, self._id)
        return self._chunk(index, block, {target: piece}, [])

    def _finish(self, index: int, content: Block) -> AIMessageChunk | None:
        """Show what the finished block says beyond what was shown of it."""
        block = self._blocks.get(index)
        if block is None:
            return None
        content = dict(content)
        if isinstance(content.get("args"), dict):
            # Slices that were shown are the same arguments as text; only a whole call still owes them.
            args = content.pop("args")
            if args and not block.shown().get("args"):
                content["args"] = json.dumps(args, ensure_ascii=False)
        content["type"] = block.kind
        return self._show(index, block, _news(block.shown(), content))

    def _end(self, event: Mapping[str, Any]) -> AIMessageChunk:
        metadata = {**self._metadata, **(event.get("metadata") or {})}
        if self._version == "v1":
            metadata["output_version"] = "v1"
        fields: Block = {
            "content": [] if self._is_list else "",
            "response_metadata": copy_json(metadata),
            "chunk_position": "last",
            "status": self._status,
        }
        if self._id:
            fields["id"] = self._id
        if self._name:
            fields["name"] = self._name
        if event.get("usage"):
            fields["usage_metadata"] = whole_usage(copy_json(event["usage"]))
        if event.get("additional_kwargs"):
            fields["additional_kwargs"] = copy_json(event["additional_kwargs"])
        if event.get("finish_reason"):
            fields["finish_reason"] = event["finish_reason"]
        return AIMessageChunk._trusted(**fields)

    def _show(self, index: int, block: _BlockView, news: Block) -> AIMessageChunk | None:
        news = copy_json(news)
        is_new = set(block.fields) == {"type"} and not block.pieces
        news.pop("type", None)
        if not news and not is_new:
            return None
        before: list[Block] = []
        if not self._is_list and not self._stays_plain(block, news):
            before = self._turn_to_lists(index, is_new=is_new)
        merge_block(block.shown(), news)
        return self._chunk(index, block, news, before)

    def _stays_plain(self, block: _BlockView, news: Block) -> bool:
        if block.kind == "text" and block is not self._plain_text:
            return False
        kind = {"tool_call_chunk": "tool_call"}.get(block.kind, block.kind)
        if block.is_client_call and holds_calls(self._metadata):
            return False
        return is_plain([{**news, "type": kind}])

    def _turn_to_lists(self, index: int, *, is_new: bool) -> list[Block]:
        """Say as blocks what was said as text: the empty text block takes the text in (see `_growth`)."""
        self._is_list, self._growing = True, -1
        items: list[Block] = []
        for place, block in self._blocks.items():
            if place == index and is_new:
                continue
            shown = {**copy_json(block.shown()), "index": place}
            items.append({**shown, "text": ""} if block.kind == "text" else shown)
        return items

    def _chunk(
        self, index: int, block: _BlockView, news: Block, before: list[Block]
    ) -> AIMessageChunk | None:
        fields: Block = {"id": self._id} if self._id else {}
        if block.is_client_call:
            fields["tool_call_chunks"] = [_slice(news, index)]
        if self._is_list:
            fields["content"] = [*before, {"type": block.kind, **news, "index": index}]
            if block.kind == "text":
                fields["content"][-1].setdefault("text", "")
        else:
            fields["content"] = news.get("text", "") if block.kind == "text" else ""
            if not fields["content"] and not block.is_client_call:
                return None
        return AIMessageChunk._trusted(**fields)


def _close(last: AIMessageChunk, end: AIMessageChunk | None) -> AIMessageChunk:
    """Return the last piece of content with what the end of the message says."""
    assert end is not None  # a message's end is always shown
    return AIMessageChunk._trusted(**{**real_fields(end), **real_fields(last)})


def _slice(news: Block, index: int) -> Block:
    rest = {key: value for key, value in news.items() if key not in SLICE_KEYS}
    return {
        "name": None,
        "args": None,
        "id": None,
        "index": index,
        "type": "tool_call_chunk",
        **rest,
    }


def _news(shown: Block, says: Mapping[str, Any]) -> Block:
    """Return what must be added to what was shown so that it says this; what contradicts it cannot be added."""
    news = {}
    for key, value in says.items():
        if key in ("type", "index"):
            continue
        old = shown.get(key)
        if key == "name" and isinstance(old, str) and shown.get("type") in CALL_SLICES:
            if not shown.get("args") and str(value).startswith(old) and value != old:
                news[key] = value[len(old) :]  # a sum joins the slices of a name
            continue
        if value is None:
            new, is_new = None, key not in shown
        else:
            new = value if old is None else _addition(key, old, value)
            is_new = new is not None
        if is_new:
            news[key] = new
    return news


def _addition(key: str, old: object, new: object) -> object:
    rule = leaf_rule(key)
    if old == new or (rule is first and old != ""):
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _news(old, new) or None
    if isinstance(old, list) and isinstance(new, list):
        return _items_added(old, new)
    if isinstance(old, str) and isinstance(new, str) and rule not in (first, extend):
        grows = rule in (append, merge_deep)
        return (new[len(old) :] if new.startswith(old) else None) if grows else new
    return new


def _items_added(old: list[Any], new: list[Any]) -> list[Any] | None:
    """Return the items to add; of one that has grown where it stands, and is known by its index, what it says more."""
    if new[: len(old)] == old:
        return new[len(old) :] or None
    grown: list[Any] = []
    for before, after in zip(old, new, strict=False):
        if before == after:
            continue
        if not (isinstance(before, dict) and isinstance(after, dict)):
            return new
        if after.get("index") is None or before.get("index") != after["index"]:
            return new
        grown.append({"index": after["index"], **_news(before, after)})
    return [*grown, *new[len(old) :]]
