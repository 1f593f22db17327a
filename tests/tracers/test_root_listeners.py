"""Listeners of a root run: called with the run, and the config where they ask for it."""

from __future__ import annotations

import asyncio
from typing import Any

from foldline.runnables import RunnableLambda
from foldline.tracers import Run
from foldline.tracers.root_listeners import AsyncRootListenersTracer, RootListenersTracer


def test_listeners_hear_of_the_root_alone(call: Any):
    heard: list[Any] = []
    tracer = RootListenersTracer(
        config={"tags": ["x"]},
        on_start=lambda run: heard.append(("start", run.name)),
        on_end=lambda run, config: heard.append(("end", run.outputs, config["tags"])),
    )
    chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)

    call.invoke(chain, 1, {"callbacks": [tracer]})

    assert heard == [("start", "RunnableSequence"), ("end", {"output": 4}, ["x"])]


def test_a_failed_root_is_told_to_on_error(call: Any):
    heard: list[str] = []

    def listen(run: Run, *, config: Any) -> None:
        heard.append(str(run.error)[:15])

    def fail(x: int) -> int:
        raise ValueError("x")

    tracer = RootListenersTracer(config={}, on_error=listen, on_end=lambda run: heard.append("end"))
    try:
        call.invoke(RunnableLambda(fail), 1, {"callbacks": [tracer]})
    except ValueError:
        heard.append("raised")

    assert heard == ["ValueError('x')", "raised"]


def test_async_listeners_are_awaited(call: Any):
    heard: list[str] = []

    async def start(run: Run) -> None:
        await asyncio.sleep(0)
        heard.append("start")

    async def end(run: Run, config: Any) -> None:
        heard.append("end")

    tracer = AsyncRootListenersTracer(config={}, on_start=start, on_end=end)
    call.invoke(RunnableLambda(lambda x: x), 1, {"callbacks": [tracer]})

    assert heard == ["start", "end"]


def test_a_listener_written_in_c_gets_the_run(call: Any):
    heard: list[Run] = []
    call.invoke(
        RunnableLambda(lambda x: x),
        1,
        {"callbacks": [RootListenersTracer(config={}, on_end=heard.append)]},
    )

    assert len(heard) == 1
