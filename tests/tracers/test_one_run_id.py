"""F-Y16: one run id for a run and one inside it. Nothing hangs, nothing is lost."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from foldline.callbacks import dispatch_custom_event
from foldline.runnables import RunnableLambda
from foldline.tracers import SQLiteTracer, TraceStore
from foldline.tracers.run_collector import RunCollectorCallbackHandler

ID = UUID(int=7)


def nested(*, fails: bool = False, between: bool = False) -> RunnableLambda[Any, Any]:
    """A run `outer` whose step `inner`, perhaps one step further down, runs under its id."""

    def inner(value: str) -> str:
        dispatch_custom_event("here", 1)
        if fails:
            raise ValueError("inner")
        return value + "!"

    step = RunnableLambda(inner)

    def ask(value: str, config: Any) -> str:
        return step.invoke(value, {**config, "run_id": ID})

    middle = RunnableLambda(ask, name="middle")

    def outer(value: str, config: Any) -> str:
        try:
            return middle.invoke(value, config) if between else ask(value, config)
        except ValueError:
            return "failed"

    return RunnableLambda(outer)


async def _collect(stream: Any) -> list[Any]:
    return [item async for item in stream]


def read(call: Any, runnable: Any, method: str, **kwargs: Any) -> list[Any]:
    config = {"run_id": ID}
    if not call.is_async:
        return list(getattr(runnable, method)("x", config, **kwargs))
    stream = getattr(runnable, f"a{method}")("x", config, **kwargs)
    return asyncio.run(asyncio.wait_for(_collect(stream), 10))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_F_Y16_every_event_of_both_runs_comes(call, version):
    events = read(call, nested(), "stream_events", version=version)

    facts = [(event["event"], event["name"], event["parent_ids"]) for event in events]
    above = [str(ID)] if version == "v2" else []
    assert facts == [
        ("on_chain_start", "outer", []),
        ("on_chain_start", "inner", above),
        *([("on_custom_event", "here", above)] if version == "v2" else []),
        ("on_chain_end", "inner", above),
        ("on_chain_stream", "outer", []),
        ("on_chain_end", "outer", []),
    ]


def test_F_Y16_a_run_in_between_is_above_the_inner_one(call):
    events = read(call, nested(between=True), "stream_events", version="v2")

    inner = next(event for event in events if event["name"] == "inner")
    middle = next(event for event in events if event["name"] == "middle")
    assert middle["parent_ids"] == [str(ID)]
    assert inner["parent_ids"] == [str(ID), middle["run_id"]]
    assert (events[-1]["event"], events[-1]["name"]) == ("on_chain_end", "outer")


def test_F_Y16_the_outer_run_goes_on_when_the_inner_one_failed(call):
    events = read(call, nested(fails=True), "stream_events", version="v2")

    assert events[-1]["event"] == "on_chain_end"
    assert events[-1]["data"]["output"] == "failed"


def test_F_Y16_a_log_ends():
    stream = nested().astream_log("x", {"run_id": ID})

    patches = asyncio.run(asyncio.wait_for(_collect(stream), 10))

    total = patches[0]
    for patch in patches[1:]:
        total = total + patch
    assert total.state["final_output"] == "x!"


@pytest.mark.parametrize("between", [False, True])
def test_F_Y16_a_trace_holds_both_runs(call, between):
    tracer = RunCollectorCallbackHandler()

    call.invoke(nested(between=between), "x", {"run_id": ID, "callbacks": [tracer]})

    (root,) = tracer.traced_runs
    assert (root.name, root.outputs) == ("outer", {"output": "x!"})
    (child,) = root.child_runs
    inner = child.child_runs[0] if between else child
    assert (inner.name, inner.outputs) == ("inner", {"output": "x!"})


def test_F_Y16_a_stored_trace_is_a_tree(call, tmp_path):
    path = tmp_path / "traces.db"
    with SQLiteTracer(path) as tracer:
        call.invoke(nested(between=True), "x", {"run_id": ID, "callbacks": [tracer]})

    root = TraceStore(path).trace(ID)

    assert _depth(root) <= 3


def _depth(run: Any) -> int:
    return 1 + max((_depth(child) for child in run.child_runs), default=0)
