"""The base class of items of a response. An item of an unknown type is kept unchanged."""

from __future__ import annotations

from typing import Any

from foldline.messages.block_translators import openai as translator
from foldline.messages.block_translators._common import non_standard
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter

__all__ = ["Item", "Native", "StreamedText", "identity"]

Native = dict[str, Any]


class Item:
    """An item of an unknown type: kept unchanged when it is done."""

    is_client_call = False
    has_refused = False

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        self.writer = writer
        self.native = native
        self.key = key
        self.id: str | None = native.get("id")
        self.logprobs: list[Any] = []
        self.index: int | None = None
        """Its position in the output, if known."""
        self.is_done = False
        self.is_guess = False
        """Whether the item was never added: its type is guessed from an event about it."""

    def begin(self) -> list[Event]:
        """Return the events for an item that was added."""
        return []

    def feed(self, name: str, data: Native) -> list[Event]:
        """Return our events for an event about the item; progress reports have none."""
        return []

    def done(self, native: Native) -> list[Event]:
        """Return the events for an item that is complete."""
        events: list[Event] = []
        for block in translator.translate(native) or [non_standard(native)]:
            events += self.writer.block(block, is_complete=True)
        return events

    def close(self) -> list[Event]:
        """Return the events for an item that is incomplete when the response ends."""
        return []


class StreamedText:
    """The slices of one text so far; the final text may be longer (T15)."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._slices)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._slices)

    def add(self, piece: str) -> None:
        """Add a slice."""
        self._slices.append(piece)

    def remaining(self, final: object) -> str:
        """Return the final text beyond the slices; "" if it does not begin with them."""
        streamed = self.text
        return (
            final[len(streamed) :] if isinstance(final, str) and final.startswith(streamed) else ""
        )


def identity(id: str | None, extras: Native, *, is_first: bool) -> tuple[str | None, Native]:
    """Return the id and extras of a block: the first of an item has its id, further ones have it in `extras`."""
    if is_first or id is None:
        return id, extras
    return None, {**extras, "item_id": id}
