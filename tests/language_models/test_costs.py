"""Costs of calls, and calls under a rate limiter: budgets that are not exceeded, permits that are settled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from foldline._run import Run
from foldline.caches import InMemoryCache
from foldline.callbacks import UsageMetadataCallbackHandler, get_usage_metadata_callback
from foldline.exceptions import BudgetExceeded, ModelRateLimitError, RateLimitError, UsageError
from foldline.language_models import ChatRequest, Limits, usage_scope
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.policies.stack import policies_for
from foldline.messages import AIMessage
from foldline.prices import find_prices
from foldline.providers.openai import ChatOpenAI
from foldline.rate_limiters import InMemoryRateLimiter, SQLiteRateLimiter
from foldline.testing.replay import ReplayTransport
from tests.language_models.scripted import KINDS, Speaking, usage

PRICES = {"input": 1.0, "output": 4.0}
THREE = AIMessage("hi", usage_metadata=usage(1000, 500))
"""An answer that costs 0.003 by these prices."""


class PricedModel(Speaking):
    """A model with a provider and a model name."""

    provider: str = "openai"
    named: str = "gpt-4o-mini"

    @property
    def _provider(self) -> str:
        return self.provider

    @property
    def _model_name(self) -> str:
        return self.named


class Slow(Speaking):
    """Takes a little while, so that calls overlap."""

    running: int = 0
    most: int = 0

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Any, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        await run.io.sleep(random.random() / 100)
        async with aclosing(super()._events(request, run)) as events:
            async for event in events:
                yield event
        self.running -= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_scope_and_an_answer_say_what_it_cost(call, kind):
    model = kind(answers=[THREE], profile={"prices": PRICES})

    with usage_scope() as scope:
        answer = call.invoke(model, "x")
        chunks = call.stream(model, "x")

    assert scope.cost == pytest.approx(0.006)
    assert answer.response_metadata["cost"] == pytest.approx(0.003)
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert total.response_metadata["cost"] == pytest.approx(0.003)


def test_the_table_has_the_price_where_the_profile_has_none(call):
    prices = find_prices("openai", "gpt-4o-mini")
    model = PricedModel(answers=[AIMessage("hi", usage_metadata=usage(1_000_000, 0))])

    with usage_scope() as scope:
        call.invoke(model, "x")
        call.invoke(model, "x", model="gpt-4o")

    assert prices is not None
    assert scope.cost == pytest.approx(prices["input"] + find_prices("openai", "gpt-4o")["input"])


def test_the_cost_of_a_scope_is_none_and_not_nothing_where_a_price_is_not_known(call):
    priced_model, unknown = (
        Speaking(answers=[THREE], profile={"prices": PRICES}),
        PricedModel(answers=[THREE], named="secret"),
    )

    with usage_scope() as scope:
        assert scope.cost == 0
        call.invoke(priced_model, "x")
        answer = call.invoke(unknown, "x")

    assert scope.cost is None
    assert scope.known_cost == pytest.approx(0.003)
    assert scope.unpriced_calls == 1
    assert "cost" not in answer.response_metadata


def test_an_answer_that_does_not_say_what_it_used_has_no_known_cost(call):
    model = Speaking(answers=["hi"], profile={"prices": PRICES}, rate_limiter=None)

    with usage_scope() as scope:
        answer = call.invoke(model, "x")

    assert scope.cost is None
    assert "cost" not in answer.response_metadata


def test_an_attempt_that_was_refused_costs_nothing(call):
    model = Speaking(answers=[ModelRateLimitError("slow"), THREE], profile={"prices": PRICES})

    with usage_scope() as scope:
        answer = call.invoke(model, "x")

    assert scope.cost == answer.response_metadata["cost"] == pytest.approx(0.003)


def test_a_failed_attempt_that_was_paid_for_is_part_of_the_cost(call):
    broken = ModelRateLimitError("slow", partial=AIMessage("", usage_metadata=usage(1000, 0)))
    model = Speaking(answers=[broken, THREE], profile={"prices": PRICES})

    with usage_scope() as scope:
        answer = call.invoke(model, "x")

    assert scope.cost == answer.response_metadata["cost"] == pytest.approx(0.004)


def test_another_service_has_another_price(call):
    prices = find_prices("openai", "gpt-5")
    million = AIMessage("hi", usage_metadata=usage(1_000_000, 0))
    flex_answer = AIMessage(
        "hi", usage_metadata=usage(1_000_000, 0), response_metadata={"service_tier": "flex"}
    )
    model = PricedModel(answers=[million, flex_answer], named="gpt-5")

    with usage_scope() as scope:
        call.invoke(model, "x", service_tier="priority")
        assert scope.cost == pytest.approx(prices["priority"]["input"])
        call.invoke(model, "x")

    assert scope.cost == pytest.approx(prices["priority"]["input"] + prices["flex"]["input"])
    with usage_scope(Limits(cost=1)), pytest.raises(UsageError, match="prices"):
        call.invoke(model, "x", service_tier="scale")


def test_an_answer_from_the_cache_costs_nothing(call):
    model = Speaking(answers=[THREE], profile={"prices": PRICES}, cache=InMemoryCache())

    with usage_scope() as scope:
        call.invoke(model, "x")
        cached_answer = call.invoke(model, "x")

    assert scope.cost == pytest.approx(0.003)
    assert cached_answer.response_metadata["cost"] == 0


# -- callbacks


def test_a_callback_sums_the_costs(call):
    handler = UsageMetadataCallbackHandler()
    metadata = {"model_provider": "openai", "model_name": "gpt-4o-mini"}
    answer = AIMessage("hi", usage_metadata=usage(1_000_000, 0), response_metadata=metadata)
    model = PricedModel(answers=[answer])

    assert handler.cost == 0
    call.invoke(model, "x", {"callbacks": [handler]})
    call.invoke(model, "x", {"callbacks": [handler]})

    price = find_prices("openai", "gpt-4o-mini")["input"]
    assert handler.cost == pytest.approx(2 * price)
    assert handler.costs == {"gpt-4o-mini": pytest.approx(2 * price)}
    call.invoke(Speaking(answers=[THREE]), "x", {"callbacks": [handler]})
    assert handler.cost is None


def test_a_callback_hears_the_cost_of_prices_that_were_set(call):
    model = Speaking(answers=[THREE], profile={"prices": PRICES}, cache=InMemoryCache())

    with get_usage_metadata_callback() as callback:
        call.invoke(model, "x")
        call.invoke(model, "x")  # from the cache

    assert callback.cost == pytest.approx(0.003)


# -- budgets


def test_a_plain_call_pays_for_none_of_this():
    model = Speaking(answers=[THREE])
    call = ChatCall(model, "x", Run.blocking(), stream=False)

    assert policies_for(call, model._request("x", Run.blocking(), stream=False)) == []


@pytest.mark.parametrize("bound", [{"max_tokens": 1500}, {}], ids=["bounded", "unbounded"])
@pytest.mark.slow
def test_a_budget_of_a_dollar_is_not_passed_by_ten_thousand_calls_at_once(bound: dict[str, int]):
    chance = random.Random(27)
    model = Slow(
        answers=[lambda _: AIMessage("hi", usage_metadata=usage(1000, chance.randint(800, 1500)))],
        profile={"prices": {"input": 10.0, "output": 40.0}},
    )

    async def run() -> list[Any]:
        calls = (model.ainvoke("x", **bound) for _ in range(10_000))
        return await asyncio.gather(*calls, return_exceptions=True)

    with usage_scope(Limits(cost=1.0)) as scope:
        outcomes = asyncio.run(run())

    answers = [outcome for outcome in outcomes if isinstance(outcome, AIMessage)]
    assert scope.cost <= 1.0
    assert scope.cost > 0.93  # less than one more call was left
    assert scope.cost == pytest.approx(sum(answer.response_metadata["cost"] for answer in answers))
    assert {type(outcome) for outcome in outcomes} == {AIMessage, BudgetExceeded}
    assert scope.reserved.cost == 0
    assert scope.model_calls == len(answers)
    assert model.most > 3


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_scope_without_limits_does_not_lift_those_of_another(is_inside):
    model = Slow(answers=[THREE], profile={"prices": PRICES})

    async def run() -> list[Any]:
        return await asyncio.gather(
            *(model.ainvoke("x") for _ in range(50)), return_exceptions=True
        )

    limits = [Limits(cost=0.01), Limits()]
    with usage_scope(limits[not is_inside]) as outer, usage_scope(limits[is_inside]) as inner:
        asyncio.run(run())

    assert outer.cost == inner.cost == pytest.approx(0.009)


def test_a_service_that_was_not_granted_is_paid_as_the_usual_one(call):
    prices = find_prices("openai", "gpt-5")
    million = AIMessage(
        "hi", usage_metadata=usage(1_000_000, 0), response_metadata={"service_tier": "default"}
    )

    with usage_scope() as scope:
        call.invoke(PricedModel(answers=[million], named="gpt-5"), "x", service_tier="flex")

    assert scope.cost == pytest.approx(prices["input"])


def test_threads_do_not_pass_a_budget_either():
    model = Speaking(answers=[THREE], profile={"prices": PRICES}, max_input_tokens=None)

    with usage_scope(Limits(cost=0.05)) as scope:
        outcomes = model.batch(["x"] * 60, {"max_concurrency": 20}, return_exceptions=True)

    assert sum(isinstance(outcome, AIMessage) for outcome in outcomes) == 16
    assert scope.cost == pytest.approx(0.048)


def test_a_call_whose_answer_would_not_fit_is_not_sent(call):
    model = Speaking(answers=[THREE], profile={"prices": PRICES})

    with usage_scope(Limits(cost=0.004)) as scope:
        with pytest.raises(BudgetExceeded, match=r"cost used 0 of the 0\.004"):
            call.invoke(model, "x", max_tokens=10_000)
        call.invoke(model, "x", max_tokens=500)
        with pytest.raises(BudgetExceeded):
            call.invoke(model, "x", max_tokens=500)

    assert len(model.requests) == 1
    assert scope.cost == pytest.approx(0.003)


def test_answers_of_unknown_usage_count_against_a_budget_as_reserved(call):
    model = Speaking(answers=["hi"], profile={"prices": PRICES})

    with usage_scope(Limits(cost=0.01)) as scope:
        outcomes = call.batch(model, ["x"] * 100, max_tokens=500, return_exceptions=True)

    assert scope.cost is None
    assert sum(isinstance(outcome, AIMessage) for outcome in outcomes) == len(model.requests) <= 5


# -- a limiter on a model


def limiter_of(**limits: Any) -> InMemoryRateLimiter:
    return InMemoryRateLimiter(max_wait=0.05, **limits)


def reserved_amount(limiter: InMemoryRateLimiter, kind: str) -> float:
    limiter.acquire(blocking=False)  # the notes come with it
    return sum(limiter._state.used[f"{kind}/60"].values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_settles_the_tokens_it_reserved(call, kind):
    limiter = limiter_of(tokens_per_minute=10_000)
    model = kind(answers=[THREE], rate_limiter=limiter)

    call.invoke(model, "x")
    call.stream(model, "x")
    call.stream_v2(model, "x")

    assert reserved_amount(limiter, "tokens") == 4500


def test_a_call_that_finds_no_room_in_time_is_not_sent(call):
    model = Speaking(answers=[THREE], rate_limiter=limiter_of(requests_per_minute=1))

    with usage_scope() as scope:
        call.invoke(model, "x")
        with pytest.raises(RateLimitError, match="max_wait"):
            call.invoke(model, "x")

    assert len(model.requests) == 1
    assert scope.model_calls == 1
    assert not scope.under_way


def test_a_fallback_takes_over_where_there_is_no_room(call):
    first = Speaking(answers=["first"], rate_limiter=limiter_of(requests_per_minute=1))
    model = first.with_fallbacks([Speaking(answers=["second"])])

    assert [call.invoke(model, "x").text.strip() for _ in range(2)] == ["first", "second"]


def test_every_attempt_takes_a_permit_and_a_refused_one_no_answer(call):
    limiter = limiter_of(requests_per_minute=10, tokens_per_minute=100_000)
    model = Speaking(answers=[ModelRateLimitError("slow"), THREE], rate_limiter=limiter)

    call.invoke(model, "x" * 400)

    assert reserved_amount(limiter, "requests") - 1 == 2
    input_tokens = model.count_tokens(model.requests[0].messages).n
    assert reserved_amount(limiter, "tokens") == 1500 + input_tokens


def test_a_stream_that_is_left_keeps_what_it_reserved():
    limiter = limiter_of(tokens_per_minute=10_000)
    model = Speaking(
        answers=[AIMessage("one two three", usage_metadata=usage(5, 5))], rate_limiter=limiter
    )

    stream = model.stream("x")
    next(stream)
    stream.close()

    assert reserved_amount(limiter, "tokens") >= 500


def test_an_answer_from_the_cache_takes_no_permit(call):
    limiter = limiter_of(requests_per_minute=1)
    model = Speaking(answers=[THREE], rate_limiter=limiter, cache=InMemoryCache())

    call.invoke(model, "x")
    call.invoke(model, "x")

    assert len(model.requests) == 1


def test_estimates_learn_how_long_answers_are():
    limiter = InMemoryRateLimiter(tokens_per_minute=100_000)
    assert limiter.estimate(100, None) == 600
    assert limiter.estimate(100, 50) == 150

    for _ in range(50):
        limiter.observe_answer(30)

    assert limiter.estimate(100, None) == pytest.approx(130, abs=1)
    assert limiter.estimate(100, 4096) == pytest.approx(130, abs=1)
    assert (
        InMemoryRateLimiter(tokens_per_minute=1e5, reserve_max_tokens=True).estimate(100, 4096)
        == 4196
    )
    assert InMemoryRateLimiter(tokens_per_minute=300).estimate(100, None) == 300
    assert InMemoryRateLimiter(tokens_per_minute=300).estimate(400, None) == 400


def test_a_scope_and_a_limiter_hold_together(call, tmp_path):
    limiter = SQLiteRateLimiter(
        tmp_path / "limits.db", requests_per_minute=100, tokens_per_minute=100_000
    )
    model = Speaking(answers=[THREE], rate_limiter=limiter, profile={"prices": PRICES})

    with usage_scope(Limits(model_calls=3)) as scope:
        outcomes = call.batch(model, ["x"] * 10, return_exceptions=True)

    assert sum(isinstance(outcome, BudgetExceeded) for outcome in outcomes) == 7
    assert scope.cost == pytest.approx(0.009)


# -- headers


def answer_with(headers: dict[str, str], tmp_path: Any, status: int = 200) -> ChatOpenAI:
    import json

    model = ChatOpenAI(
        model="gpt-5-mini", api_key="k", base_url="http://127.0.0.1:1/v1", max_retries=0
    )
    explanation = model.explain("x")
    body = {
        "id": "1",
        "object": "chat.completion",
        "model": "gpt-5-mini",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }
    response = {
        "status": status,
        "headers": {"content-type": "application/json", **headers},
        "chunks": [[0, json.dumps(body)]],
    }
    recording = tmp_path / "answer.jsonl"
    request = {"method": explanation.method, "url": explanation.url, "body": explanation.body}
    recording.write_text(json.dumps({"request": request, "response": response}) + "\n")
    model.transport = ReplayTransport(recording, repeat=True)
    return model


def test_a_limiter_learns_from_the_headers_of_an_answer(call, tmp_path):
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "6m0s",
    }
    model = answer_with(headers, tmp_path)
    model.rate_limiter = limiter_of(requests_per_minute=500)

    answer = call.invoke(model, "x")
    call.invoke(model, "x")
    assert model.rate_limiter._state.caps["requests"].remaining == 1
    assert answer.response_metadata["cost"] == pytest.approx((9 * 0.25 + 2.0) / 1e6)


def test_a_refusal_with_retry_after_stops_the_next_call(call, tmp_path):
    model = answer_with({"retry-after": "30"}, tmp_path, status=429)
    model.rate_limiter = limiter_of(requests_per_minute=500)

    with pytest.raises(ModelRateLimitError):
        call.invoke(model, "x")
    with pytest.raises(RateLimitError) as excinfo:
        call.invoke(model, "x")

    assert 25 < excinfo.value.wait <= 30
