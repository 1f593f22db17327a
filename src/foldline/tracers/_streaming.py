"""Marker classes: base classes of handlers that need streamed pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TypeVar
from uuid import UUID

from foldline._lazy import publish
from foldline.utils._short_repr import short_repr

T = TypeVar("T")


class StreamObserver:
    """A base class of handlers that get every piece of a streamed output (`astream_log`, `astream_events`)."""

    def on_chunk(self, run_id: UUID | None, chunk: object) -> None:
        """Take a piece of the output of a run."""


class StreamingHandler:
    """A base class of handlers that need v1 tokens (`on_llm_new_token`): under it `invoke` streams too.

    LangGraph passes the output of its own runnables through `tap_output_iter` and `tap_output_aiter`.
    """

    __repr__ = short_repr

    def tap_output_iter(self, run_id: UUID, output: Iterator[T]) -> Iterator[T]:
        """Pass on the pieces of a run's output, and let the handler observe them."""
        for piece in output:
            if isinstance(self, StreamObserver):
                self.on_chunk(run_id, piece)
            yield piece

    async def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[T]) -> AsyncIterator[T]:
        """Pass on the pieces of a run's output, and let the handler observe them."""
        async for piece in output:
            if isinstance(self, StreamObserver):
                self.on_chunk(run_id, piece)
            yield piece


class V2StreamingHandler:
    """A base class of handlers that need content-block events (`on_stream_event`): under it `invoke` streams too."""

    __repr__ = short_repr


publish("foldline.tracers", StreamingHandler, V2StreamingHandler)

_StreamingCallbackHandler = StreamingHandler
_V2StreamingCallbackHandler = V2StreamingHandler
