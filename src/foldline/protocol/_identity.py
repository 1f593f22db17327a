"""Decides which block a part of a message belongs to.

A part identifies its block by kind, provider index and id, each of which may be missing, repeated or wrong. The rules:

- int 0 and "0" are one index; text at 0 and a tool at 0 are two blocks.
- The same index with another id is another block; the same id with another index is the same block.
- Without an index a part continues the open block of its kind, unless an id (or, for a call, a new name after complete
  arguments) differs. A block without an index ends when another block is written: text, tool, text are three blocks.
- A tuple is an identity that a decoder made: it is used as it is, and ids are not compared.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeAlias

from foldline.exceptions import MalformedStreamError
from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.utils._base64 import Base64Joiner
from foldline.utils.json import SurrogateJoiner

Key: TypeAlias = int | str | tuple[Hashable, ...]
"""A provider's index, or an identity that a decoder made."""

CALL_KINDS: Final = frozenset({"tool_call", "server_tool_call"})
KINDS: Final = {
    "tool_call_chunk": "tool_call",
    "invalid_tool_call": "tool_call",
    "server_tool_call_chunk": "server_tool_call",
}
"""Block types that are stages of another kind; every other type is its own kind."""

MAX_PARSES: Final = 16
"""How often the arguments of one call are parsed to see whether they are complete; keeps unusual streams linear."""


def kind_of(block_type: str) -> str:
    """Return the kind of a block type: all stages of a call are one kind."""
    return KINDS.get(block_type, block_type)


class GrowingBlock:
    """A block that is being written: its identity and its content so far."""

    __slots__ = (
        "content",
        "id",
        "index",
        "is_finished",
        "joiner",
        "key",
        "kind",
        "parse_count",
        "parsed_parts",
        "parts",
        "pending_text",
        "streams",
    )

    def __init__(self, kind: str, key: Key | None, content: dict[str, Any]) -> None:
        self.kind: str = kind
        self.key: Key | None = key
        self.content: dict[str, Any] = content
        self.id: str | None = None
        self.index: int = -1
        """The index on the wire; -1 until the block is sent."""
        self.parts: list[str] = []
        self.pending_text: str = ""
        """Text that is held back: a leading `null` of a call, or the first slice of a picture."""
        self.joiner: SurrogateJoiner | Base64Joiner | None = None
        self.is_finished: bool = False
        self.streams: bool = False
        self.parse_count: int = 0
        self.parsed_parts: int = -1
        """The number of `parts` when they were last seen to be complete JSON."""

    @property
    def is_unindexed(self) -> bool:
        """Whether the block has no index by which later parts can refer to it."""
        return self.key is None

    @property
    def is_started(self) -> bool:
        """Whether the block was sent."""
        return self.index >= 0

    def has_complete_args(self) -> bool:
        """Return whether the arguments so far are one complete JSON object."""
        if not self.parts or not self.parts[-1].rstrip().endswith("}"):
            return False
        if self.parsed_parts == len(self.parts):
            return True
        if self.parse_count >= MAX_PARSES:
            return False
        self.parse_count += 1
        self.parts[:] = ["".join(self.parts)]
        if isinstance(parse_tool_args(self.parts[0]), str):
            return False
        self.parsed_parts = len(self.parts)
        return True


class BlockRegistry:
    """Finds the block a part belongs to, and assigns the indexes on the wire in order."""

    __slots__ = ("_by_id", "_by_key", "_latest", "_next", "last_written", "open")

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, Hashable], GrowingBlock] = {}
        self._by_id: dict[tuple[str, str], GrowingBlock] = {}
        self._latest: dict[str, GrowingBlock] = {}
        self._next = 0
        self.open: dict[int, GrowingBlock] = {}
        """Blocks that were sent and not finished, by their index on the wire."""
        self.last_written: GrowingBlock | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no block yet."""
        return not self._latest

    def find(
        self, kind: str, key: Key | None, id: str | None, *, name: str | None = None, args: str = ""
    ) -> GrowingBlock | None:
        """Return the open block a part belongs to, or None if it begins a new one."""
        if key is None:
            return self._find_unindexed(kind, id, name, args)
        block = self._by_key.get((kind, normal_key(key)))
        if block is not None and not block.is_finished:
            if isinstance(key, tuple):
                return block
            if _same_id(block, id) and not (not id and _is_next_call(block, name, args)):
                return block
        if id is None or isinstance(key, tuple):
            return None
        return self.find_open(kind, id)

    def _find_unindexed(
        self, kind: str, id: str | None, name: str | None, args: str
    ) -> GrowingBlock | None:
        if (block_of_id := self.find_open(kind, id)) is not None:
            return block_of_id
        block = self._latest.get(kind)
        if block is None or block.is_finished or not _same_id(block, id):
            return None
        if kind in CALL_KINDS:
            return None if self._is_another_call(block, name, args) else block
        # Another block was written since: a block of text with an index is still open, but this part is not for it.
        return block if self.last_written in (block, None) or not block.is_started else None

    def _is_another_call(self, block: GrowingBlock, name: str | None, args: str) -> bool:
        if name and name != block.content.get("name") and block.parts:
            return True
        return _is_next_call(block, name, args)

    def find_open(self, kind: str, id: str | None) -> GrowingBlock | None:
        """Return the open block that has this id."""
        block = self._by_id.get((kind, id)) if id else None
        return None if block is None or block.is_finished else block

    def remember(self, block: GrowingBlock, key: Key | None, id: str | None) -> None:
        """Make a block known by this key and id from now on; the first id it gets stays its id."""
        self._latest[block.kind] = block
        if key is not None:
            self._by_key[(block.kind, normal_key(key))] = block
        if id and block.id is None:
            block.id = id
            if not isinstance(key, tuple):
                self._by_id[(block.kind, id)] = block

    def begin(self, block: GrowingBlock) -> int:
        """Place a block that has neither key nor id."""
        self._latest[block.kind] = block
        return self.place(block)

    def place(self, block: GrowingBlock) -> int:
        """Assign a block its index on the wire."""
        index = block.index = self._next
        self._next = index + 1
        self.open[index] = block
        return index

    def finish(self, block: GrowingBlock) -> None:
        """Remove a block from the open ones; it is never found again."""
        block.is_finished = True
        self.open.pop(block.index, None)

    def at(self, key: Key | None, kind: str | None) -> list[GrowingBlock]:
        """Return the open blocks meant by a key, a kind, both, or neither (the block written last)."""
        if key is None and kind is None:
            last = self.last_written
            return [] if last is None or last.is_finished else [last]
        if key is None and kind is not None:
            latest = self._latest.get(kind_of(kind))
            return [] if latest is None or latest.is_finished else [latest]
        kinds = [kind_of(kind)] if kind is not None else list(self._latest)
        normalized_key = normal_key(key) if key is not None else None
        candidates = (self._by_key.get((block_kind, normalized_key)) for block_kind in kinds)
        return [block for block in candidates if block is not None and not block.is_finished]


def normal_key(key: Key) -> Hashable:
    """Return an index in its canonical form: "0" is 0."""
    if isinstance(key, str):
        return int(key) if key.isdecimal() and key.isascii() and len(key) < 10 else key
    if isinstance(key, (int, tuple)):
        return key
    raise MalformedStreamError(f"the index of a block is a number or text, not {key!r:.80}")


def _same_id(block: GrowingBlock, id: str | None) -> bool:
    return not id or block.id is None or block.id == id


def _is_next_call(block: GrowingBlock, name: str | None, args: str) -> bool:
    """Return whether a call begins where another is complete: no index, no id, only a name to tell them apart."""
    if block.kind not in CALL_KINDS or not name or not block.has_complete_args():
        return False
    return name != block.content.get("name") or bool(args)
