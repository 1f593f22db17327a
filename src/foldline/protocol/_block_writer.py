"""Writes the events of blocks: start, deltas, finish. The events of the message around them are in `writer`.

A block is sent when it first has content; later content is sent as deltas, and its finish carries everything. Blocks
that do not grow (results, documents, unknown types) send a skeleton first and the rest in the finish.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never, cast

from foldline.exceptions import MalformedStreamError
from foldline.protocol._clean import clean_json
from foldline.protocol._identity import CALL_KINDS, BlockRegistry, GrowingBlock, Key, kind_of
from foldline.protocol._shapes import type_problem
from foldline.protocol.blocks import HEAVY_FIELDS, MEDIA_TYPES, REQUIRED_TEXT, BlockKind
from foldline.protocol.events import DELTA_FIELDS, Event
from foldline.protocol.merge import copy_json, grow_name, leaf_rule
from foldline.protocol.tool_call_parser import parse_tool_args, promote
from foldline.utils._base64 import Base64Joiner
from foldline.utils.json import SurrogateJoiner, has_surrogates

Fields: TypeAlias = dict[str, Any]

DELTA_OF: Final = {
    "text": "text-delta",
    "reasoning": "reasoning-delta",
    "refusal": "refusal-delta",
    "tool_call": "tool-call-delta",
    "server_tool_call": "tool-call-delta",
    **dict.fromkeys(MEDIA_TYPES, "data-delta"),
}
"""The delta by which each kind grows; other kinds are sent complete."""

TEXT_KINDS: Final = frozenset({"text", "reasoning", "refusal"})
"""The kinds that grow by text, in the field of their name."""
CHUNK_OF: Final = {"tool_call": "tool_call_chunk", "server_tool_call": "server_tool_call_chunk"}
SKELETON: Final = (
    "type",
    "id",
    "name",
    "tool_call_id",
    "status",
    "mime_type",
    "url",
    "file_id",
    "title",
    "extras",
)
"""The fields that a block that does not grow sends in its start: all but its payload."""


class BlockWriter:
    """Writes the blocks of one message."""

    __slots__ = ("_calls", "_registry", "allow_repeated_ids", "current")

    def __init__(self, *, allow_repeated_ids: bool = False) -> None:
        self._registry = BlockRegistry()
        self._calls: dict[tuple[str, str], Any] = {}
        self.allow_repeated_ids: bool = allow_repeated_ids
        self.current: GrowingBlock | None = None
        """The block that was written last, while it is open."""

    @property
    def is_empty(self) -> bool:
        """Whether no block has begun."""
        return self._registry.is_empty

    def quick(self, kind: str, piece: object, key: Key | None) -> Event | None:
        """Write a slice for the block that was written last, if it clearly belongs there; else return None."""
        block = self.current
        if (
            block is None
            or block.kind != kind
            or block.key != key
            or block.joiner is not None
            or block.pending_text
            or piece == "null"
            or not isinstance(piece, str)
            or not piece.isascii()
        ):
            return None
        return self._delta(block, piece)

    def write(
        self,
        kind: str,
        piece: str | None,
        key: Key | None,
        id: str | None,
        fields: Fields,
        name: str | None = None,
    ) -> list[Event]:
        """Write a slice of text, reasoning, a refusal or a call, with the fields that come with it."""
        if (
            self._registry.is_empty
            and type(piece) is str
            and _is_plain(kind, piece, key, id, fields)
        ):
            return self._first_text(piece)
        piece, name, id = _text(piece, kind), _text(name, "name"), _text(id, "id") or None
        fields = _with_content(fields)
        block = self._registry.find(kind, key, id, name=name, args=piece)
        if block is None:
            if self._begins_nothing(kind, piece, id, name, fields):
                return []
            block = _new_block(kind, key)
        elif self._is_repeated_part(block, id, name, piece):
            return []
        if name:
            fields["name"] = _grown_name(block, name)
        changed = self._merge(block, fields, key, id)
        if not block.is_started and kind == "text" and not (piece or fields):
            return []  # an id alone is not text (T03); it is stored for text that may follow
        events = self._show(block, changed)
        return events + self._grow(block, piece) if piece else events

    def _first_text(self, piece: str) -> list[Event]:
        """Write the first text of a message: the common case, in which there is no other block yet."""
        block = GrowingBlock("text", None, {"type": "text"})
        self._registry.last_written = self.current = block
        index = self._registry.begin(block)
        events = [_event("content-block-start", index, content={"type": "text", "text": ""})]
        return events + (
            self._grow(block, piece) if not piece.isascii() else [self._delta(block, piece)]
        )

    def part(self, kind: str, fields: Fields, key: Key | None, id: str | None) -> list[Event]:
        """Write a part of a block that is sent complete: parts are merged, and the finish carries the result."""
        data = _base64(fields.pop("base64", None)) if kind in MEDIA_TYPES else ""
        block = self._find_or_new(kind, key, _text(id, "id") or None)
        events = self._show(block, self._merge(block, fields, key, _text(id, "id") or None))
        if not data:
            return events
        if not block.streams and not block.pending_text:
            block.pending_text = data  # if nothing follows, it is sent once, in the finish (T50)
            return events
        return events + self.stream_data(block, data)

    def data(
        self, kind: str, data: str, key: Key | None, id: str | None, fields: Fields
    ) -> list[Event]:
        """Write a slice of base64 and send it at once."""
        block = self._find_or_new(kind, key, _text(id, "id") or None)
        events = self._show(block, self._merge(block, fields, key, _text(id, "id") or None))
        return events + self.stream_data(block, _base64(data))

    def stream_data(self, block: GrowingBlock, data: str) -> list[Event]:
        """Send base64, including what was held back."""
        block.streams = True
        block.joiner = block.joiner or Base64Joiner()
        try:
            data, block.pending_text = block.joiner.feed(block.pending_text + data), ""
        except ValueError as error:
            raise MalformedStreamError(f"the data of a block is not base64: {error}") from error
        return [self._delta(block, data)] if data else []

    def write_block(self, block: Mapping[str, Any]) -> list[Event]:
        """Write a complete block: its start, its text if it has any, its finish."""
        final = promote(dict(block)) if kind_of(block["type"]) in CALL_KINDS else dict(block)
        final = clean_json(final)
        if problem := type_problem(final):
            raise MalformedStreamError(f"a block of the type {final['type']}: {problem}")
        kind = kind_of(final["type"])
        open_call = self._registry.find_open(kind, final.get("id")) if kind in CALL_KINDS else None
        if open_call is not None:
            return self._complete(open_call, final)
        if self._is_repeated(kind, final):
            return []
        growing = GrowingBlock(kind, None, final)
        events = self._switch_to(growing)
        index = self._registry.place(growing)
        events.append(_event("content-block-start", index, content=_skeleton(final)))
        if kind in TEXT_KINDS and isinstance(text := final.get(kind), str) and text:
            events.append(self._delta(growing, text))
        self._end(growing)
        return [*events, _event("content-block-finish", index, content=final)]

    def _complete(self, block: GrowingBlock, final: Fields) -> list[Event]:
        """Finish a call that was started earlier and now comes complete."""
        args = final.get("args")
        if not block.parts and args:
            text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            return self._grow(block, text) + self._finish(block)
        events = self._finish(block)
        if cast("Fields", events[-1])["content"]["args"] != args:
            raise MalformedStreamError(
                f"the call {final['id']!r} was sent twice with different content"
            )
        return events

    def update(self, fields: Fields, key: Key | None, kind: str | None) -> list[Event]:
        """Add fields to an open block."""
        blocks = self._registry.at(key, kind)
        if not blocks:
            raise MalformedStreamError(
                f"no open {kind or 'block'} at index {key!r} to take {sorted(fields)}"
            )
        id = _text(fields.pop("id", None), "id") or None
        changed = self._merge(blocks[-1], fields, blocks[-1].key, id)
        return self._show(blocks[-1], changed)

    def close(self, key: Key | None, kind: str | None) -> list[Event]:
        """Finish the blocks meant by a key, a kind, or neither."""
        events: list[Event] = []
        for block in self._registry.at(key, kind):
            events += self._finish(block)
        return events

    def close_all(self) -> list[Event]:
        """Finish every open block, in order."""
        events: list[Event] = []
        for index in sorted(self._registry.open):
            events += self._finish(self._registry.open[index])
        return events

    def _find_or_new(self, kind: str, key: Key | None, id: str | None) -> GrowingBlock:
        return self._registry.find(kind, key, id) or _new_block(kind, key)

    def _merge(
        self, block: GrowingBlock, fields: Fields, key: Key | None, id: str | None
    ) -> Fields:
        """Merge fields into a block; return copies of those that changed."""
        self._registry.remember(block, key, id)
        changed: Fields = {}
        for field, new in {"id": id, **fields}.items():
            old = block.content.get(field)
            if new is None or field in ("type", "index"):
                continue
            new = clean_json(new)
            is_name = field == "name" and block.kind in CALL_KINDS  # `write` has joined its slices
            merged = new if old is None or is_name else leaf_rule(field)(old, new)
            if merged != old:
                block.content[field] = merged
                changed[field] = copy_json(merged)
        return changed

    def _show(self, block: GrowingBlock, changed: Fields) -> list[Event]:
        """Send the start of a block, or what changed in one that was started."""
        if not block.is_started:
            events = self._switch_to(block)
            index = self._registry.place(block)
            return [*events, _event("content-block-start", index, content=_skeleton(block.content))]
        if block.kind not in DELTA_OF:
            changed = {field: value for field, value in changed.items() if field in SKELETON}
        if not changed:
            return []
        fields = {"type": block.content["type"], **changed}
        delta = {"type": "block-delta", "fields": fields}
        return [
            *self._switch_to(block),
            _event("content-block-delta", block.index, delta=delta),
        ]

    def _grow(self, block: GrowingBlock, piece: str) -> list[Event]:
        if block.joiner is None and has_surrogates(piece):
            block.joiner = SurrogateJoiner()
        if block.joiner is not None:
            piece = block.joiner.feed(piece)
        if block.kind in CALL_KINDS:
            piece = _without_null(block, piece)
        if not piece:
            return []
        return [*self._switch_to(block), self._delta(block, piece)]

    def _delta(self, block: GrowingBlock, piece: str) -> Event:
        kind = DELTA_OF[block.kind]
        block.parts.append(piece)
        return _event(
            "content-block-delta", block.index, delta={"type": kind, DELTA_FIELDS[kind][0]: piece}
        )

    def _switch_to(self, block: GrowingBlock) -> list[Event]:
        """Make a block the current one; finish the previous one if it has no index by which it could continue."""
        previous = self._registry.last_written
        self._registry.last_written = self.current = block
        if (
            previous is None
            or previous is block
            or previous.is_finished
            or not previous.is_unindexed
        ):
            return []
        if previous.kind in CALL_KINDS and not previous.has_complete_args():
            return []  # the remaining arguments may follow, under the same id
        return self._finish(previous)

    def _finish(self, block: GrowingBlock) -> list[Event]:
        if not block.is_started:
            self._end(block)
            return []
        remaining_text = block.joiner.end() if block.joiner is not None else ""
        remaining_text = (
            block.pending_text + remaining_text if block.kind in CALL_KINDS else remaining_text
        )
        events = [self._delta(block, remaining_text)] if remaining_text else []
        content = block.content
        if full_text := "".join(block.parts) or block.pending_text:
            content[DELTA_FIELDS[DELTA_OF[block.kind]][1]] = full_text
        elif block.kind in REQUIRED_TEXT:
            content[block.kind] = ""
        if block.kind in CALL_KINDS:
            content = promote(content)
            if content["id"]:
                self._calls[(block.kind, content["id"])] = copy_json(content)
        self._end(block)
        return [*events, _event("content-block-finish", block.index, content=content)]

    def _end(self, block: GrowingBlock) -> None:
        self._registry.finish(block)
        if self.current is block:
            self.current = None

    def _begins_nothing(
        self, kind: str, piece: str, id: str | None, name: str, fields: Fields
    ) -> bool:
        """Whether a part is empty, or a late, empty part of a finished call; raise if it begins a second call."""
        if not (piece or id or name or fields):
            return kind != "refusal"  # a refusal needs no words to be one
        if kind not in CALL_KINDS or id is None or (kind, id) not in self._calls:
            return False
        if not piece and not fields:
            return True
        if self.allow_repeated_ids:
            return False
        raise MalformedStreamError(f"two tool calls share the id {id!r}")

    def _is_repeated_part(self, block: GrowingBlock, id: str | None, name: str, piece: str) -> bool:
        """Return whether a complete call repeats an open one of the same id; raise if their contents differ."""
        if not (id and name and piece) or self.allow_repeated_ids:
            return False
        if block.kind not in CALL_KINDS or block.id != id:
            return False
        if not block.has_complete_args():
            return False
        args = parse_tool_args(piece)
        if isinstance(args, str):
            return False
        open_call = {
            "name": block.content.get("name"),
            "args": parse_tool_args("".join(block.parts)),
        }
        if open_call == {"name": name, "args": args}:
            return True
        raise MalformedStreamError(f"two tool calls share the id {id!r}")

    def _is_repeated(self, kind: str, final: Fields) -> bool:
        """Return whether a call was written before; the same id with other contents is an error (F-U09)."""
        id = final.get("id")
        if kind not in CALL_KINDS or not id or self.allow_repeated_ids:
            return False
        first_call = self._calls.get((kind, id))
        if first_call is None:
            self._calls[(kind, id)] = copy_json(final)
            return False
        if first_call != final:
            raise MalformedStreamError(f"two tool calls share the id {id!r}")
        return True


def _is_plain(kind: str, piece: str, key: Key | None, id: str | None, fields: Fields) -> bool:
    """Whether a part is text alone."""
    return kind == "text" and bool(piece) and key is None and not (id or fields)


def _with_content(fields: Fields) -> Fields:
    return {field: value for field, value in fields.items() if _has_content(value)}


def _grown_name(block: GrowingBlock, name: str) -> str | None:
    has_args = bool(block.parts or block.pending_text)
    return grow_name(block.content.get("name"), name, has_args=has_args)


def _new_block(kind: str, key: Key | None) -> GrowingBlock:
    content: Fields = {"type": CHUNK_OF.get(kind, kind)}
    if kind in CALL_KINDS:
        content |= {"id": None, "name": None}
    return GrowingBlock(kind, key, content)


def _skeleton(content: Fields) -> Fields:
    """Return the content of a block's start: all fields of a block that grows, all but the payload of others."""
    kind: BlockKind = content["type"]
    light = {name: value for name, value in content.items() if name not in HEAVY_FIELDS}
    match kind:
        case "text" | "refusal":
            start = {**light, kind: ""}
        case "reasoning":
            light.pop("reasoning", None)
            start = light
        case "tool_call_chunk" | "server_tool_call_chunk":
            start = {**light, "args": ""}
        case (
            "tool_call"
            | "server_tool_call"
            | "invalid_tool_call"
            | "server_tool_result"
            | "image"
            | "audio"
            | "video"
            | "file"
            | "text-plain"
            | "non_standard"
        ):
            start = _without_payload(content)
        case _:  # of a later protocol
            if TYPE_CHECKING:
                assert_never(kind)
            start = _without_payload(content)
    return cast("Fields", copy_json(start))


def _without_payload(content: Fields) -> Fields:
    return {name: content[name] for name in SKELETON if name in content}


def _without_null(block: GrowingBlock, piece: str) -> str:
    """Drop the `null` that some vendors send before or after the arguments; one that stands alone stays."""
    if block.pending_text:
        pending, block.pending_text = block.pending_text, ""
        return piece if piece.lstrip().startswith("{") else pending + piece
    if piece != "null":
        return piece
    if not block.parts:
        block.pending_text = piece
        return ""
    return "" if block.has_complete_args() else piece


def _base64(data: object) -> str:
    text = _text(data, "base64")
    if not text.isascii():
        raise MalformedStreamError(f"the data of a block is base64, not {text!r:.80}")
    return text


def _text(value: object, field: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedStreamError(f"{field} of a block is text, not {value!r:.80}")
    return value


def _has_content(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def _event(event: str, index: int, **fields: object) -> Event:
    block_event: Any = {"event": event, "index": index, **fields}
    return block_event  # type: ignore[no-any-return]
