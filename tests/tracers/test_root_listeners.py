"""Listeners of a root run: called with the run, and the config where they ask for it."""

from __future__ import annotations

import asyncio
from typing import Any

from foldline.runnables import RunnableLambda
from foldline.tracers import Run
from foldline.tracers.root_listeners import AsyncRootListenersTracer, RootListenersTracer


def test_listeners_hear_of_the_root_alone(call: Any):
    calls: list[Any] = []
    tracer = RootListenersTracer(
        config={"tags": ["x"]},
        on_start=lambda run: calls.append(("start", run.name)),
        on_end=lambda run, config: calls.append(("end", run.outputs, config["tags"])),
    )
    chain = RunnableLambda(lambda x: x + 1) | RunnableLambda(lambda x: x * 2)

    call.invoke(chain, 1, {"callbacks": [tracer]})

    assert calls == [("start", "RunnableSequence"), ("end", {"output": 4}, ["x"])]


def test_a_failed_root_is_told_to_on_error(call: Any):
    calls: list[str] = []

    def listen(run: Run, *, config: Any) -> None:
        calls.append(str(run.error)[:15])

    def fail(x: int) -> int:
        raise ValueError("x")

    tracer = RootListenersTracer(config={}, on_error=listen, on_end=lambda run: calls.append("end"))
    try:
        call.invoke(RunnableLambda(fail), 1, {"callbacks": [tracer]})
    except ValueError:
        calls.append("raised")

    assert calls == ["ValueError('x')", "raised"]


def test_async_listeners_are_awaited(call: Any):
    calls: list[str] = []

    async def start(run: Run) -> None:
        await asyncio.sleep(0)
        calls.append("start")

    async def end(run: Run, config: Any) -> None:
        calls.append("end")

    tracer = AsyncRootListenersTracer(config={}, on_start=start, on_end=end)
    call.invoke(RunnableLambda(lambda x: x), 1, {"callbacks": [tracer]})

    assert calls == ["start", "end"]


def test_a_listener_written_in_c_gets_the_run(call: Any):
    calls: list[Run] = []
    call.invoke(
        RunnableLambda(lambda x: x),
        1,
        {"callbacks": [RootListenersTracer(config={}, on_end=calls.append)]},
    )

    assert len(calls) == 1
