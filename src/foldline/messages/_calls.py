"""Tool calls assembled from streamed slices.

A slice belongs to the call with its id, else to the call with its index (0 and "0" are the same), unless their ids
differ. Without id and index, a slice with a tool name begins a call and one without continues the last. Arguments are
parsed incrementally, each slice once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from foldline.protocol.blocks import BlockIndex, InvalidToolCall, ToolCall, ToolCallChunk
from foldline.protocol.merge import copy_json, grow_name, merge_dicts
from foldline.protocol.tool_call_parser import parse_tool_args, promote
from foldline.utils.json import to_jsonable

if TYPE_CHECKING:
    from foldline.utils.json import PartialJson

__all__ = [
    "CallsGrowth",
    "ParsedCalls",
    "add_calls_of_blocks",
    "final_call",
    "parse_calls",
    "slices_of_calls",
    "split_calls",
]

ParsedCalls = tuple[list[ToolCall], list[InvalidToolCall]]

CALL_KEYS = frozenset({"type", "id", "name", "args", "index"})
FIELD_ORDER = ("name", "args", "id", "error", "type")
"""The order of a call's keys in a message's fields; in a content block its type comes first."""


class GrowingCall:
    """A call and the slices of its arguments so far."""

    __slots__ = ("extra_fields", "fed", "id", "index", "name", "parser", "pieces")

    def __init__(self, index: BlockIndex | None) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.index = index
        self.pieces: list[str] | None = None
        self.extra_fields: dict[str, Any] = {}
        self.parser: PartialJson | None = None
        self.fed = 0

    def grow(self, part: Mapping[str, Any]) -> None:
        """Add a slice."""
        self.id = self.id or part.get("id")
        self.name = grow_name(self.name, part.get("name"), has_args=bool(self.pieces))
        args = part.get("args")
        if args is not None:
            if self.pieces is None:
                self.pieces = []
            if args:
                self.pieces.append(args)
        if len(part) > 4:
            extra_fields = {key: value for key, value in part.items() if key not in CALL_KEYS}
            if extra_fields:
                self.extra_fields = merge_dicts(self.extra_fields, extra_fields)

    def args(self) -> str | None:
        """Return the argument text so far."""
        return None if self.pieces is None else "".join(self.pieces)

    def chunk(self) -> ToolCallChunk:
        """Return the call so far as one slice."""
        chunk = {
            "name": self.name,
            "args": self.args(),
            "id": self.id,
            "index": self.index,
            "type": "tool_call_chunk",
            **copy_json(self.extra_fields),
        }
        return cast("ToolCallChunk", chunk)

    def parsed(self) -> dict[str, Any]:
        """Return the call so far, with its arguments parsed as far as possible."""
        if not self.pieces:
            args: Any = {}
        else:
            args = self._args_so_far(self.pieces)
        if isinstance(args, dict) and self.name and "error" not in self.extra_fields:
            call = {"name": self.name, "args": args, "id": self.id, "type": "tool_call"}
            return {**call, **copy_json(self.extra_fields)}
        error = str(self.parser.error) if self.parser and self.parser.error else None
        return {
            "name": self.name,
            "args": self.args(),
            "id": self.id,
            "error": error,
            "type": "invalid_tool_call",
            **copy_json(self.extra_fields),
        }

    def is_followed_by(self, part: Mapping[str, Any]) -> bool:
        """Whether a slice with the same id is another complete call, because this one is already complete."""
        if not (self.pieces and part.get("name") and part.get("args")):
            return False
        if self.index is not None and str(self.index) == str(part.get("index")):
            return False
        is_object = isinstance(self._args_so_far(self.pieces), dict)
        is_complete = is_object and self.parser is not None and self.parser.is_complete
        return is_complete and isinstance(parse_tool_args(part["args"]), dict)

    def _args_so_far(self, pieces: list[str]) -> object:
        if self.parser is None:
            from foldline.utils.json import PartialJson  # noqa: PLC0415  only for streamed calls

            self.parser = PartialJson()
        while self.fed < len(pieces):
            self.parser.feed(pieces[self.fed])
            self.fed += 1
        if self.parser.error:
            return None
        value = self.parser.value()
        return copy_json(value) if self.parser.is_complete else value


class CallsGrowth:
    """The tool calls of a message that is being streamed."""

    __slots__ = ("_by_id", "_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[GrowingCall] = []
        self._by_id: dict[str, GrowingCall] = {}
        self._by_index: dict[str, GrowingCall] = {}

    def add(self, part: Mapping[str, Any]) -> None:
        """Add a slice."""
        call = self._call_of(part)
        call.grow(part)
        if call.id:
            self._by_id[call.id] = call

    def chunks(self) -> list[ToolCallChunk]:
        """Return each call so far as one slice."""
        return [call.chunk() for call in self._calls]

    def parsed(self) -> ParsedCalls:
        """Return each call so far, with its arguments parsed as far as possible."""
        return split_calls([call.parsed() for call in self._calls])

    def final(self) -> ParsedCalls:
        """Return each call at the end of the stream: truncated arguments are invalid."""
        return parse_calls(self.chunks())

    def _call_of(self, part: Mapping[str, Any]) -> GrowingCall:
        id, index = part.get("id"), part.get("index")
        if id and id in self._by_id:
            same_id = self._by_id[id]
            return self._new(index) if same_id.is_followed_by(part) else same_id
        if index is not None:
            call = self._by_index.get(str(index))
            if call is None or (id and call.id):
                call = self._by_index[str(index)] = self._new(index)
            return call
        if id or part.get("name") or not self._calls:
            return self._new(None)
        return self._calls[-1]

    def _new(self, index: BlockIndex | None) -> GrowingCall:
        call = GrowingCall(index)
        self._calls.append(call)
        return call


def parse_calls(chunks: Sequence[ToolCallChunk]) -> ParsedCalls:
    """Return complete slices as calls; a call without a name or with arguments that are not an object is invalid."""
    return split_calls([final_call(cast("dict[str, Any]", chunk)) for chunk in chunks])


def final_call(block: dict[str, Any]) -> dict[str, Any]:
    """Return a streamed call as a finished one; an error that the stream reported is kept."""
    final = promote({"type": "tool_call_chunk", **block})
    if "error" not in block:
        return final
    args = block.get("args")
    return {**final, "type": "invalid_tool_call", "args": args, "error": block["error"]}


def split_calls(blocks: Sequence[Mapping[str, Any]]) -> ParsedCalls:
    """Split calls into valid and invalid ones."""
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for block in blocks:
        call = {key: block[key] for key in FIELD_ORDER if key in block}
        call.update((key, value) for key, value in block.items() if key != "index")
        if block.get("type") == "tool_call":
            calls.append(cast("ToolCall", call))
        else:
            invalid.append(cast("InvalidToolCall", call))
    return calls, invalid


def add_calls_of_blocks(blocks: Sequence[Mapping[str, Any]], kwargs: dict[str, Any]) -> None:
    """Add the tool calls of content blocks to the message's arguments, unless they are passed separately."""
    by_type: dict[str, list[Any]] = {
        "tool_call": [],
        "invalid_tool_call": [],
        "tool_call_chunk": [],
    }
    for block in blocks:
        if (kind := dict(block).get("type")) in by_type:
            by_type[str(kind)].append(dict(block))
    calls, invalid = split_calls([*by_type["tool_call"], *by_type["invalid_tool_call"]])
    for name, value in (
        ("tool_calls", calls),
        ("invalid_tool_calls", invalid),
        ("tool_call_chunks", by_type["tool_call_chunk"]),
    ):
        if value and not kwargs.get(name):
            kwargs[name] = value


def slices_of_calls(
    calls: Sequence[ToolCall], invalid: Sequence[InvalidToolCall]
) -> list[ToolCallChunk]:
    """Return complete calls as slices, as chunks contain them."""
    slices: list[dict[str, Any]] = [
        {**call, "args": json.dumps(to_jsonable(call["args"]))} for call in calls
    ]
    slices += [dict(call) for call in invalid]
    return [
        cast("ToolCallChunk", {"index": None, **part, "type": "tool_call_chunk"}) for part in slices
    ]
