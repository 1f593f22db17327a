"""Parallel branches: at once, in one dict, streamed as they come."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from foldline.runnables import (
    AddableDict,
    RunnableGenerator,
    RunnableLambda,
    RunnableMap,
    RunnableParallel,
    RunnablePassthrough,
)
from tests.runnables.recording import Recorder

pytestmark = pytest.mark.timing


def test_branches_get_the_same_input(call):
    parallel = RunnableParallel(double=lambda x: x * 2, square=lambda x: x * x)

    assert call.invoke(parallel, 5) == {"double": 10, "square": 25}
    assert call.batch(parallel, [1, 2]) == [{"double": 2, "square": 1}, {"double": 4, "square": 4}]


def test_keys_keep_their_order_whoever_is_first(call):
    def slow(x: int) -> int:
        time.sleep(0.02)
        return x

    parallel = RunnableParallel(slow=slow, quick=lambda x: x)

    assert list(call.invoke(parallel, 1)) == ["slow", "quick"]


def test_branches_may_come_as_a_dict_as_arguments_nested_or_under_the_old_name(call):
    parallel = RunnableMap({"a": lambda x: x, "deep": {"b": lambda x: x + 1}}, c=lambda x: x + 2)

    assert call.invoke(parallel, 1) == {"a": 1, "deep": {"b": 2}, "c": 3}


def test_branches_run_at_once(call):
    meeting = threading.Barrier(3, timeout=5)

    def meet(x: int) -> int:
        meeting.wait()
        return x

    assert call.invoke(RunnableParallel(a=meet, b=meet, c=meet), 1) == {"a": 1, "b": 1, "c": 1}


def test_max_concurrency_limits_how_many_run_at_once(call):
    running, counts = [], []

    def watch(x: int) -> int:
        running.append(x)
        counts.append(len(running))
        time.sleep(0.01)
        running.remove(x)
        return x

    branches = {f"b{n}": watch for n in range(6)}
    call.invoke(RunnableParallel(branches), 1, {"max_concurrency": 2})

    assert max(counts) <= 2


def test_a_parallel_streams_its_branches_as_they_produce(call):
    quick_is_done = threading.Event()

    def slow(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            quick_is_done.wait(5)
            yield word

    def quick(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            yield from word
        quick_is_done.set()

    parallel = RunnableParallel(slow=RunnableGenerator(slow), quick=RunnableGenerator(quick))
    pieces = call.stream(parallel, "ab")

    assert pieces == [{"quick": "a"}, {"quick": "b"}, {"slow": "ab"}]
    assert all(isinstance(piece, AddableDict) for piece in pieces)


def test_every_branch_sees_every_piece_of_a_streamed_input(call):
    def mark(words: Iterator[str]) -> Iterator[str]:
        for word in words:
            yield f"<{word}>"

    parallel = RunnableParallel(whole=RunnableLambda(lambda x: x), pieces=RunnableGenerator(mark))
    pieces = call.transform(parallel, ["a", "b", "c"])
    total = sum(pieces, AddableDict())

    assert total == {"whole": "abc", "pieces": "<a><b><c>"}
    assert [piece["pieces"] for piece in pieces if "pieces" in piece] == ["<a>", "<b>", "<c>"]


def test_a_branch_that_reads_nothing_does_not_hold_up_the_others(call):
    def silent(words: Iterator[str]) -> Iterator[str]:
        yield "done"

    parallel = RunnableParallel(silent=RunnableGenerator(silent), all=RunnablePassthrough())
    total = sum(call.transform(parallel, list("abcdef")), AddableDict())

    assert total == {"silent": "done", "all": "abcdef"}


@pytest.mark.slow
def test_one_failing_branch_fails_the_whole_and_every_run_ends(call, no_leaks):
    recorder = Recorder()

    def fail(x: Any) -> Any:
        raise ValueError("no")

    parallel = RunnableParallel(good=RunnableLambda(lambda x: x, name="good"), bad=fail)
    for do in (call.invoke, call.stream):
        with pytest.raises(ValueError, match="no"):
            do(parallel, 1, {"callbacks": [recorder]})

    recorder.check()
    assert recorder.endings()["RunnableParallel<good,bad>"] == "error"


def test_a_failing_branch_cancels_its_siblings():
    cancellations = []

    async def forever(x: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            cancellations.append("cancelled")

    async def fail(x: Any) -> Any:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await RunnableParallel(forever=forever, fail=fail).ainvoke(1)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert cancellations == ["cancelled"]


@pytest.mark.slow
def test_the_source_that_raises_half_way_fails_every_branch(call, no_leaks):
    recorder = Recorder()

    def half(_: Iterator[Any]) -> Iterator[str]:
        yield "a"
        raise ValueError("half-way")

    chain = RunnableGenerator(half) | {"x": RunnablePassthrough(), "y": lambda x: x}
    with pytest.raises(ValueError, match="half-way"):
        call.stream(chain, 1, {"callbacks": [recorder]})

    recorder.check()
    assert "end" not in recorder.endings().values()


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_branches_closed_because_a_neighbour_failed_have_failed(call, no_leaks, depth):
    recorder = Recorder()
    has_begun = threading.Event()

    def endless(_: Iterator[Any]) -> Iterator[str]:
        while True:
            yield "on and on"
            has_begun.set()

    def fail(_: Iterator[Any]) -> Iterator[str]:
        has_begun.wait(5)
        raise ValueError("no")
        yield

    branch: Any = RunnableGenerator(endless) | RunnablePassthrough()
    for _ in range(depth):
        branch = {"endless": branch}
    parallel = RunnableParallel(deep=branch, fails=RunnableGenerator(fail))
    with pytest.raises(ValueError, match="no"):
        call.stream(parallel, 1, {"callbacks": [recorder]})

    recorder.check()
    assert set(recorder.endings().values()) == {"error"}


def test_tags_and_parents_of_branches(call):
    recorder = Recorder()
    chain = RunnableParallel(a=RunnableLambda(lambda x: x, name="branch"))
    call.invoke(chain, 1, {"callbacks": [recorder], "tags": ["mine"]})

    assert recorder.tags_of("branch") == ["map:key:a", "mine"]
    assert recorder.parent_of("branch") == "RunnableParallel<a>"


def test_a_stream_of_branches_closed_early_ends_every_run(no_leaks):
    recorder = Recorder()

    def count(_: Iterator[Any]) -> Iterator[int]:
        yield from range(1_000_000)

    parallel = RunnableParallel(
        a=RunnableGenerator(count, name="a"), b=RunnableGenerator(count, name="b")
    )
    stream = parallel.stream(0, {"callbacks": [recorder]})
    next(stream)
    stream.close()

    recorder.check()


def test_no_branches_give_an_empty_dict(call):
    assert call.invoke(RunnableParallel({}), 1) == {}
    assert call.stream(RunnableParallel({}), 1) == [{}]


def test_wrong_branches_are_refused():
    with pytest.raises(TypeError, match="needs a dict of branches, not list"):
        RunnableParallel([lambda x: x])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a Runnable, a function or a dict"):
        RunnableParallel(a=3)  # type: ignore[arg-type]
