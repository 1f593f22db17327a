"""The events of blocks: start, deltas, finish. Messages around them are the business of `writer`.

A block goes on the wire when it first says something; what it says later goes out as deltas, and its finish carries
everything. Blocks that do not grow (results, documents, what nobody knows) show a skeleton first and all at the finish.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from foldline.exceptions import MalformedStreamError
from foldline.protocol.blocks import HEAVY_FIELDS, MEDIA_TYPES
from foldline.protocol.clean import clean_json
from foldline.protocol.events import DELTA_FIELDS, Event
from foldline.protocol.identity import CALL_KINDS, BlockRegistry, GrowingBlock, Key, kind_of
from foldline.protocol.merge import copy_json, grow_name, leaf_rule
from foldline.protocol.promote import parse_tool_args, promote
from foldline.protocol.shapes import mistyped
from foldline.utils._base64 import Base64Joiner
from foldline.utils.json import SurrogateJoiner, has_surrogates

Fields: TypeAlias = dict[str, Any]

DELTA_OF: Final = {
    "text": "text-delta",
    "reasoning": "reasoning-delta",
    "tool_call": "tool-call-delta",
    "server_tool_call": "tool-call-delta",
    **dict.fromkeys(MEDIA_TYPES, "data-delta"),
}
"""The delta by which each kind grows; other kinds come whole."""

SPOKEN_KINDS: Final = frozenset({"text", "reasoning"})
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
"""What a block that does not grow shows at its start: everything but its payload."""


class BlockWriter:
    """Says blocks, one message long."""

    __slots__ = ("_calls", "_registry", "allow_repeated_ids", "current")

    def __init__(self, *, allow_repeated_ids: bool = False) -> None:
        self._registry = BlockRegistry()
        self._calls: dict[tuple[str, str], Any] = {}
        self.allow_repeated_ids: bool = allow_repeated_ids
        self.current: GrowingBlock | None = None
        """The block on the wire that spoke last, while it is open."""

    def quick(self, kind: str, piece: object, key: Key | None) -> Event | None:
        """Say a slice for the block that spoke last, if it is plainly meant; None sends it the long way."""
        block = self.current
        if (
            block is None
            or block.kind != kind
            or block.key != key
            or block.joiner is not None
            or block.held
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
        """Say a slice of text, reasoning or a call, and fields that come with it."""
        is_first = self._registry.is_empty and not (id or fields)
        if is_first and kind == "text" and key is None and piece and type(piece) is str:
            return self._first_text(piece)
        piece, name, id = _text(piece, kind), _text(name, "name"), _text(id, "id") or None
        fields = {field: value for field, value in fields.items() if _has_content(value)}
        block = self._registry.find(kind, key, id, name=name, args=piece)
        if block is None:
            if not (piece or id or name or fields) or self._is_echo(kind, id, piece, fields):
                return []
            block = _new_block(kind, key)
        elif id and name and piece and self._is_second_telling(block, id, name, piece):
            return []
        if name:
            has_args = bool(block.parts or block.held)
            fields["name"] = grow_name(block.content.get("name"), name, has_args=has_args)
        changed = self._merge(block, fields, key, id)
        if not block.is_started and kind == "text" and not (piece or fields):
            return []  # an id alone is no text (T03); it is kept for the text that may come
        events = self._show(block, changed)
        return events + self._grow(block, piece) if piece else events

    def _first_text(self, piece: str) -> list[Event]:
        """Say the first text of a message, which most answers are: there is no block yet that it could belong to."""
        block = GrowingBlock("text", None, {"type": "text"})
        self._registry.last_spoken = self.current = block
        index = self._registry.begin(block)
        events = [_event("content-block-start", index, content={"type": "text", "text": ""})]
        return events + (
            self._grow(block, piece) if not piece.isascii() else [self._delta(block, piece)]
        )

    def part(self, kind: str, fields: Fields, key: Key | None, id: str | None) -> list[Event]:
        """Say a part of a block that is sent whole: parts are merged, the finish carries the sum."""
        data = _base64(fields.pop("base64", None)) if kind in MEDIA_TYPES else ""
        block = self._find_or_new(kind, key, _text(id, "id") or None)
        events = self._show(block, self._merge(block, fields, key, _text(id, "id") or None))
        if not data:
            return events
        if not block.streams and not block.held:
            block.held = data  # if this is all, it is sent once, with the finish (T50)
            return events
        return events + self.stream_data(block, data)

    def data(
        self, kind: str, data: str, key: Key | None, id: str | None, fields: Fields
    ) -> list[Event]:
        """Say a slice of base64 that shows at once."""
        block = self._find_or_new(kind, key, _text(id, "id") or None)
        events = self._show(block, self._merge(block, fields, key, _text(id, "id") or None))
        return events + self.stream_data(block, _base64(data))

    def stream_data(self, block: GrowingBlock, data: str) -> list[Event]:
        """Send base64, and what of it was held back until now."""
        block.streams = True
        block.joiner = block.joiner or Base64Joiner()
        try:
            data, block.held = block.joiner.feed(block.held + data), ""
        except ValueError as error:
            raise MalformedStreamError(f"the data of a block is no base64: {error}") from error
        return [self._delta(block, data)] if data else []

    def write_block(self, block: Mapping[str, Any]) -> list[Event]:
        """Say a block that is complete: its start, its text if it has any, its finish."""
        final = promote(dict(block)) if kind_of(block["type"]) in CALL_KINDS else dict(block)
        final = clean_json(final)
        if problem := mistyped(final):
            raise MalformedStreamError(f"a block of the type {final['type']}: {problem}")
        kind = kind_of(final["type"])
        waiting = self._registry.find_open(kind, final.get("id")) if kind in CALL_KINDS else None
        if waiting is not None:
            return self._complete(waiting, final)
        if self._is_repeated(kind, final):
            return []
        growing = GrowingBlock(kind, None, final)
        events = self._take_turn(growing)
        index = self._registry.place(growing)
        events.append(_event("content-block-start", index, content=_skeleton(final)))
        if kind in SPOKEN_KINDS and isinstance(said := final.get(kind), str) and said:
            events.append(self._delta(growing, said))
        self._end(growing)
        return [*events, _event("content-block-finish", index, content=final)]

    def _complete(self, block: GrowingBlock, final: Fields) -> list[Event]:
        """Finish a call that was announced and now comes whole."""
        args = final.get("args")
        if not block.parts and args:
            text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            return self._grow(block, text) + self._finish(block)
        events = self._finish(block)
        if cast("Fields", events[-1])["content"]["args"] != args:
            raise MalformedStreamError(f"the call {final['id']!r} was told twice, differently")
        return events

    def update(self, fields: Fields, key: Key | None, kind: str | None) -> list[Event]:
        """Add fields to an open block."""
        found = self._registry.at(key, kind)
        if not found:
            raise MalformedStreamError(
                f"no open {kind or 'block'} at index {key!r} to take {sorted(fields)}"
            )
        id = _text(fields.pop("id", None), "id") or None
        changed = self._merge(found[-1], fields, found[-1].key, id)
        return self._show(found[-1], changed)

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
        """Let a block grow by fields; give those that changed, as copies."""
        self._registry.remember(block, key, id)
        changed: Fields = {}
        for field, new in {"id": id, **fields}.items():
            old = block.content.get(field)
            if new is None or field in ("type", "index"):
                continue
            new = clean_json(new)
            is_grown = field == "name" and block.kind in CALL_KINDS  # by `say`, out of its slices
            merged = new if old is None or is_grown else leaf_rule(field)(old, new)
            if merged != old:
                block.content[field] = merged
                changed[field] = copy_json(merged)
        return changed

    def _show(self, block: GrowingBlock, changed: Fields) -> list[Event]:
        """Put a block on the wire, or what changed of one that is there."""
        if not block.is_started:
            events = self._take_turn(block)
            index = self._registry.place(block)
            return [*events, _event("content-block-start", index, content=_skeleton(block.content))]
        if block.kind not in DELTA_OF:
            changed = {field: value for field, value in changed.items() if field in SKELETON}
        if not changed:
            return []
        fields = {"type": block.content["type"], **changed}
        delta = {"type": "block-delta", "fields": fields}
        return [
            *self._take_turn(block),
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
        return [*self._take_turn(block), self._delta(block, piece)]

    def _delta(self, block: GrowingBlock, piece: str) -> Event:
        kind = DELTA_OF[block.kind]
        block.parts.append(piece)
        return _event(
            "content-block-delta", block.index, delta={"type": kind, DELTA_FIELDS[kind][0]: piece}
        )

    def _take_turn(self, block: GrowingBlock) -> list[Event]:
        """Let a block speak: one without an index that spoke before it is over."""
        before = self._registry.last_spoken
        self._registry.last_spoken = self.current = block
        if before is None or before is block or before.is_finished or not before.is_loose:
            return []
        if before.kind in CALL_KINDS and not before.has_whole_args():
            return []  # the rest of its arguments may follow, under the same id
        return self._finish(before)

    def _finish(self, block: GrowingBlock) -> list[Event]:
        if not block.is_started:
            self._end(block)
            return []
        rest = block.joiner.end() if block.joiner is not None else ""
        rest = block.held + rest if block.kind in CALL_KINDS else rest
        events = [self._delta(block, rest)] if rest else []
        content = block.content
        if grown := "".join(block.parts) or block.held:
            content[DELTA_FIELDS[DELTA_OF[block.kind]][1]] = grown
        elif block.kind == "text":
            content["text"] = ""
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

    def _is_echo(self, kind: str, id: str | None, piece: str, fields: Fields) -> bool:
        """See a late, empty part of a call that is over; anything it adds would be a second call of one id."""
        if kind not in CALL_KINDS or id is None or (kind, id) not in self._calls:
            return False
        if not piece and not fields:
            return True
        if self.allow_repeated_ids:
            return False
        raise MalformedStreamError(f"two tool calls share the id {id!r}")

    def _is_second_telling(self, block: GrowingBlock, id: str, name: str, piece: str) -> bool:
        """See a whole call under the id of one that is whole: told twice, or an error if it says another thing."""
        if self.allow_repeated_ids or block.kind not in CALL_KINDS or block.id != id:
            return False
        if not block.has_whole_args():
            return False
        args = parse_tool_args(piece)
        if isinstance(args, str):
            return False
        known = {"name": block.content.get("name"), "args": parse_tool_args("".join(block.parts))}
        if known == {"name": name, "args": args}:
            return True
        raise MalformedStreamError(f"two tool calls share the id {id!r}")

    def _is_repeated(self, kind: str, final: Fields) -> bool:
        """See a call that was told before; the same id with other contents is an error (F-U09)."""
        id = final.get("id")
        if kind not in CALL_KINDS or not id or self.allow_repeated_ids:
            return False
        known = self._calls.get((kind, id))
        if known is None:
            self._calls[(kind, id)] = copy_json(final)
            return False
        if known != final:
            raise MalformedStreamError(f"two tool calls share the id {id!r}")
        return True


def _new_block(kind: str, key: Key | None) -> GrowingBlock:
    content: Fields = {"type": CHUNK_OF.get(kind, kind)}
    if kind in CALL_KINDS:
        content |= {"id": None, "name": None}
    return GrowingBlock(kind, key, content)


def _skeleton(content: Fields) -> Fields:
    """Return the start of a block: all that is known of one that grows, all but the payload of others."""
    kind = content["type"]
    light = {name: value for name, value in content.items() if name not in HEAVY_FIELDS}
    if kind == "text":
        return cast("Fields", copy_json({**light, "text": ""}))
    if kind == "reasoning":
        light.pop("reasoning", None)
        return cast("Fields", copy_json(light))
    if kind in CHUNK_OF.values():
        return cast("Fields", copy_json({**light, "args": ""}))
    return cast("Fields", copy_json({name: content[name] for name in SKELETON if name in content}))


def _without_null(block: GrowingBlock, piece: str) -> str:
    """Leave out the `null` some vendors put before the arguments or after them; one that stands alone stays."""
    if block.held:
        held, block.held = block.held, ""
        return piece if piece.lstrip().startswith("{") else held + piece
    if piece != "null":
        return piece
    if not block.parts:
        block.held = piece
        return ""
    return "" if block.has_whole_args() else piece


def _base64(data: object) -> str:
    text = _text(data, "base64")
    if not text.isascii():
        raise MalformedStreamError(f"the data of a block is base64, not {text!r:.80}")
    return text


def _text(value: object, what: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedStreamError(f"{what} of a block is text, not {value!r:.80}")
    return value


def _has_content(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def _event(event: str, index: int, **rest: object) -> Event:
    told: Any = {"event": event, "index": index, **rest}
    return told  # type: ignore[no-any-return]
