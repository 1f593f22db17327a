"""v1 chunks -> events: how a model that only knows `_stream` speaks the protocol. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.messages import AIMessageChunk, BaseMessage
from weft.outputs import ChatGenerationChunk
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter


class ChunkBridge:
    """Fed `ChatGenerationChunk`s, gives back events."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._kwargs: dict[str, Any] = {}
        self.is_empty = True

    def feed(self, chunk: ChatGenerationChunk) -> list[Event]:
        """Give the events of one chunk."""
        message = chunk.message
        events: list[Event] = []
        if self.is_empty:
            self.is_empty = False
            events += self._writer.start(id=message.id)
        if type(message.content) is str and not getattr(message, "tool_call_chunks", None):
            if message.content:
                events += self._writer.text(message.content)
        else:
            for block in message.content_blocks:
                events += self._writer.block(block, key=block.get("index"))  # type: ignore[arg-type]
        self._note(message, chunk.generation_info)
        return events

    def _note(self, message: BaseMessage, info: Mapping[str, Any] | None) -> None:
        if info:
            self._writer.metadata(info)
        if message.response_metadata:
            # Said after the generation's own info, so that the message wins (T64).
            self._writer.metadata(message.response_metadata)
        if message.additional_kwargs:
            self._writer.additional_kwargs(message.additional_kwargs)
        if isinstance(message, AIMessageChunk) and message.usage_metadata:
            self._writer.usage(message.usage_metadata)

    def end(self) -> list[Event]:
        """Give the events that end the message."""
        return self._writer.finish()
