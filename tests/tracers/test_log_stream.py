"""The log of a run: patches add up, and wrong ones are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RunnableLambda
from foldline.tracers import LogStreamCallbackHandler, RunLog, RunLogPatch


async def collect(stream: Any) -> list[Any]:
    return [item async for item in stream]


def letters(text: str) -> Any:
    yield from text


def test_patches_add_up_to_the_log_that_diff_false_gives():
    chain = RunnableLambda(letters).with_config(run_name="a/b") | RunnableLambda(
        lambda s: s.upper()
    )
    patches = asyncio.run(collect(chain.astream_log("abc", {"run_id": None})))
    logs = asyncio.run(collect(chain.astream_log("abc", diff=False)))

    total = patches[0]
    for patch in patches[1:]:
        total = total + patch

    assert isinstance(total, RunLog)
    assert total.state["final_output"] == logs[-1].state["final_output"] == "ABC"
    assert set(total.state["logs"]) == {"a/b", "RunnableLambda"}
    assert total.state["logs"]["a/b"]["streamed_output"] == ["a", "b", "c"]
    assert len(logs) == len(patches)


def test_a_name_that_comes_again_is_numbered():
    same = RunnableLambda(lambda x: x + 1).with_config(run_name="same")
    logs = asyncio.run(collect((same | same | same).astream_log(1, diff=False)))

    assert list(logs[-1].state["logs"]) == ["same", "same:2", "same:3"]


def test_the_list_of_pieces_may_be_left_out():
    patches = asyncio.run(
        collect(RunnableLambda(letters).astream_log("ab", with_streamed_output_list=False))
    )

    assert not any(
        op["path"].startswith("/streamed_output") for patch in patches for op in patch.ops
    )


def test_filters_leave_the_root():
    chain = RunnableLambda(lambda x: x).with_config(run_name="hidden") | RunnableLambda(lambda x: x)
    logs = asyncio.run(collect(chain.astream_log(1, diff=False, exclude_names=["hidden"])))

    assert list(logs[-1].state["logs"]) == ["RunnableLambda"]


def test_a_handler_without_a_reader_gathers_its_patches(call: Any):
    handler = LogStreamCallbackHandler()
    call.invoke(
        RunnableLambda(lambda x: x) | RunnableLambda(lambda x: x), 1, {"callbacks": [handler]}
    )

    assert handler.patches[0].ops[0]["path"] == ""
    assert len(handler.patches) == 5


def test_only_patches_are_added():
    with pytest.raises(UsageError, match="a log adds patches, not int"):
        RunLogPatch({"op": "add", "path": "/a", "value": 1}) + 1
    with pytest.raises(UsageError, match="in their order"):
        RunLog(state={}) + RunLogPatch({"op": "add", "path": "/a/b", "value": 1})  # type: ignore[typeddict-item]
    with pytest.raises(UsageError, match="no options"):
        LogStreamCallbackHandler(include_name=["x"])
