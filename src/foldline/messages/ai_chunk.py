"""`AIMessageChunk`: a piece of a streamed message; public as `foldline.messages.ai`.

A chunk of plain text is created without validation, and adding two chunks only records both (see `_sum`), because a
stream creates and adds thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field

from foldline.messages._calls import slices_of_calls
from foldline.messages._lazy import LazyFields, default_of, real_extra, real_fields, set_real_fields
from foldline.messages._sum import ChunkLog, Part, SumState, slice_part, snapshot
from foldline.messages.ai_message import AIMessage
from foldline.messages.base import BaseMessageChunk, Content
from foldline.protocol.blocks import ContentBlock, InvalidToolCall, ToolCall, ToolCallChunk
from foldline.protocol.tool_call_parser import promote
from foldline.utils._trusted import bare

__all__ = [
    "AIMessageChunk",
    "add_ai_message_chunks",
]

MUTABLE_FIELDS = (
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
        _sum: SumState | None

    _has_own_metadata: ClassVar[bool] = False
    type: Literal["AIMessageChunk"] = "AIMessageChunk"  # type: ignore[assignment]
    tool_call_chunks: list[ToolCallChunk] = Field(default_factory=list)
    """Slices of tool calls, arguments as JSON text."""
    chunk_position: Literal["last"] | None = None
    """"last" on the final chunk of a stream: tool calls are complete."""

    def __init__(
        self,
        content: Content | None = None,
        content_blocks: Sequence[ContentBlock] | None = None,
        **kwargs: Any,
    ) -> None:
        """Create a chunk; plain text and slices of calls, as models send them, are not validated."""
        if type(content) is str and not kwargs and content_blocks is None:
            set_real_fields(self, {"content": content})
            set_sum(self, None)
            return
        if type(content) is str and content_blocks is None and _is_simple(kwargs):
            if "tool_call_chunks" in kwargs:
                kwargs["tool_call_chunks"] = [
                    dict(call_slice) for call_slice in kwargs["tool_call_chunks"]
                ]
            set_real_fields(self, {"content": content, **kwargs})
            set_sum(self, None)
            return
        super().__init__(content, content_blocks, **kwargs)
        self._sync_calls()

    @classmethod
    def _trusted(cls, **fields: object) -> Self:
        """Create a chunk from valid fields; missing fields get their defaults when they are read."""
        chunk = bare(cls)
        set_real_fields(chunk, fields)
        set_sum(chunk, None)
        return chunk

    def __add__(self, other: object) -> Self:
        """Add two chunks; they are merged when the sum is read."""
        # The hot path: a sum that was not read, and a plain chunk. (Pydantic's isinstance alone costs as much as
        # all of this.)
        cls = type(self)
        if type(other) is cls:
            try:
                state, other_state = self._sum, other._sum
            except AttributeError:
                return self._plus(other)
            if other_state is None and (state is None or len(state) == 2):
                log, length = state or (ChunkLog([self._part()]), 1)
                fields = real_fields(other)
                part = None
                if len(fields) == 2 and fields.get("id") == log.id is not None:
                    part = fields.get("content")
                if type(part) is not str:
                    part = other._part()
                parts, is_added = log.parts, False
                if (
                    len(parts) == length
                ):  # nearly always. Else something was added, and `append` copies the log
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
        state, other_state = self._unchanged(), other._unchanged()
        log, length = (ChunkLog([self._part()]), 1) if state is None else state[:2]
        for part in (
            (other._part(),) if other_state is None else other_state[0].parts[: other_state[1]]
        ):
            log = log.append(length, part)
            length += 1
        chunk = bare(type(self))
        set_sum(chunk, (log, length))
        return chunk

    def __setattr__(self, name: str, value: object) -> None:
        """Set a field; a sum is converted to a plain chunk first."""
        self._to_plain_chunk()
        if name not in type(self).__pydantic_fields__:
            self._fill_fields()  # a chunk with one field counts as plain text, see `_part`
            super().__setattr__(name, value)
            return
        self.__pydantic_fields_set__.add(name)
        fields = real_fields(self)
        fields[name] = value
        if name in ("tool_call_chunks", "chunk_position") and fields.get("tool_call_chunks"):
            fields.pop("tool_calls", None)
            fields.pop("invalid_tool_calls", None)

    def _sum_state(self) -> SumState | None:
        """Return the state of a sum; None for a plain chunk."""
        try:
            state: SumState | None = self._sum
        except AttributeError:  # created by Pydantic, copy or pickle
            return None
        return state

    def _unchanged(self) -> SumState | None:
        """Return the state of a sum, unless a field was changed in place after it was read."""
        state = self._sum_state()
        if state is None or len(state) == 2:
            return state
        fields = real_fields(self)
        read_names = [name for name in MUTABLE_FIELDS if type(fields.get(name)) in (list, dict)]
        if not read_names or state[0].read(state[1], read_names) == [
            fields[name] for name in read_names
        ]:
            return state
        self._to_plain_chunk()
        return None

    def _read(self, state: SumState, names: Sequence[str]) -> list[Any]:
        """Return fields of a sum, and record that the caller may now change them."""
        if len(state) == 2:
            set_sum(self, (*state, "read"))
        return state[0].read(state[1], names)

    def _to_plain_chunk(self) -> None:
        """Convert a sum into a plain chunk with its own fields."""
        if self._sum_state() is not None:
            complete = self.__dict__
            set_sum(self, None)
            set_real_fields(self, complete)

    def _part(self) -> Part:
        fields = real_fields(self)
        if len(fields) == 1 and type(text := fields.get("content")) is str:
            return (
                text  # created from plain text; a chunk with extra fields has all other fields too
            )
        if len(fields) <= 3 and (part := slice_part(fields)) is not None:
            return part
        try:
            extra = real_extra(self)
        except AttributeError:
            extra = None
        return snapshot(fields, extra)

    def _sync_calls(self) -> None:
        """Make calls and slices of calls consistent: calls are computed from slices when they are read."""
        fields = real_fields(self)
        if not fields["tool_call_chunks"]:
            fields["tool_call_chunks"] = slices_of_calls(
                fields["tool_calls"], fields["invalid_tool_calls"]
            )
            return
        del fields["tool_calls"], fields["invalid_tool_calls"]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content, reasoning and tool calls as standard blocks; in the last chunk, calls are complete."""
        blocks = super().content_blocks
        if self.chunk_position != "last":
            return blocks
        return [
            promote(dict(block)) if block["type"] == "server_tool_call_chunk" else block  # type: ignore[misc]
            for block in blocks
        ]

    def _calls_of_blocks(self) -> list[Any]:
        """Return slices until the last chunk: a call with incomplete arguments is not a call yet."""
        if self.chunk_position == "last" or not self.tool_call_chunks:
            return super()._calls_of_blocks()
        return [{**call_slice, "type": "tool_call_chunk"} for call_slice in self.tool_call_chunks]

    def _lazy_value(self, name: str) -> object:
        state = self._sum_state()
        is_call = name in ("tool_calls", "invalid_tool_calls")
        if state is None:
            return (
                self._calls_of_slices()[name == "invalid_tool_calls"]
                if is_call
                else default_of(type(self), name)
            )
        if is_call:
            calls, invalid = self._read(state, ["tool_calls", "invalid_tool_calls"])
            fields = real_fields(self)
            fields.setdefault("tool_calls", calls)
            fields.setdefault("invalid_tool_calls", invalid)
            return fields[name]
        value = self._read(state, [name])[0]
        return default_of(type(self), name) if value is None else value

    def _lazy_values(self) -> dict[str, Any]:
        values = super()._lazy_values()
        state = self._sum_state()
        if state is not None:
            for name, value in zip(values, self._read(state, list(values)), strict=True):
                if value is not None:
                    values[name] = value
        elif real_fields(self).get("tool_call_chunks"):
            values["tool_calls"], values["invalid_tool_calls"] = self._calls_of_slices()
        return values

    def _lazy_fields_set(self) -> set[str]:
        state = self._sum_state()
        return (
            super()._lazy_fields_set()
            if state is None
            else {"content", *self._read(state, ["__names__"])[0]}
        )

    def _lazy_extra(self) -> dict[str, Any]:
        state = self._sum_state()
        return {} if state is None else self._read(state, ["__extra__"])[0] or {}

    def _calls_of_slices(self) -> tuple[list[ToolCall], list[InvalidToolCall]]:
        if not self.tool_call_chunks:
            return [], []
        log = ChunkLog([snapshot({"content": "", **_calls_part(self)}, None)])
        calls, invalid = log.read(1, ["tool_calls", "invalid_tool_calls"])
        return calls, invalid


set_sum: Callable[[AIMessageChunk, SumState | None], None] = vars(AIMessageChunk)["_sum"].__set__


def add_ai_message_chunks(left: AIMessageChunk, *others: AIMessageChunk) -> AIMessageChunk:
    """Return the sum of chunks."""
    for other in others:
        left = left + other
    return left


def _is_simple(kwargs: dict[str, Any]) -> bool:
    """Whether fields need no validation: the ones that models set on every chunk."""
    for name, value in kwargs.items():
        if name == "tool_call_chunks":
            if type(value) is not list or not value:
                return False
            for call_slice in value:
                if type(call_slice) is not dict or not _is_simple_slice(call_slice):
                    return False
        elif name not in ("id", "name") or not (value is None or type(value) is str):
            return False
    return True


def _is_simple_slice(call_slice: dict[str, Any]) -> bool:
    """Whether a slice of a call needs no validation: it has all fields, of plain types."""
    return (
        len(call_slice) == 5
        and call_slice.get("type") == "tool_call_chunk"
        and type(call_slice.get("index")) in PLAIN_INDEX
        and type(call_slice.get("args", 0)) in PLAIN_TEXT
        and type(call_slice.get("name", 0)) in PLAIN_TEXT
        and type(call_slice.get("id", 0)) in PLAIN_TEXT
    )


PLAIN_TEXT = (str, type(None))
PLAIN_INDEX = (int, type(None))


def is_text_slice(chunk: AIMessageChunk) -> bool:
    """Return whether a chunk is a slice of text and nothing else, without building its other fields."""
    fields = real_fields(chunk)
    return len(fields) == 2 and type(fields.get("content")) is str and chunk._sum_state() is None


def slice_chunk(args: str, index: int, id: str | None) -> AIMessageChunk:
    """Return a chunk with a slice of a call's arguments; used for every delta of a stream."""
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
