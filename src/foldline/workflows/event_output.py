"""`EventOutput`: what a run says, on its way to whoever streams it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from foldline._io import IO
from foldline.workflows.background import run_in_background
from foldline.workflows.events import Emit, FlowEvent, Method

__all__ = ["EventOutput"]


class EventOutput:
    """Takes events from anywhere inside a run; gives those that somebody wants to the run's reader."""

    def __init__(self, io: IO, namespace: tuple[str, ...], wants: frozenset[str]) -> None:
        self.io = io
        self.namespace = namespace
        self.wants = wants
        self._emit: Emit | None = None
        self._held: list[FlowEvent] = []

    def send(self, event: FlowEvent) -> None:
        """Send an event to the reader; while nobody reads, it is held back."""
        if self._emit is not None:
            self._emit(event)
        else:
            self._held.append(event)

    def publish(self, method: Method, node: str | None, data: object) -> None:
        """Say what happened, if somebody wants to know."""
        if method in self.wants:
            self.send(FlowEvent(method, self.namespace, node, data))

    def write(self, chunk: object, node: str | None = None) -> None:
        """Say something of a user's (`stream_mode="custom"`)."""
        self.publish("custom", node, {"payload": chunk})

    def take_waiting(self) -> list[FlowEvent]:
        """Return what was held back."""
        held, self._held = self._held, []
        return held

    async def during(
        self, body: Callable[[], Awaitable[object]], *, is_live: bool
    ) -> AsyncGenerator[FlowEvent, None]:
        """Run a body; give what it says: at once where that is asked for, else when it is done."""
        if not is_live:
            await body()
        else:
            async with aclosing(run_in_background(self.io, self._live(body))) as events:
                async for event in events:
                    yield event
        for event in self.take_waiting():
            yield event

    def _live(self, body: Callable[[], Awaitable[object]]) -> Callable[[Emit], Awaitable[object]]:
        async def run(emit: Emit) -> None:
            for event in self.take_waiting():
                emit(event)
            self._emit = emit
            try:
                await body()
            finally:
                self._emit = None

        return run
