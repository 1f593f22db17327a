"""The view of a run as LangGraph's stream modes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from foldline.messages import AIMessage
from foldline.messages._view import ChunkView
from foldline.protocol.fold import MessageBuilder
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent, decode_event
from foldline.serve._log.records import RunRecord
from foldline.workflows._run_events import jsonable

__all__ = ["MODES", "RunView"]

MODES: Final = (
    "values", "updates", "messages", "messages-tuple", "custom", "checkpoints", "debug", "tasks", "events",
)  # fmt: skip


class RunView:
    """Encodes events as (name, data) pairs of the stream modes."""

    def __init__(self, info: RunRecord, modes: list[str], *, shows_inner: bool) -> None:
        self.id: str = info.id
        self._modes = modes
        self._shows_inner = shows_inner
        self._thread = info.thread
        self._app = info.app
        self._chunks: dict[tuple[str, ...], ChunkView] = {}
        self._builders: dict[tuple[str, ...], MessageBuilder] = {}

    def pieces(self, item: EncodedEvent) -> Iterator[tuple[str, object]]:
        """Yield the pairs of one event of the log, in each mode."""
        event = decode_event(item)
        method, params = event["method"], event["params"]
        data, namespace = params["data"], tuple(params["namespace"])
        if method == "run" and data["event"] == "started":
            yield "metadata", {"run_id": self.id, "attempt": 1}
            return
        if namespace and not self._shows_inner and method != "messages":
            return
        tail = f"|{'|'.join(namespace)}" if namespace and self._shows_inner else ""
        for mode in self._modes:
            for name, piece in self._in_mode(mode, method, params, namespace):
                yield f"{name}{tail}", piece

    def _in_mode(
        self, mode: str, method: str, params: JsonObject, namespace: tuple[str, ...]
    ) -> Iterator[tuple[str, object]]:
        data = params["data"]
        if mode == "values" and method == "values":
            yield "values", data
        elif mode == "values" and method == "input.requested":
            yield "values", {"__interrupt__": [_question(data)]}
        elif mode == "updates" and method == "updates":
            yield "updates", {data["node"]: data["values"]}
        elif mode == "updates" and method == "input.requested":
            yield "updates", {"__interrupt__": [_question(data)]}
        elif mode == "custom" and method == "custom":
            yield "custom", data.get("payload") if isinstance(data, dict) else data
        elif mode in ("checkpoints", "debug") and method == "checkpoints":
            yield mode, data
        elif mode == "events":
            yield "events", {"event": method, "data": data, "name": self._app}
        elif mode in ("messages", "messages-tuple") and method == "messages":
            message_metadata = {
                "langgraph_node": params.get("node"),
                "run_id": self.id,
                "thread_id": self._thread,
            }
            if mode == "messages-tuple":
                yield from self._tuples(data, namespace, message_metadata)
            else:
                yield from self._partials(data, namespace, message_metadata)

    def _tuples(
        self, data: JsonObject, namespace: tuple[str, ...], message_metadata: JsonObject
    ) -> Iterator[tuple[str, object]]:
        if data["event"] == "message-start":
            self._chunks[namespace] = ChunkView("v0")
        view = self._chunks.get(namespace)
        chunk = view.feed(data) if view is not None else None
        if chunk is not None:
            yield "messages", [jsonable(chunk), message_metadata]

    def _partials(
        self, data: JsonObject, namespace: tuple[str, ...], message_metadata: JsonObject
    ) -> Iterator[tuple[str, object]]:
        if data["event"] == "message-start":
            self._builders[namespace] = MessageBuilder()
            yield "messages/metadata", {data["id"]: {"metadata": message_metadata}}
        builder = self._builders.get(namespace)
        if builder is None:
            return
        builder.feed(data)
        is_over = data["event"] == "message-finish"
        if is_over or data["event"] == "content-block-delta":
            message = AIMessage.from_fold(builder.result(partial=not is_over))
            yield f"messages/{'complete' if is_over else 'partial'}", [jsonable(message)]


def _question(data: JsonObject) -> JsonObject:
    return {"id": data["interrupt_id"], "value": data["payload"]}
