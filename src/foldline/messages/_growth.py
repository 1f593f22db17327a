"""Merge the content of the pieces of a message. Adding a piece costs time proportional to the piece.

Blocks with the same kind and `index` are one block, unless their ids differ; blocks without an `index` stay separate.
The rule of each field is in `foldline.protocol.merge`; only appended text is collected here and joined on reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from foldline._lazy import publish
from foldline.protocol.merge import (
    RULES,
    append,
    copy_json,
    merge_block,
    merge_dicts,
    merge_metadata,
)
from foldline.utils.json import mend_surrogates

__all__ = [
    "BlockSum",
    "ContentGrowth",
    "grow_id",
    "id_rank",
    "merge_content",
    "merge_kwargs",
    "merge_metadata",
    "reduce_pairs",
]

Content = str | list[str | dict[Any, Any]]
T = TypeVar("T")

APPENDED = frozenset(field for field, rule in RULES.items() if rule is append)

merge_kwargs = merge_dicts


class BlockSum:
    """A block whose texts are stored as pieces until it is read."""

    __slots__ = ("fields", "pieces")

    def __init__(self, block: dict[str, Any]) -> None:
        self.fields: dict[str, Any] = copy_json(block)
        self.pieces: dict[str, list[str]] = {}

    def grow(self, part: dict[str, Any]) -> None:
        """Add a piece of this block."""
        fields = self.fields
        changes = {}
        for key, value in part.items():
            if key in APPENDED and type(value) is str and type(fields.get(key)) is str:
                self.pieces.setdefault(key, []).append(value)
            elif key not in fields or (value is not None and value != fields[key]):
                changes[key] = value
        if changes:
            if "name" in changes:  # whether a name is appended to depends on the arguments so far
                self._join()
            if str(changes.get("type", "")).endswith("_delta"):
                del changes["type"]  # `input_json_delta` is merged into its block
            merge_block(fields, changes)

    def value(self) -> dict[str, Any]:
        """Return a copy of the block so far."""
        self._join()
        block: dict[str, Any] = copy_json(self.fields)
        for key in APPENDED:
            if type(text := block.get(key)) is str and not text.isascii():
                block[key] = mend_so_far(text)
        return block

    def _join(self) -> None:
        for key, pieces in self.pieces.items():
            self.fields[key] += "".join(pieces)
        self.pieces.clear()


class ContentGrowth:
    """The content of a message that is being streamed."""

    __slots__ = ("_is_list", "_items", "_open")

    def __init__(self) -> None:
        self._items: list[list[str] | BlockSum] = []
        self._open: dict[str, list[BlockSum]] = {}  # by index, newest last
        self._is_list = False

    def add(self, content: Content) -> None:
        """Add the content of a piece."""
        if isinstance(content, str):
            self._add_text(content)
            return
        adopted = self._adopt_text(content) if self._items and not self._is_list else None
        self._is_list = True
        for item in content:
            if adopted is not None and item is adopted[0]:
                self._items.append(adopted[1])
            elif isinstance(item, str):
                self._items.append([item])
            elif isinstance(item, dict):
                self._add_block(item)

    def value(self) -> Content:
        """Return the content so far: a string while it is only text."""
        if not self._is_list:
            return self._run(0) if self._items else ""
        return [
            item.value() if isinstance(item, BlockSum) else self._run(place)
            for place, item in enumerate(self._items)
        ]

    def _run(self, place: int) -> str:
        pieces = self._items[place]
        assert isinstance(pieces, list)
        if len(pieces) > 1:
            pieces[:] = ["".join(pieces)]
        return mend_so_far(pieces[0])

    def _add_text(self, text: str) -> None:
        if not text:
            return
        tail = self._items[-1] if self._items else None
        if isinstance(tail, list):
            tail.append(text)
        else:
            self._items.append([text])

    def _adopt_text(
        self, content: list[str | dict[Any, Any]]
    ) -> tuple[dict[Any, Any], BlockSum] | None:
        # An indexed text block that starts empty absorbs the plain text before it: this is how a stream that began
        # as plain text continues as blocks (see `_view`). Only blocks with lower indexes may precede it.
        preceding: list[Any] = []
        for item in content:
            index = item.get("index") if isinstance(item, dict) else None
            if index is None or not isinstance(item, dict):
                return None
            if item.get("type") == "text" and item.get("text") == "":
                if not all(
                    type(previous) is type(index) and previous < index for previous in preceding
                ):
                    return None
                block = BlockSum({**item, "text": self._run(0)})
                self._items.clear()
                self._open[str(index)] = [block]
                return item, block
            preceding.append(index)
        return None

    def _add_block(self, item: dict[str, Any]) -> None:
        index = item.get("index")
        if index is None:
            self._items.append(BlockSum(item))
            return
        same_index = self._open.setdefault(str(index), [])
        for block in reversed(same_index):
            if _continues(block.fields, item):
                block.grow(item)
                return
        block = BlockSum(item)
        same_index.append(block)
        self._items.append(block)


def _continues(block: dict[str, Any], part: dict[str, Any]) -> bool:
    kind, part_kind = block.get("type"), part.get("type")
    if kind != part_kind and part_kind is not None and not str(part_kind).endswith("_delta"):
        return False
    block_id, part_id = block.get("id"), part.get("id")
    return not block_id or not part_id or block_id == part_id


def mend_so_far(text: str) -> str:
    """Join surrogate pairs that were split between pieces; a lone one at the end is kept for the next piece."""
    if text.isascii():
        return text
    if "\ud800" <= text[-1] <= "\udbff":
        return mend_surrogates(text[:-1]) + text[-1]
    return mend_surrogates(text)


def merge_content(first_content: Content, *contents: Content) -> Content:
    """Return the merged content of several pieces."""
    growth = ContentGrowth()
    for content in (first_content, *contents):
        growth.add(content)
    return growth.value()


def id_rank(id: str) -> int:
    """Return the rank of an id: 0 for a provider's, 1 for one of a run, 2 for a generated one."""
    if id.startswith(("lc_run-", "run-")):
        return 1
    return 2 if id.startswith("lc_") else 0


def grow_id(left: str | None, right: str | None) -> str | None:
    """Return the first id of the best rank."""
    if not left or not right:
        return left or right
    return right if id_rank(right) < id_rank(left) else left


def reduce_pairs(merge: Callable[[T, T], T], items: Sequence[T]) -> T:
    """Merge items pairwise, then the results: with an associative merge that copies, this costs n log n, not n²."""
    while len(items) > 1:
        pairs = [merge(items[index], items[index + 1]) for index in range(0, len(items) - 1, 2)]
        items = pairs if len(items) % 2 == 0 else [*pairs, items[-1]]
    return items[0]


publish("foldline.messages", merge_content)
