"""Exactly one end or error for every started run, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from foldline.runnables import (
    RouterRunnable,
    RunnableBranch,
    RunnableGenerator,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
)
from tests.runnables.recording import Recorder


class StuckAt:
    """A function that waits at the n-th call, until it is cancelled."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0
        self.reached = asyncio.Event()

    async def __call__(self, x: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            self.reached.set()
            await asyncio.sleep(60)
        return x


def full_chain(function: Any) -> Any:
    """A chain that holds one of each kind of runnable."""

    async def letters(items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for item in items:
            yield await function(item)

    same = RunnableLambda(function)
    return (
        same
        | RunnableParallel(a=same, b=RunnablePassthrough() | same)
        | RunnablePassthrough.assign(c=same)
        | RunnablePick("a")
        | RunnableBranch((same, same), same)
        | (lambda x: {"key": "r", "input": x})
        | RouterRunnable({"r": same})
        | RunnableGenerator(letters)
        | same.with_config(tags=["t"])
        | (lambda x: [x, x])
        | same.map()
    )


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_FC03_a_run_cancelled_at_any_stage_ends_every_run_it_started(method: str):
    async def run(at: int) -> int:
        recorder, stuck = Recorder(), StuckAt(at)
        chain, config = full_chain(stuck), {"callbacks": [recorder]}

        async def go() -> None:
            if method == "invoke":
                await chain.ainvoke(1, config)
            else:
                async for _ in chain.astream(1, config):
                    pass

        task = asyncio.ensure_future(go())
        waiting = asyncio.ensure_future(stuck.reached.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not task.done():
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert "error" in recorder.endings().values()
        await task if not task.cancelled() else None
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        recorder.check()
        return stuck.calls

    stages = asyncio.run(run(10_000))
    assert stages >= 10
    for at in range(1, stages + 1):
        asyncio.run(run(at))


@pytest.mark.slow
def test_an_error_at_any_stage_ends_every_run_it_started(call, no_leaks):
    class FailsAt:
        def __init__(self, at: int) -> None:
            self.at, self.calls = at, 0

        def __call__(self, x: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise ValueError("stage")
            return x

    def chain_of(function: Any) -> Any:
        def letters(items: Iterator[Any]) -> Iterator[Any]:
            for item in items:
                yield function(item)

        same = RunnableLambda(function)
        return (
            same
            | RunnableParallel(a=same, b=same)
            | RunnablePassthrough.assign(c=same)
            | RunnablePick("a")
            | RunnableBranch((same, same), same)
            | RunnableGenerator(letters)
            | same
        )

    for do in (call.invoke, call.stream):
        steps = FailsAt(10_000)
        do(chain_of(steps), 1)
        for at in range(1, steps.calls + 1):
            recorder = Recorder()
            with pytest.raises(ValueError, match="stage"):
                do(chain_of(FailsAt(at)), 1, {"callbacks": [recorder]})
            recorder.check()
            assert recorder.endings()["RunnableSequence"] == "error"


def test_a_stream_dropped_after_any_piece_ends_every_run_it_started(call):
    def letters(items: Iterator[str]) -> Iterator[str]:
        for item in items:
            yield from item

    chain = RunnableGenerator(letters) | RunnableParallel(a=letters, b=RunnablePassthrough())
    for piece_count in range(7):
        recorder = Recorder()
        if not call.is_async:
            stream = chain.stream("abc", {"callbacks": [recorder]})
            for _ in range(piece_count):
                next(stream, None)
            stream.close()
        else:

            async def main(piece_count: int = piece_count, recorder: Recorder = recorder) -> None:
                stream = chain.astream("abc", {"callbacks": [recorder]})
                for _ in range(piece_count):
                    await anext(stream, None)
                await stream.aclose()

            asyncio.run(main())
        recorder.check()
        if (
            piece_count
        ):  # a branch under way is cancelled in a task, closed in a thread; the whole just ends
            assert recorder.endings()["RunnableSequence"] == "end"


def test_a_stream_nobody_reads_starts_nothing(call):
    recorder = Recorder()
    chain = RunnableLambda(lambda x: x) | (lambda x: x)
    if not call.is_async:
        chain.stream(1, {"callbacks": [recorder]}).close()
    else:
        asyncio.run(chain.astream(1, {"callbacks": [recorder]}).aclose())
    assert recorder.started == {}


def test_the_end_of_a_streamed_run_says_what_it_gave(call):
    recorder = Recorder()
    call.transform(
        RunnableGenerator(lambda_letters, name="g"), ["ab", "c"], {"callbacks": [recorder]}
    )

    assert recorder.outputs() == {"g": "abc"}


def lambda_letters(items: Iterator[str]) -> Iterator[str]:
    for item in items:
        yield from item


def test_run_name_and_id_are_for_the_run_and_not_its_children(call):
    recorder = Recorder()
    chain = RunnableLambda(lambda x: x, name="one") | RunnableLambda(lambda x: x, name="two")
    call.invoke(chain, 1, {"callbacks": [recorder], "run_name": "whole", "metadata": {"m": 1}})

    assert recorder.names() == ["whole", "one", "two"]
    assert all(run["metadata"] == {"m": 1} for run in recorder.started.values())


def test_with_nobody_listening_no_id_is_made(call, monkeypatch):
    def refuse() -> None:
        raise AssertionError("an id was made")

    monkeypatch.setattr("foldline._run.uuid7", refuse)
    chain = RunnableLambda(lambda x: x) | {"a": lambda x: x}
    assert call.invoke(chain, 1) == {"a": 1}
    assert call.stream(chain, 1) == [{"a": 1}]


def test_pieces_that_cannot_be_added_are_replaced_by_the_newer(call):
    recorder = Recorder()

    def grow(items: Iterator[Any]) -> Iterator[Any]:
        yield {"a": 1}
        yield {"a": 1, "b": 2}

    assert call.invoke(RunnableGenerator(grow), 1, {"callbacks": [recorder]}) == {"a": 1, "b": 2}
    assert recorder.outputs() == {"grow": {"a": 1, "b": 2}}
