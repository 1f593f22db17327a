from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from foldline.exceptions import BudgetExceeded, ModelRateLimitError, UsageError
from foldline.language_models import ChatModel, Limits, current_usage, usage_scope
from foldline.language_models._call.policies.usage import cost_of, time_left
from foldline.messages import AIMessage
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.runnables import RunnableLambda
from tests.language_models.scripted import KINDS, Speaking, usage

TEN = AIMessage("hi", usage_metadata=usage(8, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scope_counts_what_is_spent_inside(call, kind):
    model = kind(answers=[AIMessage("hi", usage_metadata=usage(8, 2, cache_read=5))])

    with usage_scope() as scope:
        call.invoke(model, "x")
        call.stream(model, "x")
        call.stream_v2(model, "x")
    call.invoke(model, "x")

    assert (scope.input_tokens, scope.output_tokens, scope.total_tokens) == (24, 6, 30)
    assert scope.usage["input_token_details"]["cache_read"] == 15
    assert scope.model_calls == 3


def test_scopes_nest_and_roll_up(call):
    model = Speaking(answers=[TEN])

    with usage_scope() as outer:
        call.invoke(model, "x")
        with usage_scope(Limits(model_calls=1)) as inner:
            call.invoke(model, "x")

    assert (outer.total_tokens, inner.total_tokens) == (20, 10)
    assert current_usage() is None


def test_a_call_too_many_raises_before_it_is_made(call):
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(model_calls=2)):
        call.invoke(model, "x")
        call.invoke(model, "x")
        with pytest.raises(BudgetExceeded, match="model_calls used 2 of the 2") as excinfo:
            call.invoke(model, "x")

    assert len(model.requests) == 2
    assert (excinfo.value.used, excinfo.value.limit) == (3, 2)


def test_an_outer_limit_holds_inside(call):
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(model_calls=1)), usage_scope(Limits(model_calls=5)):
        call.invoke(model, "x")
        with pytest.raises(BudgetExceeded):
            call.invoke(model, "x")


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_past_the_limit_raises_with_the_answer(call, kind):
    model = kind(answers=[TEN])

    with usage_scope(Limits(total_tokens=9)) as scope, pytest.raises(BudgetExceeded) as excinfo:
        call.invoke(model, "x")

    assert (excinfo.value.used, excinfo.value.limit) == (10, 9)
    assert excinfo.value.partial.text.strip() == "hi"
    assert scope.total_tokens == 10


def test_input_that_cannot_fit_is_not_sent(call):
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(input_tokens=10)), pytest.raises(BudgetExceeded, match="needs"):
        call.invoke(model, "word " * 100)

    assert model.requests == []


def test_failed_attempts_are_calls_too_and_their_usage_counts(call):
    broken = ModelRateLimitError("slow", partial=AIMessage("", usage_metadata=usage(8, 0)))
    model = Speaking(answers=[broken, TEN])

    with usage_scope() as scope:
        answer = call.invoke(model, "x")

    assert scope.model_calls == 2
    assert scope.total_tokens == 18
    assert answer.usage_metadata["total_tokens"] == 18
    assert answer.response_metadata["retries"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_a_guard_holds_back_and_breaks_on_has_its_usage_counted(call, kind):
    def broken(message):
        raise ValueError("a defect of the guard")

    model = kind(answers=[TEN], guards=[broken])

    with usage_scope() as scope, pytest.raises(ValueError, match="a defect of the guard"):
        call.invoke(model, "x")

    assert (scope.model_calls, scope.total_tokens) == (1, 10)


def test_parallel_calls_do_not_overshoot_the_number_of_calls(call):
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(model_calls=5)) as scope:
        outcomes = call.batch(model, ["x"] * 20, return_exceptions=True)

    assert scope.model_calls == 5
    assert len(model.requests) == 5
    assert sum(isinstance(outcome, BudgetExceeded) for outcome in outcomes) == 15


class Slow(ChatModel):
    """Takes a little while, so that calls overlap, and spends ten tokens."""

    running: int = 0
    most: int = 0

    async def process(self, input, options):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        return {"text": "hi", "usage": {"input_tokens": 4, "output_tokens": 6}}


@pytest.mark.parametrize("options", [{}, {"max_tokens": 6}])
def test_parallel_calls_do_not_overshoot_tokens(call, options):
    model = Slow()

    with usage_scope(Limits(total_tokens=50)) as scope:
        outcomes = call.batch(model, ["x"] * 12, return_exceptions=True, **options)

    assert scope.total_tokens <= 50
    assert sum(isinstance(outcome, AIMessage) for outcome in outcomes) >= 4
    assert all(isinstance(outcome, AIMessage | BudgetExceeded) for outcome in outcomes)


def test_calls_that_fit_beside_one_another_run_at_once():
    model = Slow()

    with usage_scope(Limits(total_tokens=10_000)):
        asyncio.run(model.abatch(["x"] * 8, max_tokens=10))

    assert model.most > 1


@pytest.mark.timing
def test_a_model_that_asks_another_model_does_not_wait_for_itself(call):
    inner = Speaking(answers=[TEN])

    class Outer(ChatModel):
        def process(self, input, options):
            return {"text": inner.invoke("x").text}

    with usage_scope(Limits(total_tokens=100)) as scope:
        assert call.invoke(Outer(), "x").text.strip() == "hi"

    assert scope.model_calls == 2


def test_scopes_reach_runnables_threads_and_tasks(call):
    model = Speaking(answers=[TEN])
    chain = RunnableLambda(lambda text: text) | model

    with usage_scope() as scope:
        call.batch(chain, ["a"] * 6)

    assert scope.total_tokens == 60


def test_cost_is_counted_by_the_prices_of_the_profile(call):
    prices = {"input": 1_000_000.0, "output": 2_000_000.0, "cache_read": 100_000.0}
    model = Speaking(
        answers=[AIMessage("hi", usage_metadata=usage(10, 1, cache_read=5))],
        profile={"prices": prices},
    )

    with usage_scope(Limits(cost=100)) as scope:
        call.invoke(model, "x")

    assert scope.cost == pytest.approx(5 + 0.5 + 2)
    assert cost_of(usage(1, 1), None) is None
    assert cost_of({"total_cost": 0, "input_tokens": 5}, prices) == 0


def test_a_limit_of_cost_without_prices_says_what_to_give(call):
    with usage_scope(Limits(cost=1)), pytest.raises(UsageError, match="prices"):
        call.invoke(Speaking(answers=[TEN]), "x")


@pytest.mark.timing
def test_a_timeout_cancels_an_awaited_call():
    cancellations = []

    class HangingModel(ChatModel):
        async def process(self, input, options):
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancellations.append(True)
                raise

    async def body():
        with usage_scope(Limits(timeout=0.05)):
            await HangingModel().ainvoke("x")

    start = time.monotonic()
    with pytest.raises(BudgetExceeded, match=r"0\.05 s"):
        asyncio.run(body())

    assert cancellations == [True]
    assert time.monotonic() - start < 5


@pytest.mark.timing
def test_a_timeout_stops_a_stream_between_events(call):
    class Dripping(ChatModel):
        def process(self, input, options):
            for _ in range(200):
                time.sleep(0.02)
                yield {"text": "x"}

    start = time.monotonic()
    with usage_scope(Limits(timeout=0.1)), pytest.raises(BudgetExceeded):
        call.stream(Dripping(), "x")

    assert time.monotonic() - start < 2


@pytest.mark.timing
def test_a_timeout_ends_a_stream_that_hangs_and_its_generator_is_closed_afterwards(call):
    mark = ContextVar("mark", default="")
    release, closed_event = threading.Event(), threading.Event()

    class Hanging(ChatModel):
        def process(self, input, options):
            token = mark.set("inside")
            try:
                yield {"text": "x"}
                yield {"text": mark.get()}
                release.wait(30)
                yield {"text": "late"}
            finally:
                mark.reset(token)
                closed_event.set()

    with usage_scope(Limits(timeout=0.2)), pytest.raises(BudgetExceeded) as excinfo:
        call.stream(Hanging(), "x")

    assert not closed_event.is_set()
    release.set()
    assert excinfo.value.partial.text == "xinside"
    assert closed_event.wait(5)


@pytest.mark.timing
def test_nothing_is_tried_again_where_no_time_is_left_to_wait(call):
    slow = ModelRateLimitError("slow", is_retryable=True, retry_after=30)
    model = Speaking(answers=[slow])

    start = time.monotonic()
    with usage_scope(Limits(timeout=5)), pytest.raises(ModelRateLimitError):
        call.invoke(model, "x")

    assert len(model.requests) == 1
    assert time.monotonic() - start < 5


@pytest.mark.timing
def test_a_rate_limiter_is_not_waited_for_beyond_the_deadline(call):
    limiter = InMemoryRateLimiter(requests_per_second=0.001)
    model = Speaking(answers=["hi"], rate_limiter=limiter)

    with usage_scope(Limits(timeout=0.1)), pytest.raises(BudgetExceeded, match=r"0\.1 s"):
        call.invoke(model, "x")

    assert model.requests == []


@pytest.mark.timing
def test_after_the_deadline_nothing_is_sent(call):
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(timeout=0.0)), pytest.raises(BudgetExceeded):
        call.invoke(model, "x")

    assert model.requests == []


@pytest.mark.timing
def test_the_time_that_is_left_is_known_to_transports():
    assert time_left() is None
    with usage_scope(Limits(timeout=100)), usage_scope(Limits(timeout=5)):
        assert 4 < time_left() <= 5
    with usage_scope(Limits(timeout=5)), usage_scope(Limits(timeout=100)):
        assert 4 < time_left() <= 5
    with usage_scope(Limits(timeout=5)), usage_scope(Limits(model_calls=1)):
        assert 4 < time_left() <= 5


def test_a_cached_answer_costs_nothing(call):
    from foldline.caches import InMemoryCache

    model = Speaking(answers=[TEN], cache=InMemoryCache())

    with usage_scope(Limits(model_calls=1)) as scope:
        call.invoke(model, "x")
        call.invoke(model, "x")

    assert scope.model_calls == 1
    assert scope.total_tokens == 10


@pytest.mark.parametrize("limits", [{"model_calls": -1}, {"timeout": -0.1}, {"cost": True}])
def test_limits_below_zero_are_refused(limits):
    with pytest.raises(UsageError):
        Limits(**limits)


def test_a_stream_that_is_dropped_gives_its_reservation_back():
    model = Speaking(answers=[TEN])

    with usage_scope(Limits(total_tokens=100)) as scope:
        stream = model.stream("x")
        next(stream)
        stream.close()
        model.invoke("x")

    assert scope.under_way == set()
    assert scope.model_calls == 2
