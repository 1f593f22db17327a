"""Responses -> events. A decoder is fed the events of a stream and gives ours; it does no I/O.

`roster.py` knows which item an event means; `items.py` reads each kind of item. A response that came whole is told as
the stream it would have been: every item added, then done.
"""

from __future__ import annotations

from typing import Any

from foldline.exceptions import MalformedStreamError, ModelError, StreamTruncatedError
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.providers._wire import Fail
from foldline.providers.openai.items import Item, item_reader
from foldline.providers.openai.roster import Roster
from foldline.providers.openai.wire import (
    CANCELLED,
    FAILED,
    INCOMPLETE,
    KEPT,
    TERMINAL,
    UNFINISHED,
    WHOLE,
    decode_usage,
)
from foldline.utils.json import to_jsonable

__all__ = ["ResponsesDecoder"]


class ResponsesDecoder:
    """Turns one response into events."""

    def __init__(self, fail: Fail, *, provider: str = "openai", model: str | None = None) -> None:
        self._fail = fail
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._items = Roster()
        self._metadata: dict[str, Any] = {}
        self._sequence: int | None = None
        self._logprobs: list[Any] = []
        self._is_over = False

    def feed(self, data: object, event: str = "message") -> list[Event]:
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
            return self._begin(data["response"] or {})
        name = kind.removeprefix("response.")
        if "item_id" not in data and "output_index" not in data:
            return self._decode_audio(name, data)
        item, events = self._of(data)
        return events + item.feed(name, data)

    def whole(self, data: object) -> list[Event]:
        """Take a response that came in one piece."""
        if not isinstance(data, dict) or not isinstance(data.get("output"), list):
            raise MalformedStreamError("the answer has no output: is this a Responses endpoint?")
        kind = WHOLE.get(str(data.get("status")), "response.completed")
        return self._start(data) + self._end_with(kind, {"response": data})

    def end(self, *, marked: bool) -> list[Event]:
        """The bytes ended: only a terminal event says that a response is complete."""
        if not self._is_over:
            raise StreamTruncatedError(
                "the stream ended without response.completed, .incomplete or .failed"
            )
        return []

    def partial_state(self) -> dict[str, Any]:
        """Return what was said of usage and metadata so far: for the partial message of a response that broke."""
        metadata = {**self._writer.metadata_so_far, **to_jsonable(self._metadata)}
        return {"usage": self._writer.usage_so_far, "metadata": metadata}

    def _count(self, number: int | None) -> None:
        if number is None:
            return
        if self._sequence is not None and number != self._sequence + 1:
            raise MalformedStreamError(
                f"event {number} came after event {self._sequence}: something is missing or twice"
            )
        self._sequence = number

    def _begin(self, response: dict[str, Any]) -> list[Event]:
        """Take a response as it stands; the last word on it is that of the end."""
        self._keep_response(response)
        return self._start(response)

    def _start(self, response: dict[str, Any]) -> list[Event]:
        if self._writer.is_started:
            return []
        model = response.get("model")
        return self._writer.start(response.get("id"), {"model": model} if model else None)

    def _keep_response(self, response: dict[str, Any]) -> None:
        """Keep what a response says of itself."""
        self._metadata = {
            name: response[name] for name in KEPT if response.get(name) not in (None, {}, [])
        }
        if response.get("model"):
            self._metadata["model_name"] = response["model"]
        if usage := response.get("usage"):
            self._writer.usage(decode_usage(usage))
            self._metadata["token_usage"] = usage

    def _of(self, data: dict[str, Any]) -> tuple[Item, list[Event]]:
        """Find the item an event belongs to; one that was never added is added now."""
        id, index = data.get("item_id"), data.get("output_index")
        item = self._items.find(id, index)
        if item is not None:
            return item, []
        item = self._add({"id": id, "type": _type_of_event(data.get("type") or "")}, index)
        item.is_guess = True
        return item, item.begin()

    def _add(self, native: dict[str, Any], index: int | None) -> Item:
        id = native.get("id")
        item = item_reader(native)(self._writer, {**native, "id": id}, self._items.new_key(id))
        self._items.add(item, index)
        return item

    def _output_item(self, kind: str, data: dict[str, Any]) -> list[Event]:
        native, index = data.get("item") or {}, data.get("output_index")
        if kind.endswith(".done"):
            return self._item_done(self._items.find(native.get("id"), index), native, index)
        item = self._items.announced(native.get("id"), index)
        return self._find_item(item, native, index)[1]

    def _item_done(
        self, item: Item | None, native: dict[str, Any], index: int | None
    ) -> list[Event]:
        item, events = self._find_item(item, native, index)
        if item.is_done:
            return events
        item.is_done = True
        events += item.done(native)
        self._logprobs += item.logprobs
        return events

    def _find_item(
        self, item: Item | None, native: dict[str, Any], index: int | None
    ) -> tuple[Item, list[Event]]:
        """Return the item that a native one is; where it is new, or its type was guessed wrongly, it is added."""
        events: list[Event] = []
        if item is not None and item.is_guess and native.get("type"):
            if type(item) is item_reader(native):
                return item, events
            events += item.close()
            self._items.remove(item)
            item = None
        if item is None:
            item = self._add(native, index)
            events += item.begin()
        return item, events

    def _decode_audio(self, name: str, data: dict[str, Any]) -> list[Event]:
        """Hear what belongs to no item: sound."""
        if name == "audio.delta":
            return self._writer.data(data.get("delta") or "", "audio", "audio")
        if name == "audio.transcript.delta":
            return self._writer.block(
                {"type": "audio", "extras": {"transcript": data.get("delta")}}, "audio"
            )
        return self._writer.close("audio", kind="audio") if name == "audio.transcript.done" else []

    def _end_with(self, kind: str, data: dict[str, Any]) -> list[Event]:
        response = data.get("response") or {}
        if response:
            self._keep_response(response)
        if (
            kind == "response.completed"
        ):  # some servers end every stream so: its status is the truth
            kind = WHOLE.get(str(response.get("status")), kind)
        if kind in FAILED or not response:
            raise self._failure(kind, response, data)
        events = self._start(response)
        for index, native, item in self._items.in_final(response.get("output") or ()):
            if item is None or not item.is_done:
                events += self._item_done(item, native, index)
        for item in self._items:
            if not item.is_done:
                events += item.close()
        self._is_over = True
        if self._logprobs:
            self._metadata["logprobs"] = {"content": self._logprobs}
        return events + self._writer.finish(self._reason(kind, response), metadata=self._metadata)

    def _failure(self, kind: str, response: dict[str, Any], data: dict[str, Any]) -> ModelError:
        if response.get("error"):
            return self._fail({"error": response["error"]})
        return self._fail({"error": CANCELLED} if kind == "response.cancelled" else data)

    def _reason(self, kind: str, response: dict[str, Any]) -> str:
        if any(item.has_refused for item in self._items):
            return "refusal"
        if kind in UNFINISHED:
            return "pause"
        if kind == "response.incomplete":
            details = response.get("incomplete_details")
            why = details.get("reason") if isinstance(details, dict) else details
            return INCOMPLETE.get(str(why), "unknown") if why else "length"
        return "tool_use" if any(item.is_client_call for item in self._items) else "stop"


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
