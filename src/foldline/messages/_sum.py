"""The sum of chunks, computed when it is read.

`a + b + c` stores the parts in a log that the sums share: adding appends one entry, so its cost does not depend on the
length of the message. A sum is a prefix of that log; reading it folds the parts from left to right. Addition is
therefore concatenation, and associative by construction. Parts are snapshots: changing a chunk after adding it changes
no sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, cast

from foldline.messages._calls import CallsGrowth, final_call
from foldline.messages._growth import (
    ContentGrowth,
    grow_id,
    merge_kwargs,
    merge_metadata,
    reduce_pairs,
)
from foldline.messages._native_content import is_native, native_content
from foldline.messages.block_translators._pipeline import standard_blocks
from foldline.protocol.merge import add_usage, copy_json

__all__ = ["ChunkLog", "Part", "SumState", "slice_part", "snapshot"]

Part = str | dict[str, Any]
"""The content of a chunk: its text if it is only text, else its fields."""

STANDARD_METADATA = {"output_version": "v1"}
DERIVED_FIELDS = frozenset({"tool_calls", "invalid_tool_calls", "type"})
MERGE_RULES = {"response_metadata": merge_metadata, "additional_kwargs": merge_kwargs}
CHUNK_TYPES = frozenset({"tool_call_chunk", "server_tool_call_chunk"})


def snapshot(fields: dict[str, Any], extra: dict[str, Any] | None) -> Part:
    """Return a copy of a chunk's fields."""
    content = fields.get("content", "")
    part = {
        name: copy_json(value)
        for name, value in fields.items()
        if value and name not in DERIVED_FIELDS and not (name == "status" and value == "complete")
    }
    part.setdefault("content", [] if content == [] else "")
    if extra:
        part["__extra__"] = dict(extra)
    return part


def slice_part(fields: dict[str, Any]) -> Part | None:
    """Return the fields of a chunk that is one slice of a call, with or without an id; None for any other chunk."""
    slices = fields.get("tool_call_chunks")
    if not slices or fields.get("content") != "" or len(slices) != 1 or len(slices[0]) != 5:
        return None
    if len(fields) == 2:
        return {"content": "", "tool_call_chunks": [slices[0].copy()]}
    if not fields.get("id"):
        return None
    return {"content": "", "tool_call_chunks": [slices[0].copy()], "id": fields["id"]}


class ChunkSum:
    """The fold of the first parts of a log."""

    __slots__ = ("_calls", "_content", "_fields", "_names", "_unmerged", "folded")

    def __init__(self) -> None:
        self.folded = 0
        self._content = ContentGrowth()
        self._calls = CallsGrowth()
        self._fields: dict[str, Any] = {}
        self._names: dict[str, None] = {}
        self._unmerged: dict[str, list[dict[str, Any]]] = {name: [] for name in MERGE_RULES}

    def fold(self, parts: Iterable[Part]) -> None:
        """Add parts, in order."""
        texts: list[str] = []
        for part in parts:
            self.folded += 1
            if type(part) is str:
                texts.append(part)
                continue
            if texts:
                self._content.add("".join(texts))
                texts.clear()
            fields = cast("dict[str, Any]", part)
            if "reset" in (fields.get("response_metadata") or ()):
                self._reset()
            self._content.add(fields["content"])
            self._add_fields(fields)
        self._content.add("".join(texts))

    def _reset(self) -> None:
        """Drop everything so far: the model starts again (`on_partial="reset"`)."""
        folded = self.folded
        self.__init__()  # type: ignore[misc]
        self.folded = folded

    def value(self, name: str) -> Any:  # noqa: ANN401  the type depends on the field
        """Return one field of the sum, or None if no part has it."""
        if name == "content":
            return self._content_and_kwargs()[0]
        if name == "tool_call_chunks":
            return self._calls.chunks()
        if name in ("tool_calls", "invalid_tool_calls"):
            parsed = self._calls.final() if self.is_last else self._calls.parsed()
            return parsed[name == "invalid_tool_calls"]
        if name in MERGE_RULES:
            native_kwargs = (
                self._content_and_kwargs()[1]
                if name == "additional_kwargs" and self.is_last
                else {}
            )
            return {**self._merged(name), **native_kwargs}
        if name == "__names__":
            return [field for field in self._names if field != "__extra__"]
        return copy_json(self._fields.get(name))

    @property
    def is_last(self) -> bool:
        """Whether the stream is complete."""
        return self._fields.get("chunk_position") == "last"

    def _content_and_kwargs(self) -> tuple[str | list[Any], dict[str, Any]]:
        """Return the content and `additional_kwargs`; in the provider's format once the message is complete (v0)."""
        content = self._joined_content()
        if not self.is_last:
            return content, {}
        metadata = self._merged("response_metadata")
        if metadata.get("output_version") == "v1" or not is_native(metadata):
            return content, {}
        calls = [call for group in self._calls.final() for call in group]
        blocks: Any = standard_blocks(content, None, metadata=STANDARD_METADATA, calls=calls)
        native = native_content(blocks, metadata)
        return (content, {}) if native is None else native

    def _joined_content(self) -> str | list[Any]:
        content = self._content.value()
        if isinstance(content, str) or not self.is_last:
            return content
        return [
            _final_block(item)
            if isinstance(item, dict) and item.get("type") in CHUNK_TYPES
            else item
            for item in content
        ]

    def _merged(self, name: str) -> dict[str, Any]:
        unmerged = self._unmerged[name]
        if not unmerged:
            return {}
        merged = reduce_pairs(MERGE_RULES[name], unmerged)
        self._unmerged[name] = [merged]
        return copy_json(merged)  # type: ignore[no-any-return]

    def _add_fields(self, part: dict[str, Any]) -> None:
        for name, value in part.items():
            if name == "content":
                continue
            if name == "id" and self._fields.get("id") == value:
                continue
            self._names[name] = None
            if name == "tool_call_chunks":
                for chunk in value:
                    self._calls.add(chunk)
            elif name in MERGE_RULES:
                self._append_unmerged(self._unmerged[name], value)
            else:
                self._grow(name, value)

    def _grow(self, name: str, value: Any) -> None:  # noqa: ANN401  the type depends on the field
        fields, old = self._fields, self._fields.get(name)
        if name == "usage_metadata":
            fields[name] = add_usage(old, value)
        elif name == "id":
            fields[name] = grow_id(old, value)
        elif name == "name":
            fields[name] = old or value
        elif name == "__extra__":
            fields[name] = {**(old or {}), **value}
        else:
            fields[name] = value

    @staticmethod
    def _append_unmerged(unmerged: list[dict[str, Any]], value: dict[str, Any]) -> None:
        # Providers repeat the model's name on every chunk: merging equal scalars has no effect.
        if unmerged and unmerged[-1] == value and _is_flat(value):
            return
        unmerged.append(value)


def _final_block(item: dict[str, Any]) -> dict[str, Any]:
    """Return a finished call block, without its index in the stream."""
    final = final_call(item)
    if final["type"] not in ("tool_call", "invalid_tool_call"):
        return (
            final if final.get("id") is not None else {k: v for k, v in final.items() if k != "id"}
        )
    return {key: value for key, value in final.items() if key != "index"}


def _is_flat(value: dict[str, Any]) -> bool:
    return all(
        (str(key).startswith("model") or key == "output_version")
        and not isinstance(item, dict | list)  # lists would grow
        for key, item in value.items()
    )


class ChunkLog:
    """Parts in the order they were added, and the fold of some of them."""

    __slots__ = ("_cached_sums", "id", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        first = parts[0]
        self.id: str | None = (
            None if type(first) is str else cast("dict[str, Any]", first).get("id")
        )
        """The id of the first part: a part that only repeats it is plain text."""
        self._cached_sums: list[ChunkSum] = []

    def append(self, length: int, part: Part) -> ChunkLog:
        """Return a log with the first `length` parts and `part`: this one, unless something else was added to it."""
        parts = self.parts
        if len(parts) == length:
            parts.append(part)
            if parts[length] is part:  # else another thread has appended first
                return self
        return ChunkLog([*parts[:length], part])

    def read(self, length: int, names: Iterable[str]) -> list[Any]:
        """Return fields of the sum of the first `length` parts."""
        try:
            chunk_sum = (
                self._cached_sums.pop()
            )  # removed, so that two threads never fold the same sum
        except IndexError:
            chunk_sum = ChunkSum()
        if chunk_sum.folded > length:  # a shorter sum is read after a longer one
            self._cached_sums.append(chunk_sum)
            chunk_sum = ChunkSum()
            chunk_sum.fold(self.parts[:length])
            return [chunk_sum.value(name) for name in names]
        if chunk_sum.folded < length:
            chunk_sum.fold(self.parts[chunk_sum.folded : length])
        values = [chunk_sum.value(name) for name in names]
        self._cached_sums[:] = [chunk_sum]
        return values


SumState: TypeAlias = tuple[ChunkLog, int] | tuple[ChunkLog, int, Literal["read"]]
"""The state of a sum: a log, the number of its parts, and "read" if a field of the sum was read."""
