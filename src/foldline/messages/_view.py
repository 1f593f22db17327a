"""Events as chunks: `stream()` yields a view of the event stream, whose chunks add up to the same message.

Under "v0" the content is a `str` as long as a message is only plain text and tool calls; the first other block switches
the view to lists, and repeats the text so far as a block. Under "v1" the content is always a list. Blocks have their
`index`; slices of tool calls are also in `tool_call_chunks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, assert_never

from foldline.messages._lazy import real_fields, set_real_fields
from foldline.messages._native_content import has_calls_in_content
from foldline.messages.ai_chunk import AIMessageChunk, set_sum, slice_chunk
from foldline.messages.ai_message import is_plain
from foldline.messages.usage import complete_usage
from foldline.protocol.blocks import REQUIRED_TEXT
from foldline.protocol.events import DELTA_FIELDS, DeltaKind, EventKind
from foldline.protocol.folded_message import MESSAGE_KEYS, RESPONSE_KEYS
from foldline.protocol.merge import (
    append,
    copy_json,
    extend,
    first,
    leaf_rule,
    merge_block,
    merge_deep,
)
from foldline.protocol.tool_call_parser import is_server_call
from foldline.utils._trusted import bare

__all__ = ["ChunkView"]

Block = dict[str, Any]

CHUNK_KINDS = {"tool_call": "tool_call_chunk", "server_tool_call": "server_tool_call_chunk"}
CALL_SLICES = frozenset(CHUNK_KINDS.values())
INVALID = "invalid_tool_call"
SLICE_KEYS = frozenset({"type", "index"})


class _BlockView:
    """The part of one block that the view has shown."""

    __slots__ = ("fields", "is_client_call", "kind", "pieces", "target")

    def __init__(self, kind: str, *, is_client_call: bool) -> None:
        self.kind = kind
        self.is_client_call = is_client_call
        self.fields: Block = {"type": kind}
        self.target = ""  # the field that deltas are appended to
        self.pieces: list[str] = []

    def shown_fields(self) -> Block:
        """Return the block as shown so far."""
        if self.pieces:
            merge_block(self.fields, {self.target: "".join(self.pieces)})
            self.pieces = []
        return self.fields


class ChunkView:
    """Converts events into chunks.

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
        "_id",
        "_is_list",
        "_metadata",
        "_name",
        "_plain_index",
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
        self._plain_index = -1
        """The index of the plain text block while the view is plain and the block has started; otherwise -1."""

    def feed(self, event: Mapping[str, Any]) -> AIMessageChunk | None:
        """Return the chunk of an event, or None if there is nothing to show."""
        chunks = self.show((event,))
        return chunks[0] if chunks else None

    def show(self, events: Iterable[Mapping[str, Any]]) -> list[AIMessageChunk]:
        """Return the chunks of events; the end of a message is merged into the last text chunk of the same batch.

        It is not merged into a slice of a call: a sum finishes its calls when the end is added.
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
                    event["index"] == self._plain_index
                    and delta["type"] == "text-delta"
                    and (text := delta["text"])
                ):
                    # The hot path: a piece of the plain text. Inlined, because a function call per piece is too slow.
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
        """Return the chunk of a start or end event."""
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
                pass  # `show` handles deltas; the stream raises errors
            case _:
                if TYPE_CHECKING:
                    assert_never(kind)
        return None

    def _drop(self, event: Mapping[str, Any]) -> AIMessageChunk:
        """Start again; return a chunk with `response_metadata["reset"]`, which drops what is before it in a sum."""
        self.__init__(self._version)  # type: ignore[misc]  # resets all fields
        details = {"attempt": event.get("attempt"), "reason": event.get("reason")}
        return AIMessageChunk(content="", response_metadata={"reset": details})

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
        kind = CHUNK_KINDS.get(kind, kind)
        is_client = kind in ("tool_call_chunk", INVALID) and not is_server_call(content)
        block = _BlockView(kind, is_client_call=is_client)
        if kind == "text" and not self._is_list and self._plain_text is None:
            self._plain_text = block
        self._blocks[index] = block
        if self._is_list and content.keys() <= {"type", "index", kind} and not content.get(kind):
            return None  # an empty text is shown with its first delta, or when it is finished
        return self._show(index, block, {**content, "type": kind})

    def _delta(self, index: int, delta: Block) -> AIMessageChunk | None:
        block = self._blocks.get(index)
        if block is None:  # the fold reports such a stream as malformed
            return None
        kind: DeltaKind = delta["type"]
        match kind:
            case (
                "text-delta"
                | "reasoning-delta"
                | "refusal-delta"
                | "tool-call-delta"
                | "data-delta"
            ):
                field, target = DELTA_FIELDS[kind]
            case "block-delta":
                return self._show(index, block, _additions(block.shown_fields(), delta["fields"]))
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
                self._plain_index = index
        if block.is_client_call and not self._is_list and target == "args":
            return slice_chunk(piece, index, self._id)
        return self._chunk(index, block, {target: piece}, [])

    def _finish(self, index: int, content: Block) -> AIMessageChunk | None:
        """Return the chunk with the parts of a finished block that were not shown yet."""
        block = self._blocks.get(index)
        if block is None:
            return None
        content = dict(content)
        if isinstance(content.get("args"), dict):
            # Slices already contain the arguments as text; only a call without slices still needs them.
            args = content.pop("args")
            if args and not block.shown_fields().get("args"):
                content["args"] = json.dumps(args, ensure_ascii=False)
        content["type"] = block.kind
        return self._show(index, block, _additions(block.shown_fields(), content))

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
            fields["usage_metadata"] = complete_usage(copy_json(event["usage"]))
        if event.get("additional_kwargs"):
            fields["additional_kwargs"] = copy_json(event["additional_kwargs"])
        if event.get("finish_reason"):
            fields["finish_reason"] = event["finish_reason"]
        return AIMessageChunk._trusted(**fields)

    def _show(self, index: int, block: _BlockView, additions: Block) -> AIMessageChunk | None:
        additions = copy_json(additions)
        is_new = set(block.fields) == {"type"} and not block.pieces
        additions.pop("type", None)
        if not additions and not is_new:
            return None
        repeated: list[Block] = []
        if not self._is_list and not self._stays_plain(block, additions):
            repeated = self._turn_to_lists(index, is_new=is_new)
        merge_block(block.shown_fields(), additions)
        return self._chunk(index, block, additions, repeated)

    def _stays_plain(self, block: _BlockView, additions: Block) -> bool:
        if block.kind == "text" and block is not self._plain_text:
            return False
        kind = {"tool_call_chunk": "tool_call"}.get(block.kind, block.kind)
        if block.is_client_call and has_calls_in_content(self._metadata):
            return False
        return is_plain([{**additions, "type": kind}])

    def _turn_to_lists(self, index: int, *, is_new: bool) -> list[Block]:
        """Return the blocks so far: an empty text block absorbs the text that was sent as a string (see `_growth`)."""
        self._is_list, self._plain_index = True, -1
        items: list[Block] = []
        for block_index, block in self._blocks.items():
            if block_index == index and is_new:
                continue
            shown = {**copy_json(block.shown_fields()), "index": block_index}
            items.append({**shown, "text": ""} if block.kind == "text" else shown)
        return items

    def _chunk(
        self, index: int, block: _BlockView, additions: Block, repeated: list[Block]
    ) -> AIMessageChunk | None:
        fields: Block = {"id": self._id} if self._id else {}
        if block.is_client_call:
            fields["tool_call_chunks"] = [_slice(additions, index)]
        if self._is_list:
            fields["content"] = [*repeated, {"type": block.kind, **additions, "index": index}]
            if block.kind in REQUIRED_TEXT:
                fields["content"][-1].setdefault(block.kind, "")
        else:
            fields["content"] = additions.get("text", "") if block.kind == "text" else ""
            if not fields["content"] and not block.is_client_call:
                return None
        return AIMessageChunk._trusted(**fields)


def _close(last: AIMessageChunk, end: AIMessageChunk | None) -> AIMessageChunk:
    """Return the last chunk of content, merged with the end of the message."""
    assert end is not None  # the end of a message always has a chunk
    return AIMessageChunk._trusted(**{**real_fields(end), **real_fields(last)})


def _slice(additions: Block, index: int) -> Block:
    fields = {key: value for key, value in additions.items() if key not in SLICE_KEYS}
    return {
        "name": None,
        "args": None,
        "id": None,
        "index": index,
        "type": "tool_call_chunk",
        **fields,
    }


def _additions(shown: Block, current: Mapping[str, Any]) -> Block:
    """Return what must be added to the shown fields to get the current ones, as far as addition can."""
    additions = {}
    for key, value in current.items():
        if key in ("type", "index"):
            continue
        old = shown.get(key)
        if key == "name" and isinstance(old, str) and shown.get("type") in CALL_SLICES:
            if not shown.get("args") and str(value).startswith(old) and value != old:
                additions[key] = value[len(old) :]  # a sum joins slices of a name
            continue
        if value is None:
            new, is_new = None, key not in shown
        else:
            new = value if old is None else _addition(key, old, value)
            is_new = new is not None
        if is_new:
            additions[key] = new
    return additions


def _addition(key: str, old: object, new: object) -> object:
    rule = leaf_rule(key)
    if old == new or (rule is first and old != ""):
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _additions(old, new) or None
    if isinstance(old, list) and isinstance(new, list):
        return _items_added(old, new)
    if isinstance(old, str) and isinstance(new, str) and rule not in (first, extend):
        is_appended = rule in (append, merge_deep)
        return (new[len(old) :] if new.startswith(old) else None) if is_appended else new
    return new


def _items_added(old: list[Any], new: list[Any]) -> list[Any] | None:
    """Return the items to add; for an item that grew in place and has an index, only its additions."""
    if new[: len(old)] == old:
        return new[len(old) :] or None
    additions: list[Any] = []
    for before, after in zip(old, new, strict=False):
        if before == after:
            continue
        if not (isinstance(before, dict) and isinstance(after, dict)):
            return new
        if after.get("index") is None or before.get("index") != after["index"]:
            return new
        additions.append({"index": after["index"], **_additions(before, after)})
    return [*additions, *new[len(old) :]]
