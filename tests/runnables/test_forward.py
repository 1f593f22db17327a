"""The methods of `Runnable` that build others: listeners, and refused arguments."""

from __future__ import annotations

import copy
import pickle
from typing import Any, get_type_hints

import pytest

from foldline.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from foldline.runnables.schema import CustomStreamEvent, EventData, StandardStreamEvent


def double(x: int) -> int:
    return x * 2


DOUBLE: Any = RunnableLambda(double)


def test_listeners_hear_of_start_end_and_failure(call):
    events: list[Any] = []
    listening = RunnableLambda(lambda x: 10 // x, name="tenth").with_listeners(
        on_start=lambda run: events.append(("start", run.name)),
        on_end=lambda run, config: events.append(("end", run.outputs["output"], config["tags"])),
        on_error=lambda run: events.append(("error", "division" in run.error)),
    )

    assert call.invoke(listening, 5, {"tags": ["t"]}) == 2
    with pytest.raises(ZeroDivisionError):
        call.invoke(listening, 0)

    assert events == [("start", "tenth"), ("end", 2, ["t"]), ("start", "tenth"), ("error", True)]


def test_listeners_hear_of_streams_and_of_every_item_of_a_batch(call):
    outputs: list[Any] = []
    listening = DOUBLE.with_listeners(on_end=lambda run: outputs.append(run.outputs["output"]))

    assert call.stream(listening, 1) == [2]
    assert call.batch(listening, [2, 3]) == [4, 6]
    assert call.invoke(RunnableLambda(lambda x: x) | listening, 4) == 8
    assert sorted(outputs) == [2, 4, 6, 8]


def test_async_listeners_are_awaited():
    import asyncio

    outputs: list[Any] = []

    async def on_end(run: Any) -> None:
        await asyncio.sleep(0)
        outputs.append(run.outputs["output"])

    async def on_start(run: Any, config: Any) -> None:
        outputs.append(config["tags"])

    listening = DOUBLE.with_alisteners(on_start=on_start, on_end=on_end)

    assert asyncio.run(listening.ainvoke(2, {"tags": ["t"]})) == 4
    assert outputs == [["t"], 4]


@pytest.mark.parametrize(
    "built",
    [
        DOUBLE.with_retry(),
        DOUBLE.with_fallbacks([DOUBLE]),
        RunnablePassthrough().configurable_fields(name=ConfigurableField(id="n")),
        DOUBLE.configurable_alternatives(ConfigurableField(id="w"), other=DOUBLE),
    ],
    ids=lambda built: type(built).__name__,
)
def test_what_is_built_can_be_copied_and_pickled(built):
    for twin in (copy.copy(built), copy.deepcopy(built), pickle.loads(pickle.dumps(built))):
        assert type(twin) is type(built)
        assert twin.invoke(3) == built.invoke(3)


def test_events_are_typed_as_in_langchain():
    assert set(get_type_hints(EventData)) == {"input", "error", "output", "chunk", "tool_call_id"}
    common = {"event", "run_id", "tags", "metadata", "parent_ids", "name", "data"}
    assert set(get_type_hints(StandardStreamEvent)) == common
    assert set(get_type_hints(CustomStreamEvent)) == common
