"""Many at once: order, limits, errors, memory."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from typing import Any
from uuid import uuid4

import pytest

from foldline.exceptions import UsageError
from foldline.runnables import RunnableLambda
from tests.runnables.recording import Recorder

pytestmark = pytest.mark.timing


def odd_fails(x: int) -> int:
    if x % 2:
        raise ValueError(f"odd {x}")
    return x


def test_results_are_in_the_order_of_the_inputs(call):
    def wait(x: float) -> float:
        time.sleep(x)
        return x

    assert call.batch(RunnableLambda(wait), [0.03, 0.0, 0.02]) == [0.03, 0.0, 0.02]
    assert call.batch(RunnableLambda(wait), []) == []


def test_as_completed_gives_the_quick_ones_first(call):
    def wait(x: float) -> float:
        time.sleep(x)
        return x

    pairs = call.batch_as_completed(RunnableLambda(wait), [0.2, 0.0])
    assert pairs == [(1, 0.0), (0, 0.2)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_max_concurrency_is_kept(call, limit):
    lock, running, highest = threading.Lock(), 0, 0

    def work(x: int) -> int:
        nonlocal running, highest
        with lock:
            running += 1
            highest = max(highest, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return x

    assert call.batch(RunnableLambda(work), list(range(9)), {"max_concurrency": limit}) == list(
        range(9)
    )
    assert highest == limit


def test_errors_are_raised_or_returned(call):
    with pytest.raises(ValueError, match="odd"):
        call.batch(RunnableLambda(odd_fails), [0, 1, 2])

    results = call.batch(RunnableLambda(odd_fails), [0, 1, 2], return_exceptions=True)
    assert [results[0], repr(results[1]), results[2]] == [0, "ValueError('odd 1')", 2]
    pairs = call.batch_as_completed(RunnableLambda(odd_fails), [0, 1], return_exceptions=True)
    assert {place: type(result) for place, result in pairs} == {0: int, 1: ValueError}


@pytest.mark.slow
def test_FC12_after_an_error_no_new_item_is_started(call, no_leaks):
    inputs = []

    def work(x: int) -> int:
        inputs.append(x)
        if x == 0:
            raise ValueError("no")
        time.sleep(0.001)
        return x

    with pytest.raises(ValueError, match="no"):
        call.batch(RunnableLambda(work), list(range(2000)), {"max_concurrency": 2})
    assert len(inputs) < 200


def test_every_started_run_of_a_failing_batch_ends(call):
    recorder = Recorder()
    with pytest.raises(ValueError, match="odd"):
        call.batch(
            RunnableLambda(odd_fails) | (lambda x: x), list(range(20)), {"callbacks": [recorder]}
        )
    recorder.check()


def test_configs_may_be_one_for_each_input(call):
    tags = RunnableLambda(lambda x, config: config["tags"])

    assert call.batch(tags, [1, 2], [{"tags": ["a"]}, {"tags": ["b"]}]) == [["a"], ["b"]]
    with pytest.raises(UsageError, match="2 inputs, 1 configs"):
        call.batch(tags, [1, 2], [{}])


def test_a_run_id_names_the_first_run_only(call):
    recorder, run_id = Recorder(), uuid4()
    with pytest.warns(RuntimeWarning, match="the first input's run only"):
        call.batch(
            RunnableLambda(odd_fails), [0, 2, 4], {"callbacks": [recorder], "run_id": run_id}
        )

    assert len(recorder.started) == 3
    assert run_id in recorder.started
    recorder.check()


def test_keyword_arguments_are_for_every_item(call):
    assert call.batch(RunnableLambda(lambda x, plus: x + plus), [1, 2], plus=1) == [2, 3]


def test_a_batch_left_early_starts_no_more(no_leaks):
    inputs = []

    def work(x: int) -> int:
        inputs.append(x)
        return x

    stream = RunnableLambda(work).batch_as_completed(list(range(100_000)), {"max_concurrency": 4})
    next(stream)
    stream.close()  # type: ignore[attr-defined]

    assert len(inputs) < 1000


def test_a_slow_reader_holds_up_the_workers():
    inputs = []
    stream = RunnableLambda(inputs.append).batch_as_completed(
        list(range(10_000)), {"max_concurrency": 4}
    )
    next(stream)
    time.sleep(0.1)

    assert len(inputs) < 100
    stream.close()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_very_large_batch_takes_little_memory(call):
    """20,000 items instead of a million: memory must not grow with the finished items (50 bytes an item here)."""
    inputs = range(20_000)
    config = {"max_concurrency": 10, "tags": ["t"]}
    add = RunnableLambda(lambda x: None, afunc=_nothing)
    tracemalloc.start()
    try:
        if not call.is_async:
            for _ in add.batch_as_completed(inputs, config):
                pass
        else:

            async def main() -> None:
                async for _ in add.abatch_as_completed(inputs, config):
                    pass

            asyncio.run(main())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.slow
def test_the_list_a_very_large_batch_gives_is_all_it_holds(call):
    tracemalloc.start()
    try:
        call.batch(
            RunnableLambda(lambda x: None, afunc=_nothing), range(20_000), {"max_concurrency": 10}
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


async def _nothing(x: Any) -> None:
    return None


def test_cancelling_a_batch_cancels_its_items():
    inputs = []

    async def wait(x: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            inputs.append(x)

    async def main() -> None:
        task = asyncio.ensure_future(RunnableLambda(wait).abatch([1, 2, 3], {"max_concurrency": 2}))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert sorted(inputs) == [1, 2]
