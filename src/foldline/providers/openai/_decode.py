"""The Responses API -> events. Pure.

`item_index.py` finds the item of an event; `items.py` decodes each kind of item. A response that is not streamed is
decoded as the equivalent stream: every item added, then done.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from foldline.exceptions import (
    FoldlineError,
    MalformedStreamError,
    ModelError,
    StreamTruncatedError,
)
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter
from foldline.providers._readable import blocks_so_far
from foldline.providers._wire import MALFORMED_PAYLOAD_ERRORS, Fail
from foldline.providers.openai._item_index import ItemIndex
from foldline.providers.openai._message_items import Item, item_reader
from foldline.providers.openai._wire import (
    CANCELLED_ERROR,
    FAILURE_EVENTS,
    INCOMPLETE_REASONS,
    METADATA_FIELDS,
    PENDING_EVENTS,
    STATUS_EVENTS,
    TERMINAL_EVENTS,
    decode_usage,
)
from foldline.utils.json import to_jsonable

__all__ = ["ResponsesDecoder"]


class ResponsesDecoder:
    """Decodes one response."""

    def __init__(self, fail: Fail, *, provider: str = "openai", model: str | None = None) -> None:
        self._fail = fail
        metadata = {"provider": provider, **({"model": model} if model else {})}
        self._writer = EventWriter(metadata=metadata, usage_mode="last")
        self._items = ItemIndex()
        self._metadata: dict[str, Any] = {}
        self._sequence: int | None = None
        self._logprobs: list[Any] = []
        self._is_over = False
        self._failed_blocks: list[Any] = []
        """The blocks of a response that is not streamed and failed, for the partial message of its error."""

    def feed(self, data: object, event: str = "message") -> list[Event]:
        """Return our events for one event of the stream."""
        if not isinstance(data, dict):
            raise MalformedStreamError(f"an event is a JSON object, not {type(data).__name__}")
        if self._is_over:
            return []
        kind = data.get("type") or event
        self._count(data.get("sequence_number"))
        if kind in TERMINAL_EVENTS or (data.get("error") and "response" not in data):
            return self._end_with(kind, data)
        if kind.startswith("response.output_item."):
            return self._output_item(kind, data)
        if "response" in data:
            return self._begin(data["response"] or {})
        name = kind.removeprefix("response.")
        if "item_id" not in data and "output_index" not in data:
            return self._decode_audio(name, data)
        item, events = self._item_of(data)
        return events + item.feed(name, data)

    def decode_answer(self, data: object) -> list[Event]:
        """Return the events of a response that is not streamed."""
        if not isinstance(data, dict) or not isinstance(data.get("output"), list):
            raise MalformedStreamError("the answer has no output: is this a Responses endpoint?")
        kind = STATUS_EVENTS.get(str(data.get("status")), "response.completed")
        events = self._start(data)
        if kind in FAILURE_EVENTS:
            with suppress(FoldlineError, *MALFORMED_PAYLOAD_ERRORS):  # the failure is raised below
                self._failed_blocks = blocks_so_far(events + self._output_events(data))
        return events + self._end_with(kind, {"response": data})

    def end(self, *, marked: bool) -> list[Event]:
        """Raise if the stream ended without a terminal event."""
        if not self._is_over:
            raise StreamTruncatedError(
                "the stream ended without response.completed, .incomplete or .failed"
            )
        return []

    def partial_state(self) -> dict[str, Any]:
        """Return usage and metadata so far, for the partial message of an interrupted response."""
        metadata = {**self._writer.metadata_so_far, **to_jsonable(self._metadata)}
        state = {"usage": self._writer.usage_so_far, "metadata": metadata}
        return {**state, "blocks": self._failed_blocks} if self._failed_blocks else state

    def _count(self, number: int | None) -> None:
        if number is None:
            return
        if self._sequence is not None and number != self._sequence + 1:
            raise MalformedStreamError(
                f"event {number} came after event {self._sequence}: something is missing or twice"
            )
        self._sequence = number

    def _begin(self, response: dict[str, Any]) -> list[Event]:
        """Read the response object of an event; the one of the last event replaces it."""
        self._keep_response(response)
        return self._start(response)

    def _start(self, response: dict[str, Any]) -> list[Event]:
        if self._writer.is_started:
            return []
        model = response.get("model")
        return self._writer.start(response.get("id"), {"model": model} if model else None)

    def _keep_response(self, response: dict[str, Any]) -> None:
        """Store the metadata and usage of a response."""
        self._metadata = {
            name: response[name]
            for name in METADATA_FIELDS
            if response.get(name) not in (None, {}, [])
        }
        if response.get("model"):
            self._metadata["model_name"] = response["model"]
        if usage := response.get("usage"):
            self._writer.usage(decode_usage(usage))
            self._metadata["token_usage"] = usage

    def _item_of(self, data: dict[str, Any]) -> tuple[Item, list[Event]]:
        """Return the item of an event; one that was never added is added now."""
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
        item = self._items.find_added(native.get("id"), index)
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
        """Return the item of a native one; it is added if it is new or its type was guessed wrongly."""
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
        """Return the events of audio, which belongs to no item."""
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
        if kind == "response.completed":  # some servers end every stream so: the status decides
            kind = STATUS_EVENTS.get(str(response.get("status")), kind)
        if kind in FAILURE_EVENTS or not response:
            raise self._failure(kind, response, data)
        events = self._start(response) + self._output_events(response)
        self._is_over = True
        if self._logprobs:
            self._metadata["logprobs"] = {"content": self._logprobs}
        return events + self._writer.finish(self._reason(kind, response), metadata=self._metadata)

    def _output_events(self, response: dict[str, Any]) -> list[Event]:
        """Return the events of the items that have not ended yet."""
        events: list[Event] = []
        for index, native, item in self._items.match_output(response.get("output") or ()):
            if item is None or not item.is_done:
                events += self._item_done(item, native, index)
        for item in self._items:
            if not item.is_done:
                events += item.close()
        return events

    def _failure(self, kind: str, response: dict[str, Any], data: dict[str, Any]) -> ModelError:
        if response.get("error"):
            return self._fail({"error": response["error"]})
        return self._fail({"error": CANCELLED_ERROR} if kind == "response.cancelled" else data)

    def _reason(self, kind: str, response: dict[str, Any]) -> str:
        if any(item.has_refused for item in self._items):
            return "refusal"
        if kind in PENDING_EVENTS:
            return "pause"
        if kind == "response.incomplete":
            details = response.get("incomplete_details")
            reason = details.get("reason") if isinstance(details, dict) else details
            return INCOMPLETE_REASONS.get(str(reason), "unknown") if reason else "length"
        return "tool_use" if any(item.is_client_call for item in self._items) else "stop"


def _type_of_event(kind: str) -> str:
    """Guess the type of an item from its first event."""
    name = kind.removeprefix("response.")
    if name.startswith("reasoning"):
        return "reasoning"
    if name.startswith("function_call"):
        return "function_call"
    if name.startswith("custom_tool_call"):
        return "custom_tool_call"
    head = name.split(".")[0]
    item_types = {
        "mcp_call_arguments": "mcp_call",
        "code_interpreter_call_code": "code_interpreter_call",
    }
    if head in item_types:
        return item_types[head]
    return head if head.endswith(("_call", "_tools")) else "message"
