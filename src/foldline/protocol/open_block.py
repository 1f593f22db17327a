"""A block that still grows, as the fold holds it: its fields, and the slices of its text in a list."""

from __future__ import annotations

from typing import Final, TypeAlias

from foldline.protocol.blocks import MEDIA_TYPES, Json
from foldline.protocol.events import DELTA_FIELDS
from foldline.protocol.folded import Bounds
from foldline.protocol.merge import copy_json
from foldline.utils.json import mend_surrogates

__all__ = ["EMPTY_TEXT", "EMPTY_VALUE", "Block", "OpenBlock", "weight"]

Block: TypeAlias = dict[str, Json]

EMPTY_TEXT: Final = {"type": "text", "text": ""}
"""How most blocks begin."""
EMPTY_VALUE: Final = {"type": "non_standard"}
"""How a block in a provider's own words begins: cut off there it says nothing."""

GROWS: Final[dict[str, str]] = {
    "text": "text-delta",
    "reasoning": "reasoning-delta",
    "tool_call_chunk": "tool-call-delta",
    "server_tool_call_chunk": "tool-call-delta",
    "tool_call": "tool-call-delta",
    "server_tool_call": "tool-call-delta",
    "text-plain": "text-delta",
    **dict.fromkeys(MEDIA_TYPES, "data-delta"),
}
"""The delta by which a block of each type grows; other types grow by whichever delta comes first."""


class OpenBlock:
    """A block that still grows: its fields, and its slices apart."""

    __slots__ = ("content", "delta", "field", "parts", "room")

    def __init__(self, content: Block, limits: Bounds) -> None:
        kind = content["type"]
        self.content = content
        self.delta = GROWS.get(kind, "")
        self.field, target = DELTA_FIELDS.get(self.delta, ("", ""))
        self.parts: list[str] = []
        # Only arguments have a bound of their own; other text is bounded by the message.
        self.room = limits.tool_args if target == "args" else limits.message
        if isinstance(said := content.get(target), str):
            if said:
                self.parts.append(said)
            elif target in ("reasoning", "base64"):
                content.pop(target)  # absent stays absent (T18)

    def so_far(self) -> Block:
        """Give the block with what it has said, copied."""
        block: Block = copy_json(self.content)
        if self.parts:
            if len(self.parts) > 1:
                self.parts[:] = ["".join(self.parts)]
            block[DELTA_FIELDS[self.delta][1]] = mend_surrogates(_without_half(self.parts[0]))
        return block

    def text(self) -> str:
        return "".join(self.parts)


def weight(value: Json) -> int:
    """Count the characters of the text in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        size = 0
        for key, item in value.items():
            if key != "type":
                size += len(str(key)) + (len(item) if type(item) is str else weight(item))
        return size
    if isinstance(value, list):
        return sum(map(weight, value))
    return 0


def _without_half(text: str) -> str:
    """Leave out the first half of a character whose second half has not come yet."""
    return text[:-1] if text and "\ud800" <= text[-1] <= "\udbff" else text
