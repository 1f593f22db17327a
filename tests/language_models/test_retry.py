"""`RetryPolicy`: which failures are tried again, how often, after how long (E4, F-H01)."""

from __future__ import annotations

from typing import ClassVar

import pytest

from foldline.exceptions import (
    ModelAuthenticationError,
    ModelOverloadedError,
    ModelRateLimitError,
    StructuredOutputError,
    UsageError,
)
from foldline.language_models._call import attempt
from foldline.language_models._call.retry_policy import (
    DEFAULT_POLICY,
    NO_RETRY,
    RetryPolicy,
    owning_retries,
)
from foldline.rate_limiters import InMemoryRateLimiter
from foldline.testing import Fail, ScriptedChatModel
from tests.language_models.scripted import KINDS, Speaking
from tests.rate_limiters.counting import CountingLimiter

STEADY = RetryPolicy(max_retries=3, jitter=False)


def test_waits_grow_up_to_a_bound():
    assert [STEADY.delay(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    slow = RetryPolicy(initial=0.5, factor=3, max_delay=4, jitter=False)
    assert [slow.delay(attempt) for attempt in (1, 2, 3)] == [0.5, 1.5, 4]


def test_jitter_takes_away_at_most_half():
    waits = {RetryPolicy().delay(3) for _ in range(200)}
    assert len(waits) > 100
    assert all(2.0 <= wait <= 4.0 for wait in waits)


@pytest.mark.parametrize(("retry_after", "waits"), [(7.5, 7.5), (0, 0.0), (-3, 0.0), (59, 59.0)])
def test_F_H01_what_the_provider_asks_for_comes_first(retry_after, waits):
    assert RetryPolicy().delay(1, ModelRateLimitError("slow", retry_after=retry_after)) == waits
    assert STEADY.delay(2, ModelRateLimitError("slow")) == 2


def test_F_H01_a_wait_beyond_the_cap_is_not_waited():
    at, beyond = (ModelRateLimitError("slow", retry_after=seconds) for seconds in (60, 60.1))
    assert STEADY.allows(at, 1)
    assert not STEADY.allows(beyond, 1)
    assert RetryPolicy(retry_after_cap=90).allows(beyond, 1)


def test_E4_only_what_may_pass_is_tried_again_and_only_so_often():
    overloaded = ModelOverloadedError("busy")
    assert [STEADY.allows(overloaded, attempt) for attempt in (1, 2, 3, 4)] == [
        True,
        True,
        True,
        False,
    ]
    assert not NO_RETRY.allows(overloaded, 1)
    assert not STEADY.allows(ModelAuthenticationError("no"), 1)
    assert not STEADY.allows(ValueError("not of a model"), 1)
    assert STEADY.allows(ModelAuthenticationError("no", is_retryable=True), 1)


def test_E4_whoever_owns_the_retries_above_keeps_them():
    overloaded = ModelOverloadedError("busy")
    with owning_retries(lambda error: error is overloaded):
        assert not STEADY.allows(overloaded, 1)
        assert STEADY.allows(ModelRateLimitError("slow"), 1)
    assert STEADY.allows(overloaded, 1)


def test_a_policy_is_read_from_what_people_write():
    assert RetryPolicy.of(STEADY) is STEADY
    assert RetryPolicy.of(None) is RetryPolicy.of(True) is DEFAULT_POLICY
    assert RetryPolicy.of(False) is NO_RETRY
    assert RetryPolicy.of(0) == NO_RETRY
    assert RetryPolicy.of(5) == RetryPolicy(max_retries=5)
    assert RetryPolicy.of({"retries": 2, "maxDelay": 9}) == RetryPolicy(max_retries=2, max_delay=9)
    assert RetryPolicy.of({"jitter": False}) == STEADY
    assert RetryPolicy.of({"max_retries": 1}) == RetryPolicy(max_retries=1)
    with pytest.raises(UsageError, match="a number or a dict, not 'often'"):
        RetryPolicy.of("often")


@pytest.mark.parametrize("value", [{"tries": 2}, "often", {"retries": 2, "forever": True}])
def test_what_is_no_policy_is_told_when_the_model_is_made(value):
    with pytest.raises(ValueError, match="retry_on_error"):
        ScriptedChatModel(script=["x"], retry_on_error=value)


def test_a_call_waits_before_it_is_sent_again_as_long_as_its_policy_says(call, monkeypatch):
    waits = []

    async def pause(seconds, io):
        waits.append(seconds)

    monkeypatch.setattr(attempt, "pause", pause)
    at_once = ModelOverloadedError("busy", retry_after=0)
    model = ScriptedChatModel(
        script=[[Fail(ModelOverloadedError("busy"))], [Fail(at_once)], "here"],
        retry_on_error=RetryPolicy(max_retries=2, initial=1.5, jitter=False),
    )

    assert call.invoke(model, "x").text == "here"
    assert waits == [1.5]


class Limiter(InMemoryRateLimiter):
    """Records when it is updated."""

    flushes: ClassVar[list[str]] = []

    async def flush(self, io):
        self.flushes.append("now")
        await super().flush(io)


def test_a_rate_limiter_is_updated_after_each_attempt_that_failed(call):
    limiter = Limiter(requests_per_second=1000)
    limiter.flushes.clear()
    model = ScriptedChatModel(
        script=[[Fail(ModelOverloadedError("busy", retry_after=0))], "here"], rate_limiter=limiter
    )

    assert call.invoke(model, "x").text == "here"
    assert limiter.flushes == ["now", "now"]  # after the failure and at the end


def test_a_models_own_error_of_structure_is_tried_again_with_the_same_request(call):
    """Without checks nobody has a complaint to add."""
    model = Speaking(answers=[StructuredOutputError("no JSON", is_retryable=True), "here"])

    assert call.invoke(model, "x").text.strip() == "here"
    first, second = model.requests
    assert first.messages == second.messages


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_waits_for_its_rate_limiter(call, kind):
    limiter = CountingLimiter()
    model = kind(
        answers=[ModelOverloadedError("busy", retry_after=0), "here"], rate_limiter=limiter
    )

    call.invoke(model, "x")
    call.stream(model, "x")

    assert limiter.count == 3
