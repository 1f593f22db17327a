"""Functions as runnables: sync and async, generators, returned runnables, recursion, what they may ask for."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from operator import itemgetter
from typing import Any

import pytest

from foldline._io.waiting import THREADS
from foldline.callbacks.base import BaseCallbackHandler
from foldline.exceptions import BlockingCallError, RecursionLimitError, UsageError
from foldline.runnables import RunnableConfig, RunnableLambda, chain
from tests.runnables.recording import Recorder

COLOUR: ContextVar[str] = ContextVar("COLOUR", default="none")


def test_a_function_is_called(call):
    assert call.invoke(RunnableLambda(lambda x: x + 1), 1) == 2
    assert call.stream(RunnableLambda(lambda x: x + 1), 1) == [2]
    assert call.invoke(RunnableLambda(itemgetter("a")), {"a": 1}) == 1


def test_each_mode_calls_its_own_function(call):
    async def async_function(x: int) -> str:
        return "async"

    assert call.invoke(RunnableLambda(lambda x: "sync", afunc=async_function), 1) == call.mode


def test_an_async_only_function_in_a_blocking_call_says_what_to_do():
    async def only(x: int) -> int:
        return x

    for do in (lambda r: r.invoke(1), lambda r: list(r.stream(1)), lambda r: r.batch([1])):
        with pytest.raises(BlockingCallError, match=r"only is an async function .* use ainvoke"):
            do(RunnableLambda(only))
    with pytest.raises(BlockingCallError, match="use ainvoke"):
        RunnableLambda(lambda x: only(x)).invoke(1)


def test_a_generator_function_streams_and_adds_up(call):
    def letters(word: str) -> Iterator[str]:
        yield from word

    assert call.stream(RunnableLambda(letters), "abc") == ["a", "b", "c"]
    assert call.invoke(RunnableLambda(letters), "abc") == "abc"
    assert call.invoke(RunnableLambda(letters), "") is None


def test_an_async_generator_function_streams():
    async def letters(word: str) -> AsyncIterator[str]:
        for letter in word:
            yield letter

    async def main() -> list[str]:
        return [piece async for piece in RunnableLambda(letters).astream("ab")]

    assert asyncio.run(main()) == ["a", "b"]
    with pytest.raises(BlockingCallError):
        RunnableLambda(letters).invoke("ab")


def test_a_generator_that_raises_half_way_gives_what_it_had_and_then_the_error(call):
    recorder = Recorder()
    got = []

    def half(x: int) -> Iterator[int]:
        yield x
        raise ValueError("half-way")

    def keep(pieces: Iterator[int]) -> Iterator[int]:
        for piece in pieces:
            got.append(piece)
            yield piece

    with pytest.raises(ValueError, match="half-way"):
        call.stream(RunnableLambda(half) | keep, 1, {"callbacks": [recorder]})

    assert got == [1]
    assert set(recorder.endings().values()) == {"error"}
    recorder.check()


def test_a_returned_runnable_is_run_in_its_place(call):
    recorder = Recorder()
    outer = RunnableLambda(lambda x: RunnableLambda(lambda y: y + 1, name="inner"), name="outer")

    assert call.invoke(outer, 1, {"callbacks": [recorder]}) == 2
    assert call.stream(outer, 1) == [2]
    assert recorder.parent_of("inner") == "outer"
    recorder.check()


def test_a_recursion_without_end_is_ended(call):
    recorder = Recorder()

    def recurse(x: int) -> RunnableLambda[int, int]:
        return RunnableLambda(recurse)

    with pytest.raises(RecursionLimitError, match="recursion_limit"):
        call.invoke(RunnableLambda(recurse), 1, {"callbacks": [recorder], "recursion_limit": 10})

    assert len(recorder.started) == 10
    recorder.check()
    with pytest.raises(RecursionError):
        call.invoke(RunnableLambda(recurse), 1)


def test_a_function_may_ask_for_config_and_run_manager(call):
    def nosy(x: int, config: RunnableConfig, run_manager: Any) -> Any:
        return config["tags"], config["configurable"], hasattr(run_manager, "get_child")

    call_config = {"tags": ["a"], "configurable": {"k": 1}}
    assert call.invoke(RunnableLambda(nosy), 1, call_config) == (["a"], {"k": 1}, True)


def test_keyword_arguments_reach_the_function(call):
    assert call.invoke(RunnableLambda(lambda x, plus=0: x + plus), 1, plus=2) == 3


def test_runnables_called_inside_are_children(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x + 1, name="inner")

    def blocking(x: int) -> int:
        return inner.invoke(x)

    async def async_function(x: int) -> int:
        return await inner.ainvoke(x)

    outer = RunnableLambda(blocking, afunc=async_function, name="outer")
    assert call.invoke(outer, 1, {"callbacks": [recorder], "tags": ["t"]}) == 2

    assert recorder.parent_of("inner") == "outer"
    assert recorder.tags_of("inner") == ["t"]
    recorder.check()


def test_runnables_called_inside_a_generator_are_children_at_every_step(call):
    recorder = Recorder()
    inner = RunnableLambda(lambda x: x + 1, name="inner")
    after = []

    def count(x: int) -> Iterator[int]:
        for n in range(3):
            yield inner.invoke(n)

    outer = RunnableLambda(count, name="outer")
    assert call.stream(outer, 0, {"callbacks": [recorder]}) == [1, 2, 3]
    call.invoke(RunnableLambda(lambda x: after.append(x)), 1)

    assert [run["name"] for run in recorder.started.values()] == ["outer", *["inner"] * 3]
    assert {recorder.parent_of("inner")} == {"outer"}
    recorder.check()


def test_FC07_context_variables_are_seen_inside_and_not_leaked_back(call):
    def look(x: int) -> str:
        colour = COLOUR.get()
        COLOUR.set("inside")
        return colour

    token = COLOUR.set("outside")
    try:
        assert call.invoke(RunnableLambda(look), 1) == "outside"
        assert call.batch(RunnableLambda(lambda x: COLOUR.get()), [1, 2]) != ["none", "none"]
    finally:
        COLOUR.reset(token)


def test_FC07_a_batch_does_not_leak_what_its_items_set(call):
    def put(x: int) -> str:
        before = COLOUR.get()
        COLOUR.set(f"item {x}")
        return before

    token = COLOUR.set("outside")
    try:
        assert call.batch(RunnableLambda(put), [1, 2, 3], {"max_concurrency": 1}) == ["outside"] * 3
        assert call.batch(RunnableLambda(put), [1, 2, 3]) == ["outside"] * 3
        assert COLOUR.get() == "outside"
    finally:
        COLOUR.reset(token)


def test_FC10_a_blocking_call_inside_a_running_loop_works():
    nested = RunnableLambda(lambda x: RunnableLambda(lambda y: y + 1).invoke(x))

    async def main() -> tuple[int, list[int]]:
        return nested.invoke(1), list((nested | nested).stream(1))

    assert asyncio.run(main()) == (2, [3])


def test_FC10_a_blocking_call_from_a_callback_works(call):
    results = []

    class Caller(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
            results.append(RunnableLambda(lambda x: x + 1).invoke(41))

    call.invoke(RunnableLambda(lambda x: x), 1, {"callbacks": [Caller()]})
    assert results == [42]


def test_a_StopIteration_of_the_user_is_an_error_and_no_end(call):
    def stop(x: Any) -> Any:
        return next(iter([]))

    for do in (call.invoke, call.stream):
        with pytest.raises(RuntimeError, match="StopIteration"):
            do(RunnableLambda(stop), 1)
    with pytest.raises(RuntimeError, match="StopIteration"):
        call.batch(RunnableLambda(stop), [1, 2])


def test_chain_names_a_runnable_after_its_function(call):
    @chain
    def double(x: int) -> int:
        return x * 2

    assert double.get_name() == "double"
    assert call.batch(double, [1, 2]) == [2, 4]


def test_what_is_no_function_is_refused():
    async def async_function(x: Any) -> Any:
        return x

    with pytest.raises(TypeError, match="needs a function, not int: 3"):
        RunnableLambda(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is async already"):
        RunnableLambda(async_function, afunc=async_function)


def test_equality_and_repr():
    def f(x: Any) -> Any:
        return x

    assert RunnableLambda(f) == RunnableLambda(f)
    assert hash(RunnableLambda(f)) == hash(RunnableLambda(f))
    assert RunnableLambda(f) != RunnableLambda(lambda x: x)
    assert repr(RunnableLambda(f)) == "RunnableLambda(f)"
    assert repr(RunnableLambda(itemgetter("a"))) == "RunnableLambda(itemgetter('a'))"
    assert repr(RunnableLambda(lambda x: x + 1)) == "RunnableLambda(lambda x: x + 1)"
    assert repr(RunnableLambda(eval("lambda x: x"))) == "RunnableLambda(...)"
    assert RunnableLambda(f).get_name("input") == "f_input"
    assert RunnableLambda(lambda x: x).get_name("input") == "RunnableLambdaInput"


def test_a_function_that_calls_itself_without_end_is_told_what_to_do(call):
    def recurse(value):
        return endless.invoke(value)

    endless = RunnableLambda(recurse)
    with pytest.raises(RecursionLimitError, match="end the recursion"):
        call.invoke(endless, 1)


def test_deps_are_the_runnables_a_function_names():
    inner = RunnableLambda(str)
    outer = RunnableLambda(lambda x: inner.invoke(x))
    assert outer.deps == [inner]
    assert outer.config_specs == []
    assert RunnableLambda(len).deps == []


class AsyncCallable:
    """An object whose call is async."""

    async def __call__(self, x: int) -> int:
        return x


def test_FC03_an_async_object_runs_on_the_loop_and_no_coroutine_is_dropped(monkeypatch):
    def no_thread(_: object) -> None:
        raise AssertionError("an async call needs no thread")

    monkeypatch.setattr(THREADS, "submit", no_thread)
    assert asyncio.run(RunnableLambda(AsyncCallable()).ainvoke(1)) == 1


def test_FC03_a_coroutine_that_nobody_awaits_any_more_is_closed():
    coroutines: list[Any] = []
    entered_event, go = threading.Event(), threading.Event()

    def lazy_exports(_: object) -> Any:
        entered_event.set()
        go.wait(10)
        coroutines.append(AsyncCallable()(1))
        return coroutines[0]

    async def cancel_while_it_runs() -> None:
        task = asyncio.ensure_future(RunnableLambda(lazy_exports).ainvoke(1))
        while not entered_event.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        while not coroutines or inspect.getcoroutinestate(coroutines[0]) != inspect.CORO_CLOSED:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(cancel_while_it_runs(), 20))


def test_a_pickled_lambda_runs_in_another_process():
    import pickle
    import subprocess
    import sys

    data = pickle.dumps(RunnableLambda(str.upper) | RunnableLambda(len))
    program = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).invoke('abc'))"
    result = subprocess.run(
        [sys.executable, "-c", program, data.hex()],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert result.stdout.strip() == "3"
