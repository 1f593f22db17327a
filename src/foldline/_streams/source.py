"""`StreamSource`: what a stream reads, a call of a model or several of them in sequence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from foldline._streams.answer import Batch
from foldline._streams.state import CallState
from foldline.messages import AIMessage
from foldline.protocol.fold import MessageBuilder

__all__ = ["StreamSource"]


class StreamSource(Protocol):
    """Yields batches of events, and has the state of the message."""

    is_closing: bool
    """Set when the stream is closed while it is read."""

    @property
    def builder(self) -> MessageBuilder: ...
    @property
    def message(self) -> AIMessage | None: ...
    @property
    def error(self) -> BaseException | None: ...
    @property
    def state(self) -> CallState: ...
    @property
    def undelivered(self) -> Batch: ...
    def batches(self) -> AsyncGenerator[Batch, None]: ...
