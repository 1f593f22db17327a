"""`AIMessageChunk`: the piece of a model's message that arrives in a stream; public as `foldline.messages.ai`.

A chunk made from plain text checks nothing but that it is text, and adding two chunks only notes both (see `_sum`),
because a stream makes and adds thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field

from foldline.messages._calls import slices_of_calls
from foldline.messages._lazy import LazyFields, default_of, real_extra, real_fields, set_real_fields
from foldline.messages._sum import ChunkLog, Held, Part, slice_part, snapshot
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessageChunk, Content
from foldline.protocol.blocks import ContentBlock, InvalidToolCall, ToolCall, ToolCallChunk
from foldline.protocol.promote import promote
from foldline.utils.trusted import bare

__all__ = ["AIMessageChunk", "add_ai_message_chunks", "set_sum", "slice_chunk"]

CHECKED_WHEN_ADDED = (
    "tool_call_chunks",
    "response_metadata",
    "additional_kwargs",
    "usage_metadata",
    "content",
)


class AIMessageChunk(LazyFields, AIMessage, BaseMessageChunk):
    """A piece of a model's message; pieces add up with `+`, in constant time each.

    ```python
    from foldline.messages import AIMessageChunk

    print((AIMessageChunk("Hello") + AIMessageChunk(" world")).content)
    #> Hello world
    ```
    """

    __slots__ = ("_sum",)

    if TYPE_CHECKING:
        _sum: Held | None

    type: Literal["AIMessageChunk"] = "AIMessageChunk"  # type: ignore[assignment]
    tool_call_chunks: list[ToolCallChunk] = Field(default_factory=list)
    """Slices of tool calls, arguments as JSON text."""
    chunk_position: Literal["last"] | None = None
    """"last" on the final piece of a stream: nothing more comes, tool calls are whole."""

    def __init__(
        self,
        content: Content | None = None,
        content_blocks: Sequence[ContentBlock] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make a piece; plain text, and slices of calls as models send them, take a short way past validation."""
        if type(content) is str and not kwargs and content_blocks is None:
            set_real_fields(self, {"content": content})
            set_sum(self, None)
            return
        if type(content) is str and content_blocks is None and _is_simple(kwargs):
            if "tool_call_chunks" in kwargs:
                kwargs["tool_call_chunks"] = [dict(one) for one in kwargs["tool_call_chunks"]]
            set_real_fields(self, {"content": content, **kwargs})
            set_sum(self, None)
            return
        super().__init__(content, content_blocks, **kwargs)
        self._agree_on_calls()

    @classmethod
    def _trusted(cls, **fields: object) -> Self:
        """Make a piece from fields that need no checking; those left out take their defaults when read."""
        chunk = bare(cls)
        set_real_fields(chunk, fields)
        set_sum(chunk, None)
        return chunk

    def __add__(self, other: object) -> Self:
        """Join two pieces; the work is done when the sum is read."""
        # The hot path: a sum nobody has read, and one more plain piece. (Pydantic's isinstance alone
        # costs as much as all of this.)
        cls = type(self)
        if type(other) is cls:
            try:
                held, right = self._sum, other._sum
            except AttributeError:
                return self._plus(other)
            if right is None and (held is None or len(held) == 2):
                log, length = held or (ChunkLog([self._part()]), 1)
                fields = real_fields(other)
                part = None
                if len(fields) == 2 and fields.get("id") == log.id is not None:
                    part = fields.get("content")
                if type(part) is not str:
                    part = other._part()
                parts, is_added = log.parts, False
                if (
                    len(parts) == length
                ):  # as nearly always: nobody added to it. Else `append` makes a log of its own
                    parts.append(part)
                    is_added = parts[length] is part
                chunk = bare(cls)
                set_sum(chunk, (log if is_added else log.append(length, part), length + 1))
                return chunk
        return self._plus(other)

    def _plus(self, other: object) -> Self:
        if isinstance(other, list | tuple):
            return reduce(type(self).__add__, other, self)
        if not isinstance(other, AIMessageChunk):
            return super().__add__(other)
        held, right = self._unchanged(), other._unchanged()
        log, length = (ChunkLog([self._part()]), 1) if held is None else held[:2]
        for part in (other._part(),) if right is None else right[0].parts[: right[1]]:
            log = log.append(length, part)
            length += 1
        chunk = bare(type(self))
        set_sum(chunk, (log, length))
        return chunk

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field; a sum becomes a plain piece first."""
        self._settle()
        if name not in type(self).__pydantic_fields__:
            self._fill_fields()  # a piece of one field is taken to be plain text, see `_part`
            super().__setattr__(name, value)
            return
        self.__pydantic_fields_set__.add(name)
        fields = real_fields(self)
        fields[name] = value
        if name in ("tool_call_chunks", "chunk_position") and fields.get("tool_call_chunks"):
            fields.pop("tool_calls", None)
            fields.pop("invalid_tool_calls", None)

    def _held(self) -> Held | None:
        """Return the log of a sum; None for a plain piece."""
        try:
            held: Held | None = self._sum
        except AttributeError:  # made by Pydantic, by copy or by pickle
            return None
        return held

    def _unchanged(self) -> Held | None:
        """Return the log of a sum, unless somebody changed a field in place after reading it."""
        held = self._held()
        if held is None or len(held) == 2:
            return held
        fields = real_fields(self)
        looked = [name for name in CHECKED_WHEN_ADDED if type(fields.get(name)) in (list, dict)]
        if not looked or held[0].read(held[1], looked) == [fields[name] for name in looked]:
            return held
        self._settle()
        return None

    def _read(self, held: Held, names: Sequence[str]) -> list[Any]:
        """Read fields of a sum, and remember that somebody may now change them."""
        if len(held) == 2:
            set_sum(self, (*held, "read"))
        return held[0].read(held[1], names)

    def _settle(self) -> None:
        """Turn a sum into a plain piece that holds its own fields."""
        if self._held() is not None:
            complete = self.__dict__
            set_sum(self, None)
            set_real_fields(self, complete)

    def _part(self) -> Part:
        fields = real_fields(self)
        if len(fields) == 1 and type(text := fields.get("content")) is str:
            return text  # made from plain text; a chunk with extra fields has all the others too
        if len(fields) <= 3 and (part := slice_part(fields)) is not None:
            return part
        try:
            extra = real_extra(self)
        except AttributeError:
            extra = None
        return snapshot(fields, extra)

    def _agree_on_calls(self) -> None:
        """Keep calls and slices of calls in step: slices lead, calls follow when read."""
        fields = real_fields(self)
        if not fields["tool_call_chunks"]:
            fields["tool_call_chunks"] = slices_of_calls(
                fields["tool_calls"], fields["invalid_tool_calls"]
            )
            return
        del fields["tool_calls"], fields["invalid_tool_calls"]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content, reasoning and tool calls as standard blocks; of the last piece, calls are whole."""
        blocks = super().content_blocks
        if self.chunk_position != "last":
            return blocks
        return [
            promote(dict(block)) if block["type"] == "server_tool_call_chunk" else block  # type: ignore[misc]
            for block in blocks
        ]

    def _calls_of_blocks(self) -> list[Any]:
        """Return slices while more may come: a call whose arguments are still arriving is no call yet."""
        if self.chunk_position == "last" or not self.tool_call_chunks:
            return super()._calls_of_blocks()
        return [{**one, "type": "tool_call_chunk"} for one in self.tool_call_chunks]

    def _lazy_value(self, name: str) -> object:
        held = self._held()
        is_call = name in ("tool_calls", "invalid_tool_calls")
        if held is None:
            return (
                self._own_calls()[name == "invalid_tool_calls"]
                if is_call
                else default_of(type(self), name)
            )
        if is_call:
            calls, invalid = self._read(held, ["tool_calls", "invalid_tool_calls"])
            fields = real_fields(self)
            fields.setdefault("tool_calls", calls)
            fields.setdefault("invalid_tool_calls", invalid)
            return fields[name]
        value = self._read(held, [name])[0]
        return default_of(type(self), name) if value is None else value

    def _lazy_values(self) -> dict[str, Any]:
        values = super()._lazy_values()
        held = self._held()
        if held is not None:
            for name, value in zip(values, self._read(held, list(values)), strict=True):
                if value is not None:
                    values[name] = value
        elif real_fields(self).get("tool_call_chunks"):
            values["tool_calls"], values["invalid_tool_calls"] = self._own_calls()
        return values

    def _lazy_fields_set(self) -> set[str]:
        held = self._held()
        return (
            super()._lazy_fields_set()
            if held is None
            else {"content", *self._read(held, ["__names__"])[0]}
        )

    def _lazy_extra(self) -> dict[str, Any]:
        held = self._held()
        return {} if held is None else self._read(held, ["__extra__"])[0] or {}

    def _own_calls(self) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        if not self.tool_call_chunks:
            return [], []
        log = ChunkLog([snapshot({"content": "", **_calls_part(self)}, None)])
        calls, invalid = log.read(1, ["tool_calls", "invalid_tool_calls"])
        return calls, invalid


set_sum: Callable[[AIMessageChunk, Held | None], None] = vars(AIMessageChunk)["_sum"].__set__


def add_ai_message_chunks(left: AIMessageChunk, *others: AIMessageChunk) -> AIMessageChunk:
    """Add up pieces."""
    for other in others:
        left = left + other
    return left


def _is_simple(kwargs: dict[str, Any]) -> bool:
    """Say whether fields need no checking: what models put on every chunk."""
    for name, value in kwargs.items():
        if name == "tool_call_chunks":
            if type(value) is not list or not value:
                return False
            for one in value:
                if type(one) is not dict or not _is_simple_slice(one):
                    return False
        elif name not in ("id", "name") or not (value is None or type(value) is str):
            return False
    return True


def _is_simple_slice(one: dict[str, Any]) -> bool:
    """Say whether a slice of a call needs no checking: all its fields are there, and plain."""
    return (
        len(one) == 5
        and one.get("type") == "tool_call_chunk"
        and type(one.get("index")) in PLAIN_INDEX
        and type(one.get("args", 0)) in PLAIN_TEXT
        and type(one.get("name", 0)) in PLAIN_TEXT
        and type(one.get("id", 0)) in PLAIN_TEXT
    )


PLAIN_TEXT = (str, type(None))
PLAIN_INDEX = (int, type(None))


def slice_chunk(args: str, index: int, id: str | None) -> AIMessageChunk:
    """Make a piece that is more of a call's arguments, as a stream does for every delta of them."""
    chunk = bare(AIMessageChunk)
    slices = [{"name": None, "args": args, "id": None, "index": index, "type": "tool_call_chunk"}]
    fields: dict[str, Any] = {"content": "", "tool_call_chunks": slices}
    if id:
        fields["id"] = id
    set_real_fields(chunk, fields)
    set_sum(chunk, None)
    return chunk


def _calls_part(chunk: AIMessageChunk) -> dict[str, Any]:
    return {"tool_call_chunks": chunk.tool_call_chunks, "chunk_position": chunk.chunk_position}
