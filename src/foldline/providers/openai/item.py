"""What every item of a response has in common: who it is, what it said. An item that nobody knows is kept whole."""

from __future__ import annotations

from typing import Any

from foldline.messages.block_translators import openai as translator
from foldline.messages.block_translators.common import non_standard
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter

__all__ = ["Item", "Native", "StreamedText", "identity"]

Native = dict[str, Any]


class Item:
    """An item that nobody knows: kept whole when it is done."""

    is_client_call = False
    has_refused = False

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        self.writer = writer
        self.native = native
        self.key = key
        self.id: str | None = native.get("id")
        self.logprobs: list[Any] = []
        self.index: int | None = None
        """Its place in the output, as far as it was told."""
        self.is_done = False
        self.is_guess = False
        """Whether nobody announced the item: its type is guessed from an event about it."""

    def begin(self) -> list[Event]:
        """The item was added."""
        return []

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take an event about the item; progress reports say nothing."""
        return []

    def done(self, native: Native) -> list[Event]:
        """The item is complete."""
        events: list[Event] = []
        for block in translator.translate(native) or [non_standard(native)]:
            events += self.writer.block(block, whole=True)
        return events

    def close(self) -> list[Event]:
        """The response ended before the item did."""
        return []


class StreamedText:
    """The slices of one text so far; its end may say more than they did (T15)."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._slices)

    @property
    def text(self) -> str:
        """What was said."""
        return "".join(self._slices)

    def add(self, piece: str) -> None:
        """Take a slice."""
        self._slices.append(piece)

    def remaining(self, final: object) -> str:
        """Return what the end says beyond the slices; nothing where it says less: what was said cannot be unsaid."""
        said = self.text
        return final[len(said) :] if isinstance(final, str) and final.startswith(said) else ""


def identity(id: str | None, extras: Native, *, is_first: bool) -> tuple[str | None, Native]:
    """Return the first block of an item its id; further ones are blocks of their own, and say whose in `extras`."""
    if is_first or id is None:
        return id, extras
    return None, {**extras, "item_id": id}
