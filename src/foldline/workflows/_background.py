"""Runs a body that emits events from any thread or task, and yields the events as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from foldline._io import IO
from foldline.workflows._run_events import Emit, FlowEvent
from foldline.workflows.interrupts import FlowInterrupt

__all__ = ["run_in_background"]

DONE = object()


async def run_in_background(
    io: IO, body: Callable[[Emit], Awaitable[object]]
) -> AsyncGenerator[FlowEvent, None]:
    """Run a body in the background; yield its events, then raise its error. Closing the generator stops the body."""
    channel = io.channel()
    failures: list[BaseException] = []

    async def work() -> AsyncGenerator[FlowEvent, None]:
        try:
            await body(channel.put)
        except (Exception, FlowInterrupt) as error:  # noqa: BLE001
            failures.append(error)
        finally:
            channel.put(DONE)
        return
        yield

    async def read() -> AsyncGenerator[FlowEvent, None]:
        while (item := await channel.get()) is not DONE:
            yield item

    async with aclosing(io.merge({"work": work(), "read": read()})) as items:
        async for _, item in items:
            yield item
    if failures:
        raise failures[0]
