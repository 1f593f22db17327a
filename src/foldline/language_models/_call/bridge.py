"""v1 chunks -> events: the protocol for models that only implement `_stream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Literal, cast

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive_each
from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.messages import AIMessageChunk, BaseMessage
from foldline.messages._lazy import real_fields
from foldline.messages.block_translators._pipeline import standard_blocks
from foldline.outputs import ChatGenerationChunk
from foldline.protocol.events import Event
from foldline.protocol.writer import EventWriter

SLICE_KEYS = frozenset({"type", "id", "name", "args", "index"})
CLIENT_CALLS = frozenset({"tool_call", "invalid_tool_call", "tool_call_chunk"})


class ChunkBridge:
    """Converts `ChatGenerationChunk`s to events."""

    __slots__ = ("_id", "_is_started", "_text", "_writer", "is_empty", "is_last", "pending")

    def __init__(self, writer: EventWriter, id: str | None = None) -> None:
        self._writer = writer
        self._text = writer.text
        self._is_started = False
        self._id = id
        self.is_empty: bool = True
        """Whether there was no chunk at all."""
        self.is_last = False
        """Whether a chunk was marked as the last (`chunk_position="last"`)."""
        self.pending: list[Event] = []
        """The events of that chunk and of later ones: they are sent with the end."""

    def feed(self, chunk: ChatGenerationChunk) -> list[Event]:
        """Return the events of one chunk."""
        message = getattr(chunk, "message", None)
        if (
            type(message) is AIMessageChunk
            and type(chunk) is ChatGenerationChunk
            and real_fields(chunk).get("generation_info") is None
            and not self.is_empty
        ):
            # The hot path: a chunk made from plain text alone.
            fields = real_fields(message)
            if len(fields) == 1 and type(text := fields.get("content")) is str:
                return self._text(text) if text and self._is_started else self._text_events(text)
            if len(fields) == 2 and fields.get("content") == "" and "tool_call_chunks" in fields:
                slices = fields["tool_call_chunks"]
                if self._takes_as_slices(slices):
                    return self._call_slices(slices)
        return self._feed_any(chunk, message)

    def _feed_any(self, chunk: ChatGenerationChunk, message: object) -> list[Event]:
        """Return the events of a chunk that may have anything in it."""
        if not isinstance(message, BaseMessage):
            raise UsageError(
                f"_stream must yield ChatGenerationChunk(message=AIMessageChunk(...)), not {chunk!r:.80}"
            )
        self.is_empty = False
        self._id = self._id or message.id
        self._note(message, chunk.generation_info)
        slices = getattr(message, "tool_call_chunks", None) or []
        if not message.additional_kwargs:
            if type(message.content) is str and not slices:
                return self._text_events(message.content)
            if not message.content and self._takes_as_slices(slices):
                return self._call_slices(slices)
        events: list[Event] = []
        for block in _blocks_of(message, slices):
            if not self._writer.is_started:
                events += self._writer.start(self._id)
            events += self._writer.block(block, key=block.get("index"))
        return events

    def _takes_as_slices(self, slices: list[Any]) -> bool:
        """Whether slices of calls can be written as they are: the message is open, and they have no other fields."""
        return self._writer.is_started and all(slice_.keys() <= SLICE_KEYS for slice_ in slices)

    def hold(self, batch: list[Event]) -> bool:
        """Hold a batch back until the end; return True."""
        self.pending += batch
        return True

    def _call_slices(self, slices: list[Any]) -> list[Event]:
        """Return the events of slices of calls without other content, the usual case."""
        events: list[Event] = []
        for slice_ in slices:
            slice_events = self._writer.tool_call(
                slice_.get("index"),
                id=slice_.get("id"),
                name=slice_.get("name"),
                args=slice_.get("args"),
            )
            events = events + slice_events if events else slice_events
        return events

    def _text_events(self, text: str) -> list[Event]:
        if not text:
            return []
        if not self._writer.is_started:
            self._is_started = True
            return self._writer.start(self._id) + self._writer.text(text)
        self._is_started = True
        return self._writer.text(text)

    def _note(self, message: BaseMessage, info: Mapping[str, Any] | None) -> None:
        if info:
            self._writer.metadata(info)
        if message.response_metadata:
            # After the info of the generation, so that the message takes precedence (T64).
            self._writer.metadata(message.response_metadata)
        if message.additional_kwargs:
            self._writer.additional_kwargs(message.additional_kwargs)
        if isinstance(message, AIMessageChunk):
            self._writer.usage(cast("Mapping[str, object] | None", message.usage_metadata))
            self._writer.reason(message.finish_reason)
            self.is_last = self.is_last or message.chunk_position == "last"

    def end(self) -> list[Event]:
        """Return the events that end the message."""
        start_events = [] if self._writer.is_started else self._writer.start(self._id)
        return start_events + self._writer.finish()


Chunk = ChatGenerationChunk | AIMessageChunk
UsageMode = Literal["sum", "last"]


def chunks_to_events(
    chunks: Iterable[Chunk], *, message_id: str | None = None, usage_mode: UsageMode = "sum"
) -> Iterator[Event]:
    """Yield chunks as events: those of a `_stream`, or stored message chunks; no events if there are no chunks."""
    return drive_each(_chunk_events(BLOCKING.each(chunks), message_id, usage_mode))


def achunks_to_events(
    chunks: AsyncIterator[Chunk], *, message_id: str | None = None, usage_mode: UsageMode = "sum"
) -> AsyncIterator[Event]:
    """Yield chunks as events, to an async reader."""
    return _chunk_events(ASYNC.each(chunks), message_id, usage_mode)


async def _chunk_events(
    chunks: AsyncGenerator[Chunk, None], id: str | None, usage_mode: UsageMode
) -> AsyncGenerator[Event, None]:
    bridge = ChunkBridge(EventWriter(id, usage_mode=usage_mode), id)
    async with aclosing(chunks):
        async for chunk in chunks:
            is_message = isinstance(chunk, AIMessageChunk)
            generation = ChatGenerationChunk(message=chunk) if is_message else chunk
            for event in bridge.feed(cast("ChatGenerationChunk", generation)):
                yield event
    for event in () if bridge.is_empty else bridge.end():
        yield event


def _blocks_of(message: BaseMessage, slices: list[Any]) -> list[dict[str, Any]]:
    """Return a chunk's content as blocks; slices of calls replace the calls in the content, others come at the end."""
    content_blocks = standard_blocks(
        message.content,
        message.response_metadata.get("model_provider"),
        metadata=message.response_metadata,
        additional_kwargs=message.additional_kwargs,
    )
    remaining_slices = [{**slice_, "type": "tool_call_chunk"} for slice_ in slices]
    blocks: list[dict[str, Any]] = []
    for block in cast("list[dict[str, Any]]", content_blocks):
        if slices and block.get("type") in CLIENT_CALLS:
            matching_slice = next(
                (slice_ for slice_ in remaining_slices if _is_same_call(slice_, block)), None
            )
            if matching_slice is not None:
                remaining_slices.remove(matching_slice)
                extras = {"extras": block["extras"]} if block.get("extras") else {}
                blocks.append({**extras, **matching_slice})
        else:
            blocks.append(block)
    return blocks + remaining_slices


def _is_same_call(slice_: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    if slice_.get("id") and block.get("id"):
        return bool(slice_["id"] == block["id"])
    return slice_.get("index") == block.get("index") or block.get("index") is None


publish("foldline.language_models", achunks_to_events, chunks_to_events)
