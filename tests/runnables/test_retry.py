"""`with_retry`: which errors are retried, when, how often, and by which layer."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from foldline._retry import is_owned, owning_retries
from foldline.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelQuotaError,
    ModelRateLimitError,
    OutputParserException,
    UsageError,
)
from foldline.runnables import RunnableLambda
from foldline.runnables.retry import RunnableRetry
from tests.runnables.failing import Flaky, Model, stream_failing
from tests.runnables.recording import Recorder


def at_once(runnable: Any, **options: Any) -> Any:
    return runnable.with_retry(wait_exponential_jitter=False, **options)


def test_a_failing_runnable_is_tried_until_it_answers(call):
    flaky = Flaky(failures=2)

    assert call.invoke(at_once(flaky.runnable()), 7) == 7
    assert flaky.calls == [7, 7, 7]


def test_after_the_last_attempt_the_error_is_raised(call):
    flaky = Flaky(failures=9)

    with pytest.raises(ValueError, match="not yet"):
        call.invoke(at_once(flaky.runnable(), stop_after_attempt=2), 7)

    assert flaky.calls == [7, 7]


def test_only_the_named_errors_are_tried_again(call):
    flaky = Flaky(failures=1, error=KeyError("k"))

    with pytest.raises(KeyError):
        call.invoke(at_once(flaky.runnable(), retry_if_exception_type=(ValueError,)), 7)

    assert flaky.calls == [7]
    assert call.invoke(at_once(flaky.runnable(), retry_if_exception_type=KeyError), 7) == 7


def test_a_function_may_say_what_is_tried_again(call):
    retried = at_once(
        Flaky(1, ValueError("soon")).runnable(), retry_if_exception_type=lambda e: "soon" in str(e)
    )
    chain = at_once(
        Flaky(1, ValueError("never")).runnable(), retry_if_exception_type=lambda e: "soon" in str(e)
    )

    assert call.invoke(retried, 1) == 1
    with pytest.raises(ValueError, match="never"):
        call.invoke(chain, 1)


def test_of_a_batch_only_what_failed_is_tried_again(call):
    calls: list[int] = []

    def odd_ones_fail_once(x: int) -> int:
        calls.append(x)
        if x % 2 and calls.count(x) == 1:
            raise ValueError(x)
        return x * 10

    assert call.batch(at_once(RunnableLambda(odd_ones_fail_once)), [1, 2, 3, 4]) == [10, 20, 30, 40]
    assert sorted(calls) == [1, 1, 2, 3, 3, 4]


def test_FC12_a_batch_item_that_stays_broken_leaves_the_others_reachable(call):
    runnable = at_once(RunnableLambda(lambda x: 1 // x), stop_after_attempt=2)

    results = call.batch(runnable, [1, 0, -1], return_exceptions=True)

    assert results[0] == 1
    assert isinstance(results[1], ZeroDivisionError)
    assert results[2] == -1


def test_a_stream_is_tried_again_before_its_first_piece(call):
    runnable, attempts = stream_failing(times=2, at=0, pieces=["a", "b"])

    assert call.stream(at_once(runnable), "in") == ["a", "b"]
    assert len(attempts) == 3


def test_a_stream_is_not_tried_again_after_its_first_piece(call):
    runnable, attempts = stream_failing(times=1, at=1, pieces=["a", "b"])

    with pytest.raises(ValueError, match="broken at 1"):
        call.stream(at_once(runnable), "in")

    assert len(attempts) == 1


def test_a_transform_gives_the_next_attempt_what_the_failed_one_had_read(call):
    runnable, attempts = stream_failing(times=1, at=0, pieces=["a", "b", "c"])

    assert call.transform(at_once(runnable), [1, 2, 3]) == ["a", "b", "c"]
    assert attempts == [[1], [1, 2, 3]]


def test_inputs_that_break_are_not_read_again(call):
    runnable, attempts = stream_failing(times=0, at=0, pieces=["a"])

    def broken() -> Any:
        raise ValueError("the source broke")
        yield

    with pytest.raises(ValueError, match="the source broke"):
        call.transform(at_once(runnable), broken())

    assert len(attempts) == 1


def test_an_empty_stream_is_an_answer(call):
    runnable, attempts = stream_failing(times=0, at=0, pieces=[])

    assert call.stream(at_once(runnable), "in") == []
    assert len(attempts) == 1


def test_each_attempt_is_a_run_of_its_own_under_the_retry(call):
    recorder = Recorder()

    call.invoke(at_once(Flaky(2).runnable()), 1, {"callbacks": [recorder]})

    assert [run["tags"] for run in recorder.started.values()] == [
        [], [], ["retry:attempt:2"], ["retry:attempt:3"]
    ]  # fmt: skip
    first = next(iter(recorder.started))
    assert {run["parent_run_id"] for run in recorder.started.values()} == {None, first}
    assert [kind for _, kind, _ in recorder.finished] == ["error", "error", "end", "end"]
    recorder.check()


def test_listeners_are_told_of_every_retry(call):
    class Listener(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.retries: list[Any] = []

        def on_retry(self, retry_state: Any, **kwargs: Any) -> None:
            self.retries.append(
                (retry_state["attempt"], str(retry_state["error"]), retry_state["delay"])
            )

    listener = Listener()
    call.invoke(at_once(Flaky(2).runnable()), 1, {"callbacks": [listener]})

    assert listener.retries == [(1, "not yet", 0.0), (2, "not yet", 0.0)]


def test_waits_grow_and_have_an_end():
    retry = RunnableRetry(
        bound=RunnableLambda(lambda x: x),
        exponential_jitter_params={"initial": 2, "exp_base": 3, "jitter": 0, "max": 20},
    )

    assert [retry._delay(ValueError(), attempt) for attempt in (1, 2, 3, 10**6)] == [2, 6, 18, 20]
    jittered = RunnableRetry(bound=retry.bound, exponential_jitter_params={"jitter": 0.5})
    assert 1 <= jittered._delay(ValueError(), 1) <= 1.5


@pytest.mark.timing
def test_it_really_waits(call):
    retry = Flaky(1).runnable().with_retry(exponential_jitter_params={"initial": 0.05, "jitter": 0})

    start = time.monotonic()
    call.invoke(retry, 1)

    assert time.monotonic() - start >= 0.05


@pytest.mark.timing
def test_E4_retry_after_is_honoured_up_to_its_cap(call):
    soon = Flaky(1, ModelRateLimitError("slow down", retry_after=0.05))
    limited = Flaky(1, ModelRateLimitError("slow down", retry_after=61))

    start = time.monotonic()
    assert call.invoke(at_once(soon.runnable()), 1) == 1
    assert time.monotonic() - start >= 0.05
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(at_once(limited.runnable()), 1)
    assert excinfo.value.retry_after == 61
    assert limited.calls == [1]


@pytest.mark.parametrize(
    "error", [ModelAuthenticationError("who?"), ModelQuotaError("broke"), UsageError("wrong")]
)
def test_E4_what_cannot_get_better_is_tried_again_only_where_named(call, error):
    once, twice = Flaky(1, error), Flaky(1, error)

    with pytest.raises(type(error)):
        call.invoke(at_once(once.runnable()), 1)
    assert once.calls == [1]
    assert call.invoke(at_once(twice.runnable(), retry_if_exception_type=(type(error),)), 1) == 1


def test_E4_FH06_a_model_under_with_retry_leaves_the_retries_to_it(call):
    model = Model(errors=[ModelAPIError("down")] * 9, requests=[])

    with pytest.raises(ModelAPIError) as excinfo:
        call.invoke(at_once(model, stop_after_attempt=3), "hi")

    assert len(model.requests) == 3
    assert excinfo.value.attempts == 3


def test_FH06_retry_under_retry_and_fallback_stays_within_the_budget(call):
    first = Model(errors=[ModelAPIError("down")] * 99, requests=[])
    second = Model(errors=[ModelAPIError("down too")] * 99, requests=[])
    inner = at_once(first, stop_after_attempt=5).with_fallbacks(
        [at_once(second, stop_after_attempt=5)]
    )

    with pytest.raises(ModelAPIError, match="down"):
        call.invoke(at_once(inner, stop_after_attempt=2), "hi")

    assert (len(first.requests), len(second.requests)) == (2, 2)


def test_an_inner_retry_still_handles_what_the_outer_one_does_not(call):
    flaky = Flaky(2)

    inner = at_once(flaky.runnable())
    assert call.invoke(at_once(inner, retry_if_exception_type=(OutputParserException,)), 1) == 1
    assert flaky.calls == [1, 1, 1]


def test_the_owner_is_known_inside_and_nobody_owns_outside():
    error = ModelAPIError("down")

    assert not is_owned(error)
    with owning_retries():
        assert is_owned(error)
    with owning_retries(lambda e: isinstance(e, KeyError)):
        assert not is_owned(error)
    assert not is_owned(error)


def test_after_the_first_piece_models_own_their_retries_again(call):
    owned: list[bool] = []

    def speak(_: Any) -> Any:
        owned.append(is_owned(ModelAPIError("down")))
        yield "a"
        owned.append(is_owned(ModelAPIError("down")))
        yield "b"

    assert call.stream(at_once(RunnableLambda(speak)), 1) == ["a", "b"]
    assert owned == [True, False]


@pytest.mark.timing
def test_cancellation_is_not_tried_again():
    calls: list[int] = []

    async def slow(x: int) -> int:
        calls.append(x)
        await asyncio.sleep(60)
        return x

    async def main() -> None:
        retry = at_once(RunnableLambda(slow), retry_if_exception_type=(BaseException,))
        task = asyncio.ensure_future(retry.ainvoke(1))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == [1]


def test_arguments_and_config_reach_every_attempt(call):
    calls: list[Any] = []

    def note(x: int, config: Any, *, exponent: int = 1) -> int:
        calls.append((exponent, config["tags"]))
        if len(calls) < 2:
            raise ValueError("again")
        return x**exponent

    retry = at_once(RunnableLambda(note)).with_config(tags=["t"])

    assert call.invoke(retry, 3, exponent=2) == 9
    assert calls == [(2, ["t"]), (2, ["t"])]


def test_no_attempt_at_all_is_refused():
    with pytest.raises(UsageError, match="at least 1, not 0"):
        RunnableLambda(lambda x: x).with_retry(stop_after_attempt=0)


@pytest.mark.slow
def test_no_thread_task_or_run_is_left_behind(call, no_leaks):
    recorder = Recorder()
    runnable, _ = stream_failing(times=9, at=0, pieces=["a"])

    with pytest.raises(ValueError, match="broken"):
        call.stream(at_once(runnable), 1, {"callbacks": [recorder]})

    recorder.check()


def test_a_transform_without_inputs_gives_nothing(call):
    runnable, attempts = stream_failing(times=1, at=0, pieces=["a"])

    assert call.transform(at_once(RunnableLambda(lambda x: x)), []) == []
    assert call.transform(at_once(runnable), []) == ["a"]
    assert attempts == [[], []]


def test_inputs_that_break_later_are_heard(call):
    def broken() -> Any:
        yield 1
        yield 2
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        call.transform(at_once(stream_failing(times=0, at=0, pieces=["a", "b", "c"])[0]), broken())


def test_a_retried_stream_of_inputs_is_closed_by_its_reader():
    closings: list[bool] = []

    def source() -> Any:
        try:
            yield from "abc"
        finally:
            closings.append(True)

    stream = at_once(stream_failing(times=1, at=0, pieces=["a", "b", "c"])[0]).transform(source())
    assert next(stream) == "a"
    stream.close()

    assert closings == [True]
