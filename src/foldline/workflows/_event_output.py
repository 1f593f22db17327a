"""`EventOutput`: collects the events of a run and passes them to its reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from foldline._io import IO
from foldline.workflows._background import run_in_background
from foldline.workflows._run_events import Emit, FlowEvent, Method

__all__ = ["EventOutput"]


class EventOutput:
    """Receives events from any code inside a run; passes the requested ones to the run's reader."""

    def __init__(self, io: IO, namespace: tuple[str, ...], wants: frozenset[str]) -> None:
        self.io = io
        self.namespace = namespace
        self.wants = wants
        self._emit: Emit | None = None
        self._buffer: list[FlowEvent] = []

    def send(self, event: FlowEvent) -> None:
        """Send an event to the reader; while there is none, buffer it."""
        if self._emit is not None:
            self._emit(event)
        else:
            self._buffer.append(event)

    def publish(self, method: Method, node: str | None, data: object) -> None:
        """Send an event if its channel was requested."""
        if method in self.wants:
            self.send(FlowEvent(method, self.namespace, node, data))

    def write(self, chunk: object, node: str | None = None) -> None:
        """Send a user's chunk (`stream_mode="custom"`)."""
        self.publish("custom", node, {"payload": chunk})

    def take_buffered(self) -> list[FlowEvent]:
        """Return and clear the buffered events."""
        events, self._buffer = self._buffer, []
        return events

    async def run_body(
        self, body: Callable[[], Awaitable[object]], *, is_live: bool
    ) -> AsyncGenerator[FlowEvent, None]:
        """Run a body; yield its events, while it runs if `is_live`, else when it is done."""
        if not is_live:
            await body()
        else:
            async with aclosing(run_in_background(self.io, self._live(body))) as events:
                async for event in events:
                    yield event
        for event in self.take_buffered():
            yield event

    def _live(self, body: Callable[[], Awaitable[object]]) -> Callable[[Emit], Awaitable[object]]:
        async def run(emit: Emit) -> None:
            for event in self.take_buffered():
                emit(event)
            self._emit = emit
            try:
                await body()
            finally:
                self._emit = None

        return run
