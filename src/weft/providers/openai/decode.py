"""Responses -> events. A decoder is fed the events of a stream and gives ours; it does no I/O.

Items are known by their id (`output_index` may shift; where an id is strange, the index helps). `items.py` reads each
kind of item. A response that came whole is told as the stream it would have been: every item added, then done.
"""

from __future__ import annotations

from typing import Any

from weft.exceptions import MalformedStreamError, StreamTruncatedError
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter
from weft.providers._wire import Fail
from weft.providers.openai.items import Item, item_reader
from weft.providers.openai.wire import INCOMPLETE, KEPT, TERMINAL, decode_usage

__all__ = ["ResponsesDecoder"]

Json = Any


class ResponsesDecoder:
    """Turns one response into events."""

    def __init__(self, fail: Fail, *, provider: str = "openai", model: str | None = None) -> None:
        self._fail = fail
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._items: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._done: set[str] = set()
        self._sequence: int | None = None
        self._logprobs: list[Json] = []
        self._is_over = False

    def feed(self, data: Json, event: str = "message") -> list[Event]:
        """Take one event of the stream."""
        if not isinstance(data, dict):
            raise MalformedStreamError(f"an event is a JSON object, not {type(data).__name__}")
        if self._is_over:
            return []
        kind = data.get("type") or event
        self._count(data.get("sequence_number"))
        if kind in TERMINAL or (data.get("error") and "response" not in data):
            return self._end_with(kind, data)
        if kind.startswith("response.output_item."):
            return self._output_item(kind, data)
        if "response" in data:
            return self._start(data["response"] or {})
        name = kind.removeprefix("response.")
        if "item_id" not in data and "output_index" not in data:
            return self._aside(name, data)
        item, events = self._of(data)
        return events + item.feed(name, data)

    def whole(self, data: Json) -> list[Event]:
        """Take a response that came in one piece."""
        if not isinstance(data, dict) or not isinstance(data.get("output"), list):
            raise MalformedStreamError("the answer has no output: is this a Responses endpoint?")
        kind = {"failed": "response.failed", "incomplete": "response.incomplete"}.get(
            data.get("status") or ""
        )
        return self._start(data) + self._end_with(kind or "response.completed", {"response": data})

    def end(self, *, marked: bool) -> list[Event]:
        """The bytes ended: only a terminal event says that a response is complete."""
        if not self._is_over:
            raise StreamTruncatedError(
                "the stream ended without response.completed, .incomplete or .failed"
            )
        return []

    def _count(self, number: int | None) -> None:
        if number is None:
            return
        if self._sequence is not None and number != self._sequence + 1:
            raise MalformedStreamError(
                f"event {number} came after event {self._sequence}: something is missing or twice"
            )
        self._sequence = number

    def _start(self, response: dict[str, Json]) -> list[Event]:
        if self._writer.is_started:
            return []
        model = response.get("model")
        return self._writer.start(response.get("id"), {"model": model} if model else None)

    def _of(self, data: dict[str, Json]) -> tuple[Item, list[Event]]:
        """Find the item an event belongs to; one that was never added is added now."""
        id, index = data.get("item_id"), data.get("output_index")
        item = self._items.get(id) if id else None
        if item is None and index is not None:
            item = self._by_index.get(index)
        if item is not None:
            return item, []
        item = self._add({"id": id, "type": _type_of_event(data.get("type") or "")}, index)
        return item, item.begin()

    def _add(self, native: dict[str, Json], index: int | None) -> Item:
        id = str(native.get("id") or f"#{index if index is not None else len(self._items)}")
        item = item_reader(native)(self._writer, {**native, "id": native.get("id")}, id)
        self._items[id] = item
        if index is not None:
            self._by_index[index] = item
        return item

    def _output_item(self, kind: str, data: dict[str, Json]) -> list[Event]:
        native, index = data.get("item") or {}, data.get("output_index")
        id = str(native.get("id") or "")
        item = self._items.get(id)
        if item is None and kind.endswith(".done") and index is not None:
            item = self._by_index.get(index)
        events: list[Event] = []
        if item is None:
            item = self._add(native, index)
            events += item.begin()
        if kind.endswith(".done") and item.key not in self._done:
            self._done.add(item.key)
            events += item.done(native)
            self._logprobs += item.logprobs
        return events

    def _aside(self, name: str, data: dict[str, Json]) -> list[Event]:
        """Hear what belongs to no item: sound."""
        if name == "audio.delta":
            return self._writer.data(data.get("delta") or "", "audio", "audio")
        if name == "audio.transcript.delta":
            return self._writer.block(
                {"type": "audio", "extras": {"transcript": data.get("delta")}}, "audio"
            )
        return self._writer.close("audio", kind="audio") if name == "audio.transcript.done" else []

    def _end_with(self, kind: str, data: dict[str, Json]) -> list[Event]:
        response = data.get("response") or {}
        if kind in ("error", "response.failed") or not response:
            raise self._fail({"error": response["error"]} if response.get("error") else data)
        events = self._start(response)
        for index, native in enumerate(response.get("output") or ()):
            events += self._missed(native, index)
        events += self._unfinished()
        self._is_over = True
        metadata = {
            name: response[name] for name in KEPT if response.get(name) not in (None, {}, [])
        }
        if response.get("model"):
            metadata["model_name"] = response["model"]
        if usage := response.get("usage"):
            self._writer.usage(decode_usage(usage))
            metadata["token_usage"] = usage
        if self._logprobs:
            metadata["logprobs"] = {"content": self._logprobs}
        return events + self._writer.finish(self._reason(kind, response), metadata=metadata)

    def _missed(self, native: dict[str, Json], index: int) -> list[Event]:
        """Tell an item of the final response that the stream did not tell, or not to its end."""
        id = str(native.get("id") or f"#{index}")
        known = self._items.get(id) or self._by_index.get(index)
        if known is not None and known.key in self._done:
            return []
        return self._output_item(
            "response.output_item.done", {"item": native, "output_index": index}
        )

    def _unfinished(self) -> list[Event]:
        events: list[Event] = []
        for item in self._items.values():
            if item.key not in self._done:
                events += item.close()
        return events

    def _reason(self, kind: str, response: dict[str, Json]) -> str:
        if any(item.has_refused for item in self._items.values()):
            return "refusal"
        if kind == "response.incomplete":
            why = (response.get("incomplete_details") or {}).get("reason") or ""
            return INCOMPLETE.get(why, "unknown" if why else "length")
        return "tool_use" if any(item.is_client_call for item in self._items.values()) else "stop"


def _type_of_event(kind: str) -> str:
    """Guess the type of an item from the first event that names it."""
    name = kind.removeprefix("response.")
    if name.startswith("reasoning"):
        return "reasoning"
    if name.startswith("function_call"):
        return "function_call"
    if name.startswith("custom_tool_call"):
        return "custom_tool_call"
    head = name.split(".")[0]
    known = {
        "mcp_call_arguments": "mcp_call",
        "code_interpreter_call_code": "code_interpreter_call",
    }
    if head in known:
        return known[head]
    return head if head.endswith(("_call", "_tools")) else "message"
