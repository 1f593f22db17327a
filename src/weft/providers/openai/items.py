"""The items of a response, each kind read by a class of its own: messages, reasoning, calls, tools the server ran."""

from __future__ import annotations

import json
from typing import Any

from weft.messages.block_translators import openai as translator
from weft.messages.block_translators.common import non_standard
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter
from weft.providers.openai.wire import SERVER_TOOLS

__all__ = ["Item", "item_reader"]

Json = Any
Native = dict[str, Json]


class Item:
    """An item that nobody knows: kept whole when it is done."""

    is_client_call = False
    has_refused = False

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        self.writer = writer
        self.native = native
        self.key = key
        self.id: str | None = native.get("id")
        self.logprobs: list[Json] = []

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


class MessageItem(Item):
    """What the model says: parts of text, and refusals."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._said: set[int] = set()
        self._noted: dict[int, int] = {}
        self._closed: set[int] = set()

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take a slice of text, an annotation, or the end of a part."""
        place = data.get("content_index") or 0
        if name == "output_text.delta":
            return self._text(place, data.get("delta") or "")
        if name == "output_text.annotation.added":
            return self._annotate(place, [data.get("annotation")])
        if name == "refusal.delta":
            return self._refuse(place, data.get("delta") or "")
        if name == "content_part.done":
            return self._part_done(place, data.get("part") or {})
        return []

    def _text(self, place: int, text: str) -> list[Event]:
        key = (self.key, place)
        if place in self._said:
            return self.writer.text(text, key)
        if not text:
            return []
        phase = self.native.get("phase")
        extras: Native = {"phase": phase} if phase and place == 0 else {}
        id, extras = _identity(self.id, extras, is_first=not self._said)
        self._said.add(place)
        return self.writer.text(text, key, id, **({"extras": extras} if extras else {}))

    def _annotate(self, place: int, notes: list[Json]) -> list[Event]:
        if not notes or place not in self._said:
            return []
        self._noted[place] = self._noted.get(place, 0) + len(notes)
        (text,) = translator.translate({"type": "text", "text": "", "annotations": notes}) or [{}]
        return self.writer.fields(
            {"annotations": text["annotations"]}, (self.key, place), kind="text"
        )

    def _refuse(self, place: int, text: str) -> list[Event]:
        if not text:
            return []
        self.has_refused = True
        block: Native = {"type": "non_standard", "value": {"type": "refusal", "refusal": text}}
        if place not in self._said:
            id, extras = _identity(self.id, {}, is_first=not self._said)
            block |= {"id": id, **({"extras": extras} if extras else {})}
        self._said.add(place)
        return self.writer.block(block, (self.key, place))

    def _part_done(self, place: int, part: Native) -> list[Event]:
        """End a part; say what the stream did not."""
        if place in self._closed:
            return []
        events: list[Event] = []
        if part.get("type") == "refusal":
            if place not in self._said:
                events += self._refuse(place, part.get("refusal") or "")
        elif place not in self._said:
            events += self._text(place, part.get("text") or "")
        notes = part.get("annotations") or []
        events += self._annotate(place, notes[self._noted.get(place, 0) :])
        self.logprobs += part.get("logprobs") or []
        self._closed.add(place)
        return events + self._close(place)

    def _close(self, place: int) -> list[Event]:
        return self.writer.close((self.key, place))

    def done(self, native: Native) -> list[Event]:
        """End the parts that have not ended."""
        self.native = {
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
        """End what is open."""
        return [
            event for place in sorted(self._said - self._closed) for event in self._close(place)
        ]


class ReasoningItem(Item):
    """What the model thinks: each part of its summary is a block; the last one takes what comes with the end."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._said: list[tuple[str, int]] = []

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take a slice of a summary, or of the reasoning itself."""
        if name == "reasoning_summary_text.delta":
            return self._say("summary", data.get("summary_index") or 0, data.get("delta"))
        if name == "reasoning_text.delta":
            return self._say("content", data.get("content_index") or 0, data.get("delta"))
        return []

    def _say(self, kind: str, place: int, text: str | None) -> list[Event]:
        part = (kind, place)
        key = (self.key, kind, place)
        if part in self._said:
            return self.writer.reasoning(text, key)
        events = self._close_last()
        extras: Native = {"part": "content"} if kind == "content" else {}
        id, extras = _identity(self.id, extras, is_first=not self._said)
        self._said.append(part)
        return events + self.writer.reasoning(text, key, id, extras or None)

    def _close_last(self) -> list[Event]:
        return (
            self.writer.close((self.key, *self._said[-1]), kind="reasoning") if self._said else []
        )

    def done(self, native: Native) -> list[Event]:
        """Add what only the end tells: the encrypted reasoning, for the next turn."""
        events: list[Event] = []
        for kind in ("summary", "content"):
            for place, part in enumerate(native.get(kind) or ()):
                if (kind, place) not in self._said:
                    events += self._say(kind, place, part.get("text"))
        told = ("id", "type", "summary", "content")
        extras = {
            name: value for name, value in native.items() if name not in told and value is not None
        }
        if extras.get("status") == "completed":
            del extras["status"]
        if not self._said:
            self._said.append(("summary", 0))
            events += self.writer.reasoning(None, (self.key, "summary", 0), self.id, extras or None)
        elif extras:
            events += self.writer.fields(
                {"extras": extras}, (self.key, *self._said[-1]), kind="reasoning"
            )
        return events + self._close_last()

    def close(self) -> list[Event]:
        """End what is open."""
        return self._close_last()


class CallItem(Item):
    """A call of one of the client's tools: a function, or one that takes free text."""

    is_client_call = True
    field = "arguments"

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._has_said = False

    def begin(self) -> list[Event]:
        """Announce the call, if its name is known."""
        return self._announce(self.native) if self.native.get("name") else []

    def _announce(self, native: Native) -> list[Event]:
        told = ("call_id", "name", "type", self.field, "id", "status")
        extras = {
            name: value for name, value in native.items() if name not in told and value is not None
        }
        if native.get("id") and native.get("call_id"):
            extras["item_id"] = native["id"]
        id = native.get("call_id") or native.get("id")
        return self.writer.tool_call(
            (self.key, "call"), id, native.get("name"), None, {**self._marks(), **extras}
        )

    def _marks(self) -> Native:
        return {}

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take a slice of the arguments."""
        if name != "function_call_arguments.delta" or not data.get("delta"):
            return []
        self._has_said = True
        return self.writer.tool_call((self.key, "call"), args=data["delta"])

    def done(self, native: Native) -> list[Event]:
        """End the call."""
        events: list[Event] = []
        if not self.native.get("name"):
            events += self._announce(native)
        if not self._has_said:
            events += self.writer.tool_call((self.key, "call"), args=self._args(native))
        return events + self.close()

    def _args(self, native: Native) -> str:
        return native.get("arguments") or ""

    def close(self) -> list[Event]:
        """End the call where it stands; arguments that are cut short make it invalid."""
        return self.writer.close((self.key, "call"), kind="tool_call")


class CustomCallItem(CallItem):
    """A call of a tool that takes free text; the text is its one argument."""

    field = "input"

    def _marks(self) -> Native:
        return {"type": "custom_tool_call"}

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take a slice of the text, as JSON."""
        if name != "custom_tool_call_input.delta":
            return []
        head = "" if self._has_said else '{"__arg1": "'
        self._has_said = True
        return self.writer.tool_call(
            (self.key, "call"), args=head + _escaped(data.get("delta") or "")
        )

    def _args(self, native: Native) -> str:
        return json.dumps({"__arg1": native.get("input") or ""}, ensure_ascii=False)

    def done(self, native: Native) -> list[Event]:
        """End the text, then the call."""
        said = self.writer.tool_call((self.key, "call"), args='"}') if self._has_said else []
        return said + super().done(native)


class ServerCallItem(Item):
    """A tool that the server ran: the call, and what it returned."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._tool = SERVER_TOOLS[native["type"]][0]
        self._has_said = False

    def begin(self) -> list[Event]:
        """Announce the call."""
        return self.writer.tool_call((self.key, "call"), self.id, self._tool, server=True)

    def feed(self, name: str, data: Native) -> list[Event]:
        """Take a slice of the arguments: JSON for MCP, code for the interpreter."""
        delta = data.get("delta")
        if not delta:
            return []
        if name == "mcp_call_arguments.delta":
            head, piece = "", delta
        elif name == "code_interpreter_call_code.delta":
            head, piece = "" if self._has_said else '{"code": "', _escaped(delta)
        else:
            return []
        self._has_said = True
        return self.writer.tool_call((self.key, "call"), args=head + piece, server=True)

    def done(self, native: Native) -> list[Event]:
        """End the call and tell its result."""
        call, *results = translator.translate(native) or [{}]
        key, events = (self.key, "call"), []
        if self._has_said and native["type"] == "code_interpreter_call":
            events += self.writer.tool_call(key, args='"}', server=True)
        elif not self._has_said:
            events += self.writer.tool_call(key, args=call.get("args") or {}, server=True)
        if call.get("extras"):
            events += self.writer.fields({"extras": call["extras"]}, key, kind="server_tool_call")
        events += self.close()
        for result in results:
            if native.get("error") is not None:
                result["output"] = native["error"]
            events += self.writer.block(result, whole=True)
        return events

    def close(self) -> list[Event]:
        """End the call where it stands."""
        return self.writer.close((self.key, "call"), kind="server_tool_call")


class ImageItem(Item):
    """A picture that the server made; sketches on the way are not part of the message."""

    def begin(self) -> list[Event]:
        """Announce the picture."""
        return self.writer.block({"type": "image", "id": self.id}, (self.key, "image"))

    def done(self, native: Native) -> list[Event]:
        """Show the picture."""
        (block,) = translator.translate(native) or [{}]
        return self.writer.block(block, (self.key, "image")) + self.close()

    def close(self) -> list[Event]:
        """End the picture where it stands."""
        return self.writer.close((self.key, "image"), kind="image")


READERS: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "custom_tool_call": CustomCallItem,
    "image_generation_call": ImageItem,
    **dict.fromkeys(SERVER_TOOLS, ServerCallItem),
}


def item_reader(native: Native) -> type[Item]:
    """Choose the class that reads an item."""
    return READERS.get(str(native.get("type")), Item)


def _identity(id: str | None, extras: Native, *, is_first: bool) -> tuple[str | None, Native]:
    """Give the first block of an item its id; further ones are blocks of their own, and say whose in `extras`."""
    if is_first or id is None:
        return id, extras
    return None, {**extras, "item_id": id}


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
