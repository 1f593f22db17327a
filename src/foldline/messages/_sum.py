"""The sum of chunks, worked out when it is read.

`a + b + c` keeps the parts in a log that the sums share: adding appends one entry, so it costs the same however long
the message is. A sum is a length of that log; reading it folds the parts from left to right. Addition is therefore
concatenation, and associative by construction. Parts are snapshots: changing a chunk after adding it changes no sum.
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
from foldline.messages.block_translators import standard_blocks
from foldline.messages.native_content import is_native, native_content
from foldline.protocol.merge import add_usage, copy_json

__all__ = ["ChunkLog", "Held", "Part", "slice_part", "snapshot"]

Part = str | dict[str, Any]
"""What a chunk says: its text if it says nothing else, else its fields."""

STANDARD = {"output_version": "v1"}
DERIVED = frozenset({"tool_calls", "invalid_tool_calls", "type"})
MERGED = {"response_metadata": merge_metadata, "additional_kwargs": merge_kwargs}
CHUNK_TYPES = frozenset({"tool_call_chunk", "server_tool_call_chunk"})


def snapshot(fields: dict[str, Any], extra: dict[str, Any] | None) -> Part:
    """Keep what a chunk says now, shared with nobody."""
    content = fields.get("content", "")
    part = {
        name: copy_json(value)
        for name, value in fields.items()
        if value and name not in DERIVED and not (name == "status" and value == "complete")
    }
    part.setdefault("content", [] if content == [] else "")
    if extra:
        part["__extra__"] = dict(extra)
    return part


def slice_part(fields: dict[str, Any]) -> Part | None:
    """Keep what a chunk says that is one slice of a call, perhaps with an id; None for any other chunk."""
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

    __slots__ = ("_calls", "_content", "_fields", "_names", "_waiting", "folded")

    def __init__(self) -> None:
        self.folded = 0
        self._content = ContentGrowth()
        self._calls = CallsGrowth()
        self._fields: dict[str, Any] = {}
        self._names: dict[str, None] = {}
        self._waiting: dict[str, list[dict[str, Any]]] = {name: [] for name in MERGED}

    def fold(self, parts: Iterable[Part]) -> None:
        """Take in parts, in order."""
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
                self._forget()
            self._content.add(fields["content"])
            self._take(fields)
        self._content.add("".join(texts))

    def _forget(self) -> None:
        """Drop all that was said: the model begins again (`on_partial="reset"`)."""
        folded = self.folded
        self.__init__()  # type: ignore[misc]
        self.folded = folded

    def value(self, name: str) -> Any:  # noqa: ANN401  the type depends on the field
        """Return one field of the sum, or None where no part says anything of it."""
        if name == "content":
            return self._form()[0]
        if name == "tool_call_chunks":
            return self._calls.chunks()
        if name in ("tool_calls", "invalid_tool_calls"):
            parsed = self._calls.final() if self.is_last else self._calls.parsed()
            return parsed[name == "invalid_tool_calls"]
        if name in MERGED:
            beside = self._form()[1] if name == "additional_kwargs" and self.is_last else {}
            return {**self._merged(name), **beside}
        if name == "__names__":
            return [field for field in self._names if field != "__extra__"]
        return copy_json(self._fields.get(name))

    @property
    def is_last(self) -> bool:
        """Whether the stream said that nothing more comes."""
        return self._fields.get("chunk_position") == "last"

    def _form(self) -> tuple[str | list[Any], dict[str, Any]]:
        """Return the content, and what stands beside it: once the message is whole, in its provider's words (v0)."""
        content = self._joined_content()
        if not self.is_last:
            return content, {}
        metadata = self._merged("response_metadata")
        if metadata.get("output_version") == "v1" or not is_native(metadata):
            return content, {}
        calls = [call for some in self._calls.final() for call in some]
        blocks: Any = standard_blocks(content, None, metadata=STANDARD, calls=calls)
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
        waiting = self._waiting[name]
        if not waiting:
            return {}
        whole = reduce_pairs(MERGED[name], waiting)
        self._waiting[name] = [whole]
        return copy_json(whole)  # type: ignore[no-any-return]

    def _take(self, part: dict[str, Any]) -> None:
        for name, value in part.items():
            if name == "content":
                continue
            if name == "id" and self._fields.get("id") == value:
                continue
            self._names[name] = None
            if name == "tool_call_chunks":
                for chunk in value:
                    self._calls.add(chunk)
            elif name in MERGED:
                self._wait(self._waiting[name], value)
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
    def _wait(waiting: list[dict[str, Any]], value: dict[str, Any]) -> None:
        # Providers repeat the model's name on every chunk: merging equal scalars changes nothing.
        if waiting and waiting[-1] == value and _is_flat(value):
            return
        waiting.append(value)


def _final_block(item: dict[str, Any]) -> dict[str, Any]:
    """Promote a call that has grown to its end: its place in the stream says nothing more."""
    final = final_call(item)
    if final["type"] not in ("tool_call", "invalid_tool_call"):
        return (
            final if final.get("id") is not None else {k: v for k, v in final.items() if k != "id"}
        )
    return {key: value for key, value in final.items() if key != "index"}


def _is_flat(value: dict[str, Any]) -> bool:
    return all(str(key).startswith("model") or key == "output_version" for key in value)


class ChunkLog:
    """Parts in the order they were added, and the fold of some of them."""

    __slots__ = ("_spare", "id", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        first = parts[0]
        self.id: str | None = (
            None if type(first) is str else cast("dict[str, Any]", first).get("id")
        )
        """The id that the first part said: a part which only repeats it is plain text."""
        self._spare: list[ChunkSum] = []

    def append(self, length: int, part: Part) -> ChunkLog:
        """Return a log that holds the first `length` parts and then `part`: this one, if nobody added to it."""
        parts = self.parts
        if len(parts) == length:
            parts.append(part)
            if parts[length] is part:  # else another thread was faster
                return self
        return ChunkLog([*parts[:length], part])

    def read(self, length: int, names: Iterable[str]) -> list[Any]:
        """Return fields of the sum of the first `length` parts."""
        try:
            folded = self._spare.pop()  # taken out, so that two threads never fold one sum
        except IndexError:
            folded = ChunkSum()
        if folded.folded > length:  # an older sum is read after a newer one
            self._spare.append(folded)
            folded = ChunkSum()
            folded.fold(self.parts[:length])
            return [folded.value(name) for name in names]
        if folded.folded < length:
            folded.fold(self.parts[folded.folded : length])
        values = [folded.value(name) for name in names]
        self._spare[:] = [folded]
        return values


Held: TypeAlias = tuple[ChunkLog, int] | tuple[ChunkLog, int, Literal["read"]]
"""What a sum holds: a log, how much of it, and whether any field of the sum was read."""
