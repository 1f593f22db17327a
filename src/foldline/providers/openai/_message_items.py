"""Message and reasoning items of a response, and the table of item classes."""

from __future__ import annotations

from typing import Any, Final

from foldline.messages.block_translators import openai as translator
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.providers.openai._base_item import Item, Native, StreamedText, identity
from foldline.providers.openai._call_items import (
    CallItem,
    CustomCallItem,
    ImageItem,
    ServerCallItem,
)
from foldline.providers.openai._wire import SERVER_TOOLS

__all__ = ["Item", "item_reader"]

TEXT_PARTS: Final = frozenset({"output_text", "text", "input_text", None})
"""Types of parts of a message that are text; some servers omit the type."""


class MessageItem(Item):
    """A message: parts of text, refusals, and unknown parts."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._texts: dict[int, StreamedText] = {}
        self._annotation_counts: dict[int, int] = {}
        self._closed: set[int] = set()

    def feed(self, name: str, data: Native) -> list[Event]:
        """Return the events of a slice of text, an annotation, or the end of a part."""
        place = data.get("content_index") or 0
        if name == "output_text.delta":
            return self._text(place, data.get("delta") or "")
        if name == "output_text.annotation.added":
            return self._annotate(place, [data.get("annotation")])
        if name == "refusal.delta":
            return self._refuse(place, data.get("delta") or "")
        return [] if place in self._closed else self._end_of(name, place, data)

    def _end_of(self, name: str, place: int, data: Native) -> list[Event]:
        if name == "output_text.done":
            return self._text(place, self._remaining_text(place, data.get("text")))
        if name == "refusal.done":
            return self._refuse(place, self._remaining_text(place, data.get("refusal")))
        is_part = name == "content_part.done" and data.get("part")
        return self._part_done(place, data["part"]) if is_part else []

    def _remaining_text(self, place: int, final: str | None) -> str:
        streamed = self._texts.get(place)
        return (final or "") if streamed is None else streamed.remaining(final)

    def _text(self, place: int, text: str) -> list[Event]:
        if not text:
            return []
        key = (self.key, place)
        if place in self._texts:
            self._texts[place].add(text)
            return self.writer.text(text, key)
        phase = self.native.get("phase")
        extras: Native = {"phase": phase} if phase and place == 0 else {}
        id, extras = self._begin(place, extras)
        self._texts[place].add(text)
        return self.writer.text(text, key, id, **({"extras": extras} if extras else {}))

    def _begin(self, place: int, extras: Native) -> tuple[str | None, Native]:
        is_first = not self._texts
        self._texts[place] = StreamedText()
        return identity(self.id, extras, is_first=is_first)

    def _annotate(self, place: int, annotations: list[Any]) -> list[Event]:
        if not annotations or place not in self._texts:
            return []
        self._annotation_counts[place] = self._annotation_counts.get(place, 0) + len(annotations)
        (text,) = translator.translate(
            {"type": "text", "text": "", "annotations": annotations}
        ) or [{}]
        return self.writer.fields(
            {"annotations": text["annotations"]}, (self.key, place), kind="text"
        )

    def _refuse(self, place: int, text: str) -> list[Event]:
        if not text:
            return []
        self.has_refused = True
        block: Native = self._block_name(place) if place not in self._texts else {}
        self._texts[place].add(text)
        return self.writer.refusal(text, (self.key, place), **block)

    def _block_name(self, place: int) -> Native:
        id, extras = self._begin(place, {})
        return {**({"id": id} if id else {}), **({"extras": extras} if extras else {})}

    def _part_done(self, place: int, part: Native) -> list[Event]:
        """Return the events that end a part, including text that was not streamed."""
        if place in self._closed:
            return []
        kind = part.get("type")
        events: list[Event] = []
        if kind == "refusal":
            events += self._refuse(place, self._remaining_text(place, part.get("refusal")))
        elif kind in TEXT_PARTS or place in self._texts:
            events += self._text(place, self._remaining_text(place, part.get("text")))
        else:
            block = {"type": "non_standard", "value": part, **self._block_name(place)}
            events += self.writer.block(block, (self.key, place))
        annotations = part.get("annotations") if kind in TEXT_PARTS else None
        events += self._annotate(
            place, (annotations or [])[self._annotation_counts.get(place, 0) :]
        )
        self.logprobs += part.get("logprobs") or []
        self._closed.add(place)
        return events + self._close(place)

    def _close(self, place: int) -> list[Event]:
        return self.writer.close((self.key, place))

    def done(self, native: Native) -> list[Event]:
        """Return the events that end all open parts."""
        self.native: dict[str, Any] = {
            **native,
            **{name: value for name, value in self.native.items() if value is not None},
        }
        if native.get("phase"):
            self.native["phase"] = native["phase"]
        events: list[Event] = []
        for place, part in enumerate(native.get("content") or ()):
            events += self._part_done(place, part)
        return events + self.close()

    def close(self) -> list[Event]:
        """Return the events that end open blocks."""
        return [
            event
            for place in sorted(self._texts.keys() - self._closed)
            for event in self._close(place)
        ]


class ReasoningItem(Item):
    """Reasoning: each part of its summary is a block; the last one gets the fields of the end."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._texts: dict[tuple[str, int], StreamedText] = {}
        self._last: tuple[str, int] | None = None
        """The open part; all others have ended."""

    def feed(self, name: str, data: Native) -> list[Event]:
        """Return the events of a slice, or of the final text, of a summary or of the reasoning itself."""
        if name == "reasoning_summary_text.delta":
            return self._write_text("summary", data.get("summary_index") or 0, data.get("delta"))
        if name == "reasoning_text.delta":
            return self._write_text("content", data.get("content_index") or 0, data.get("delta"))
        if name == "reasoning_summary_text.done":
            return self._write_remaining(
                "summary", data.get("summary_index") or 0, data.get("text")
            )
        if name == "reasoning_text.done":
            return self._write_remaining(
                "content", data.get("content_index") or 0, data.get("text")
            )
        return []

    def _write_text(self, kind: str, place: int, text: str | None) -> list[Event]:
        part = (kind, place)
        key = (self.key, kind, place)
        if part in self._texts:
            self._texts[part].add(text or "")
            return self.writer.reasoning(text, key)
        events = self._close_last()
        extras: Native = {"part": "content"} if kind == "content" else {}
        id, extras = identity(self.id, extras, is_first=not self._texts)
        self._texts[part], self._last = StreamedText(), part
        self._texts[part].add(text or "")
        return events + self.writer.reasoning(text, key, id, extras or None)

    def _write_remaining(self, kind: str, place: int, final: str | None) -> list[Event]:
        streamed = self._texts.get((kind, place))
        if streamed is None:
            return self._write_text(kind, place, final) if final else []
        remaining = streamed.remaining(final) if (kind, place) == self._last else ""
        return self._write_text(kind, place, remaining) if remaining else []

    def _close_last(self) -> list[Event]:
        if self._last is None:
            return []
        return self.writer.close((self.key, *self._last), kind="reasoning")

    def done(self, native: Native) -> list[Event]:
        """Return the events that end the item, with fields that only the end has, such as encrypted reasoning."""
        events: list[Event] = []
        for kind in ("summary", "content"):
            for place, part in enumerate(native.get(kind) or ()):
                is_new = (kind, place) not in self._texts
                write = self._write_text if is_new else self._write_remaining
                events += write(kind, place, part.get("text"))
        read_fields = ("id", "type", "summary", "content")
        extras = {
            name: value
            for name, value in native.items()
            if name not in read_fields and value is not None
        }
        if extras.get("status") == "completed":
            del extras["status"]
        if self._last is None:
            self._last = ("summary", 0)
            events += self.writer.reasoning(None, (self.key, *self._last), self.id, extras or None)
        elif extras:
            events += self.writer.fields(
                {"extras": extras}, (self.key, *self._last), kind="reasoning"
            )
        return events + self._close_last()

    def close(self) -> list[Event]:
        """Return the events that end open blocks."""
        return self._close_last()


READERS: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "custom_tool_call": CustomCallItem,
    "image_generation_call": ImageItem,
    **dict.fromkeys(SERVER_TOOLS, ServerCallItem),
}


def item_reader(native: Native) -> type[Item]:
    """Return the class of an item."""
    return READERS.get(str(native.get("type")), Item)
