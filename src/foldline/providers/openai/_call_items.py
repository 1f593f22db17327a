"""Items that call a tool of the client, or one that the server ran."""

from __future__ import annotations

import json
from typing import Final

from foldline.exceptions import MalformedStreamError
from foldline.messages.block_translators import openai as translator
from foldline.protocol.events import Event
from foldline.protocol.tool_call_parser import parse_tool_args
from foldline.protocol.writer import EventWriter
from foldline.providers.openai._base_item import Item, Native, StreamedText
from foldline.providers.openai._wire import SERVER_TOOLS

__all__ = ["CallItem", "CustomCallItem", "ImageItem", "ServerCallItem"]

STREAMED_ARGUMENTS: Final = {
    "mcp_call": ("mcp_call_arguments", "arguments"),
    "code_interpreter_call": ("code_interpreter_call_code", "code"),
}
"""Server tools whose arguments are streamed: item type -> (name of the events, field of the item)."""


class CallItem(Item):
    """A call of one of the client's tools: a function or a custom tool."""

    is_client_call = True
    event = "function_call_arguments"
    field = "arguments"

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._streamed = StreamedText()

    def begin(self) -> list[Event]:
        """Return the events that start the call, if its name is known."""
        return self._announce(self.native) if self.native.get("name") else []

    def _announce(self, native: Native) -> list[Event]:
        extras = {**self._type_extras(), **self._extra_fields(native)}
        if native.get("id") and native.get("call_id"):
            extras["item_id"] = native["id"]
        id = native.get("call_id") or native.get("id")
        return self.writer.tool_call((self.key, "call"), id, native.get("name"), None, extras)

    def _extra_fields(self, native: Native) -> Native:
        """Return the fields of a call that a block has no field for."""
        read_fields = ("call_id", "name", "type", self.field, "id", "status")
        return {
            name: value
            for name, value in native.items()
            if name not in read_fields and value is not None
        }

    def _type_extras(self) -> Native:
        return {}

    def feed(self, name: str, data: Native) -> list[Event]:
        """Return the events of a slice of the arguments, or of all of them."""
        if name == f"{self.event}.delta":
            return self._write_text(data.get("delta") or "")
        if name == f"{self.event}.done":
            return self._write_text(self._streamed.remaining(data.get(self.field)))
        return []

    def _write_text(self, text: str) -> list[Event]:
        if not text:
            return []
        piece = self._as_json(text)
        self._streamed.add(text)
        return self.writer.tool_call((self.key, "call"), args=piece)

    def _as_json(self, text: str) -> str:
        return text

    def done(self, native: Native) -> list[Event]:
        """Return the events that end the call, including fields that only the end has."""
        events = (
            self._write_late_fields(native) if self.native.get("name") else self._announce(native)
        )
        self._check(native.get(self.field))
        events += self._write_text(self._streamed.remaining(native.get(self.field)))
        return events + self._conclude() + self.close()

    def _write_late_fields(self, native: Native) -> list[Event]:
        known_fields = self._extra_fields(self.native)
        late_fields = {
            name: value
            for name, value in self._extra_fields(native).items()
            if name not in known_fields
        }
        if not late_fields:
            return []
        return self.writer.fields({"extras": late_fields}, (self.key, "call"), kind="tool_call")

    def _check(self, final: str | None) -> None:
        """Raise if the final arguments differ from the streamed ones: it is unclear which are right."""
        streamed = self._streamed.text
        if not streamed or not final or final == streamed:
            return
        first, last = parse_tool_args(streamed), parse_tool_args(final)
        if isinstance(first, dict) and isinstance(last, dict) and first != last:
            raise MalformedStreamError(f"the call {self.id!r} was told twice, differently")

    def _conclude(self) -> list[Event]:
        return []

    def close(self) -> list[Event]:
        """Return the events that end the call now; incomplete arguments make it invalid."""
        return self.writer.close((self.key, "call"), kind="tool_call")


class CustomCallItem(CallItem):
    """A call of a custom tool; its text becomes the only argument, as JSON."""

    event = "custom_tool_call_input"
    field = "input"

    def _type_extras(self) -> Native:
        return {"type": "custom_tool_call"}

    def _as_json(self, text: str) -> str:
        return _escaped(text) if self._streamed else '{"__arg1": "' + _escaped(text)

    def _check(self, final: object) -> None:
        """Accept any text."""

    def _conclude(self) -> list[Event]:
        closing = '"}' if self._streamed else '{"__arg1": ""}'
        return self.writer.tool_call((self.key, "call"), args=closing)


class ServerCallItem(Item):
    """A tool that the server ran: the call and its result."""

    def __init__(self, writer: EventWriter, native: Native, key: str) -> None:
        super().__init__(writer, native, key)
        self._tool = SERVER_TOOLS[native["type"]][0]
        self._event, self._field = STREAMED_ARGUMENTS.get(native["type"], ("", ""))
        self._streamed = StreamedText()

    def begin(self) -> list[Event]:
        """Return the events that start the call."""
        return self.writer.tool_call((self.key, "call"), self.id, self._tool, server=True)

    def feed(self, name: str, data: Native) -> list[Event]:
        """Return the events of a slice of the arguments: JSON for MCP, code for the interpreter."""
        if self._event and name == f"{self._event}.delta":
            return self._write_text(data.get("delta") or "")
        return []

    def _write_text(self, text: str) -> list[Event]:
        if not text:
            return []
        piece = text
        if self._field == "code":
            piece = _escaped(text) if self._streamed else '{"code": "' + _escaped(text)
        self._streamed.add(text)
        return self.writer.tool_call((self.key, "call"), args=piece, server=True)

    def done(self, native: Native) -> list[Event]:
        """Return the events that end the call, and those of its result."""
        call, *results = translator.translate(native) or [{}]
        key = (self.key, "call")
        events = self._end_args(native, call)
        if call.get("extras"):
            events += self.writer.fields({"extras": call["extras"]}, key, kind="server_tool_call")
        events += self.close()
        for result in results:
            if native.get("error") is not None:
                result["output"] = native["error"]
            events += self.writer.block(result, is_complete=True)
        return events

    def _end_args(self, native: Native, call: Native) -> list[Event]:
        key = (self.key, "call")
        if not self._streamed:
            return self.writer.tool_call(key, args=call.get("args") or {}, server=True)
        events = self._write_text(self._streamed.remaining(native.get(self._field)))
        if self._field == "code":
            events += self.writer.tool_call(key, args='"}', server=True)
        return events

    def close(self) -> list[Event]:
        """Return the events that end the call now."""
        return self.writer.close((self.key, "call"), kind="server_tool_call")


class ImageItem(Item):
    """An image that the server generated; partial images are not part of the message."""

    def begin(self) -> list[Event]:
        """Return the events that start the image."""
        return self.writer.block({"type": "image", "id": self.id}, (self.key, "image"))

    def done(self, native: Native) -> list[Event]:
        """Return the events of the complete image."""
        (block,) = translator.translate(native) or [{}]
        return self.writer.block(block, (self.key, "image")) + self.close()

    def close(self) -> list[Event]:
        """Return the events that end the image now."""
        return self.writer.close((self.key, "image"), kind="image")


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
