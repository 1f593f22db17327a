"""Run a body that says things from wherever it is (threads, tasks, a user's code), and give them out as a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from foldline._io import IO
from foldline.workflows.events import Emit, FlowEvent
from foldline.workflows.interrupts import FlowInterrupt

__all__ = ["run_in_background"]

DONE = object()


async def run_in_background(
    io: IO, body: Callable[[Emit], Awaitable[object]]
) -> AsyncGenerator[FlowEvent, None]:
    """Run a body beside the reader; give what it says, then raise what it raised. Closing this stops the body."""
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
