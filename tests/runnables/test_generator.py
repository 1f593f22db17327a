"""Generator functions from stream to stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from foldline.exceptions import BlockingCallError
from foldline.runnables import RunnableConfig, RunnableGenerator, RunnableLambda
from tests.runnables.recording import Recorder


async def collect(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


def upper(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        yield word.upper()


async def aupper(words: AsyncIterator[str]) -> AsyncIterator[str]:
    async for word in words:
        yield word.upper()


def test_a_stream_becomes_a_stream(call):
    runnable = RunnableGenerator(upper, aupper)

    assert call.transform(runnable, ["a", "b"]) == ["A", "B"]
    assert call.stream(runnable, "a") == ["A"]
    assert call.invoke(runnable, "a") == "A"
    assert call.batch(runnable, ["a", "b"]) == ["A", "B"]


@pytest.mark.slow
def test_a_blocking_generator_serves_async_calls_too(call, no_leaks):
    assert call.transform(RunnableGenerator(upper) | upper, ["a", "b", "c"]) == ["A", "B", "C"]


def test_an_async_generator_in_a_blocking_call_says_what_to_do():
    with pytest.raises(BlockingCallError, match=r"aupper is an async generator .* use ainvoke"):
        RunnableGenerator(aupper).invoke("a")
    assert asyncio.run(RunnableGenerator(aupper).ainvoke("a")) == "A"


def test_nothing_in_nothing_out(call):
    assert call.transform(RunnableGenerator(upper), []) == []

    def silent(words: Iterator[str]) -> Iterator[str]:
        yield from ()

    assert call.invoke(RunnableGenerator(silent), "a") is None


def test_it_may_ask_for_config(call):
    def nosy(words: Iterator[str], config: RunnableConfig) -> Iterator[Any]:
        for word in words:
            yield word + config["tags"][0]

    assert call.stream(RunnableGenerator(nosy), "a", {"tags": ["t"]}) == ["at"]


def test_runnables_called_inside_are_children(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x, name="inner")

    def outer(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            yield inner.invoke(word)

    call.transform(RunnableGenerator(outer), ["a", "b"], {"callbacks": [recorder]})

    assert recorder.parent_of("inner") == "outer"
    assert recorder.names() == ["outer", "inner", "inner"]
    recorder.check()


@pytest.mark.slow
def test_a_stream_left_early_runs_the_finally_of_every_step(call, no_leaks):
    names: list[str] = []

    def step(name: str) -> Any:
        def run(items: Iterator[int]) -> Iterator[int]:
            try:
                for item in items:
                    yield from range(item, item + 100)
            finally:
                names.append(name)

        return RunnableGenerator(run, name=name)

    chain = step("one") | step("two") | step("three")
    for config in (None, {"tags": ["slow path"]}):
        names.clear()
        if not call.is_async:
            stream = chain.stream(0, config)
            assert [next(stream), next(stream)] == [0, 1]
            stream.close()
        else:

            async def main(config: Any = config) -> None:
                stream = chain.astream(0, config)
                assert [await anext(stream), await anext(stream)] == [0, 1]
                await stream.aclose()

            asyncio.run(main())
        assert sorted(names) == ["one", "three", "two"]


def test_an_error_half_way_closes_the_steps_before(call):
    closings = []

    def source(items: Iterator[int]) -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closings.append("source")

    def fail(items: Iterator[int]) -> Iterator[int]:
        for item in items:
            if item == 2:
                raise ValueError("half-way")
            yield item

    with pytest.raises(ValueError, match="half-way"):
        call.stream(RunnableGenerator(source) | fail, 0)
    assert closings == ["source"]


def test_cancelling_while_a_blocking_generator_works_does_not_wait_for_it(no_leaks):
    go_on = threading.Event()
    closed_event = threading.Event()

    def stuck(items: Iterator[int]) -> Iterator[int]:
        try:
            for item in items:
                go_on.wait(10)
                yield item
        finally:
            closed_event.set()

    async def main() -> None:
        task = asyncio.ensure_future(RunnableGenerator(stuck).ainvoke(1))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not closed_event.is_set()
        go_on.set()
        assert await asyncio.to_thread(closed_event.wait, 5)

    asyncio.run(main())


def test_cancelling_while_a_blocking_generator_waits_for_its_input(no_leaks):
    closings = []

    async def slow(items: AsyncIterator[int]) -> AsyncIterator[int]:
        try:
            async for item in items:
                await asyncio.sleep(60)
                yield item
        finally:
            closings.append("source")

    def read(items: Iterator[int]) -> Iterator[int]:
        try:
            yield from items
        finally:
            closings.append("reader")

    async def main() -> None:
        task = asyncio.ensure_future(collect((RunnableGenerator(slow) | read).astream(1)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(closings) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 5))
    assert sorted(closings) == ["reader", "source"]


@pytest.mark.parametrize("bad", [3, len, lambda x: x])
def test_what_is_no_generator_function_is_refused(bad: Any):
    with pytest.raises(TypeError, match="needs a generator function"):
        RunnableGenerator(bad)


def test_equality_and_repr():
    assert RunnableGenerator(upper) == RunnableGenerator(upper)
    assert hash(RunnableGenerator(upper)) == hash(RunnableGenerator(upper))
    assert RunnableGenerator(upper) != RunnableGenerator(aupper)
    assert repr(RunnableGenerator(upper)) == "RunnableGenerator(upper)"
