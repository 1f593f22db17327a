"""`AnswerView`: one run as one answer, shared by Chat Completions, Responses and Messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from foldline.serve._event_reader import ChatReader, Op
from foldline.serve._json_body import Body
from foldline.serve._json_object import JsonObject
from foldline.serve._log.events import EncodedEvent
from foldline.serve._log.records import RunRecord
from foldline.serve._wire_server import WireCall, error_of
from foldline.serve._wires.usage import UsageTotal
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError, failure_of

__all__ = ["AnswerView", "chat_request", "read_chat", "web_citations"]


class AnswerView(ABC):
    """Reads a run's events; subclasses encode them for their wire."""

    def __init__(self, app: ServedApp) -> None:
        self.usage: UsageTotal | None = None
        """None before the first message with usage."""
        self.is_agent: bool = app.kind == "agent"
        self._reader = ChatReader()
        self._error: ServeError | None = None

    @abstractmethod
    def pieces(self, item: EncodedEvent) -> Iterator[JsonObject]:
        """Return the wire's events of one event of the log."""

    def consume(self, events: Iterable[EncodedEvent]) -> None:
        """Read events without encoding them."""
        for item in events:
            for _ in self.pieces(item):
                pass

    def read(self, item: EncodedEvent) -> Iterator[Op]:
        """Yield the operations of an event, and record usage and failures."""
        for op in self._reader.read(item):
            if op.kind == "message-end":
                self._note_end(op)
            elif op.kind == "reset":
                self._error = ServeError("upstream", "the model began its answer again")
            yield op

    def _note_end(self, op: Op) -> None:
        if op.text == "error":
            self.fail("the model's answer ended with an error")
        usage = op.data.get("usage")
        if usage:
            self.usage = self.usage or UsageTotal()
            self.usage.add(usage)

    def fail(self, sentence: str) -> None:
        """Record an error, which ends the answer."""
        self._error = ServeError("upstream", sentence)

    def finish_reason(self, op: Op) -> str:
        """Return why a message ended; the tool calls of an agent are not shown to the client."""
        return "stop" if self.is_agent and op.text == "tool_use" else op.text

    def problem(self, info: RunRecord) -> ServeError | None:
        """Return the error of the run; None where it succeeded."""
        return error_of(info) if info.status != "success" else self._error


async def read_chat(call: WireCall) -> tuple[Body, ServedApp]:
    """Read a request to a model wire: the body, and the app that it names."""
    body = await call.body()
    app = call.app(body.name("model"))
    if app.kind == "embeddings":
        raise body.refuse("model", "makes embeddings, no chat")
    return body, app


def chat_request(
    app: ServedApp, messages: list[Any], options: JsonObject, *, streams: bool = True
) -> RunRequest:
    """Return the request for a run of a conversation."""
    try:
        return RunRequest(app.input_of_chat(messages), options, streams=streams)
    except ValueError as error:
        raise failure_of(error) from error


def web_citations(op: Op) -> list[JsonObject]:
    """Return the web pages that a finished text cites."""
    return [
        {
            "url": note["url"],
            "title": note.get("title") or "",
            "start_index": note.get("start_index") or 0,
            "end_index": note.get("end_index") or 0,
        }
        for note in _annotations(op.data)
        if note.get("type") == "citation" and note.get("url")
    ]


def _annotations(block: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return block.get("annotations") or ()
