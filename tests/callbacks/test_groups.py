"""Groups and custom events: runs that the caller starts, and events inside runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.callbacks import (
    AsyncCallbackManagerForChainGroup,
    BaseCallbackHandler,
    CallbackManagerForChainGroup,
    adispatch_custom_event,
    dispatch_custom_event,
)
from foldline.callbacks.manager import atrace_as_chain_group, trace_as_chain_group
from foldline.exceptions import UsageError
from foldline.runnables import RunnableLambda
from foldline.tracers import Run, RunCollectorCallbackHandler

ADD = RunnableLambda(lambda x: x + 1)


def grouped(call: Any, body: Any, **kwargs: Any) -> list[Run]:
    """Run a body under a group, sync or async; return the traces."""
    runs = RunCollectorCallbackHandler()

    async def main() -> None:
        async with atrace_as_chain_group("group", [runs], **kwargs) as group:
            assert isinstance(group, AsyncCallbackManagerForChainGroup)
            await ADD.ainvoke(1, {"callbacks": group})
            if (result := body(group)) is not None:
                await result

    if call.is_async:
        asyncio.run(main())
        return runs.traced_runs
    with trace_as_chain_group("group", [runs], **kwargs) as group:
        assert isinstance(group, CallbackManagerForChainGroup)
        ADD.invoke(1, {"callbacks": group})
        body(group)
    return runs.traced_runs


def test_calls_in_a_group_are_its_children(call: Any):
    [run] = grouped(call, lambda group: None, inputs={"a": 1}, tags=["t"], metadata={"m": 1})

    assert (run.name, run.inputs, run.outputs, run.tags, run.metadata) == (
        "group",
        {"a": 1},
        {},
        ["t"],
        {"m": 1},
    )
    assert [(child.name, child.tags) for child in run.child_runs] == [("RunnableLambda", ["t"])]


def test_a_group_ends_once_with_what_it_was_told(call: Any):
    [run] = grouped(call, lambda group: group.on_chain_end({"answer": 42}))

    assert run.outputs == {"answer": 42}
    assert [event["name"] for event in run.events] == ["start", "end"]


def test_a_group_that_fails_says_so_and_the_error_goes_on(call: Any):
    runs = RunCollectorCallbackHandler()

    async def run_async() -> None:
        async with atrace_as_chain_group("group", [runs]):
            raise KeyError("x")

    def blocking() -> None:
        with trace_as_chain_group("group", [runs]):
            raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(run_async()) if call.is_async else blocking()

    assert runs.traced_runs[0].error is not None
    assert runs.traced_runs[0].error.startswith("KeyError('x')")


def test_a_copy_of_a_group_is_of_the_same_group():
    with trace_as_chain_group("group", [RunCollectorCallbackHandler()]) as group:
        twin = group.copy()

    assert twin.parent_run_manager is group.parent_run_manager
    assert twin.handlers == group.handlers


class Recorder(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.custom: list[Any] = []
        self.run_id: Any = None

    def on_chain_start(self, *args: Any, run_id: Any, **kwargs: Any) -> None:
        self.run_id = run_id

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.custom.append((name, data, kwargs["run_id"], kwargs["tags"], kwargs["metadata"]))


def test_a_custom_event_belongs_to_the_run_it_is_dispatched_in(call: Any):
    recorder = Recorder()

    def work(x: int) -> int:
        dispatch_custom_event("progress", {"x": x})
        return x

    async def awork(x: int) -> int:
        await adispatch_custom_event("progress", {"x": x})
        return x

    runnable = RunnableLambda(work, afunc=awork)
    call.invoke(runnable, 1, {"callbacks": [recorder], "tags": ["a"], "metadata": {"b": 1}})

    assert recorder.custom == [("progress", {"x": 1}, recorder.run_id, ["a"], {"b": 1})]


def test_a_custom_event_outside_every_run_is_refused():
    with pytest.raises(UsageError, match="'lost' belongs to no run"):
        dispatch_custom_event("lost", 1, config={"callbacks": [Recorder()]})
    with pytest.raises(RuntimeError):
        asyncio.run(adispatch_custom_event("lost", 1, config={"callbacks": [Recorder()]}))
