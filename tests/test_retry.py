"""`Backoff`: the one formula of waits, as each place that retries uses it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from foldline._retry import Backoff, added, around, shrunk
from foldline.agents.middleware import ToolRetryMiddleware
from foldline.language_models import RetryPolicy
from foldline.runnables import RunnableLambda
from foldline.runnables.retry import RunnableRetry
from foldline.workflows import RetryPolicy as StepRetryPolicy

ATTEMPTS = [1, 2, 3, 4, 5, 8, 13, 60]


def runnable(**wait: float) -> RunnableRetry:
    return RunnableRetry(bound=RunnableLambda(str), exponential_jitter_params=wait)


@pytest.mark.parametrize(
    ("delay", "formula"),
    [
        (RetryPolicy().delay, lambda n, u: min(30, 2.0 ** (n - 1)) * u(0.5, 1.0)),
        (
            RetryPolicy(initial=0.5, factor=3, max_delay=9, jitter=False).delay,
            lambda n, u: min(9, 0.5 * 3 ** (n - 1)),
        ),
        (
            lambda n: runnable(initial=2, max=20, exp_base=3, jitter=1)._delay(ValueError(), n),
            lambda n, u: min(20, 2 * 3.0 ** (n - 1) + u(0, 1)),
        ),
        (
            lambda n: ToolRetryMiddleware()._delay(n - 1),
            lambda n, u: min(60, 2.0 ** (n - 1)) * u(0.75, 1.25),
        ),
        (
            StepRetryPolicy().wait,
            lambda n, u: (s := min(128, 0.5 * 2.0 ** (n - 1))) + u(0, min(1.0, s)),
        ),
    ],
    ids=["model", "model without jitter", "runnable", "middleware", "step"],
)
def test_a_delay_follows_the_formula_of_its_place(
    delay: Callable[[int], float], formula: Callable[[int, Callable[..., float]], float]
) -> None:
    for attempt in ATTEMPTS:
        random.seed(attempt)
        actual = delay(attempt)
        random.seed(attempt)
        assert actual == pytest.approx(formula(attempt, random.uniform))


@pytest.mark.parametrize("attempt", [1_100, 10**6])
@pytest.mark.parametrize(
    ("delay", "longest"),
    [
        (RetryPolicy(jitter=False).delay, 30.0),
        (StepRetryPolicy(jitter=False).wait, 128.0),
        (ToolRetryMiddleware(jitter=False)._delay, 60.0),
        (lambda n: runnable(max=20, jitter=0)._delay(ValueError(), n), 20.0),
    ],
    ids=["model", "step", "middleware", "runnable"],
)
def test_a_delay_after_very_many_attempts_is_the_longest(
    delay: Callable[[int], float], longest: float, attempt: int
) -> None:
    assert delay(attempt) == longest


def test_a_delay_is_what_a_server_asks_for_whatever_the_formula_says() -> None:
    backoff = Backoff(1.0, longest=30.0, jitter=added(1.0))
    assert (backoff.delay(1, 45.0), backoff.delay(9, 0.5), backoff.delay(1, -3)) == (45.0, 0.5, 0.0)


def test_a_delay_is_not_shorter_than_the_shortest() -> None:
    backoff = Backoff(2.0, shortest=4.0, longest=10.0)
    assert [backoff.delay(attempt) for attempt in (1, 2, 3, 4)] == [4.0, 4.0, 8.0, 10.0]


def test_jitters_stay_in_their_range() -> None:
    for jitter, least, most in (
        (shrunk(0.5), 4.0, 8.0),
        (around(0.25), 6.0, 10.0),
        (added(3.0), 8.0, 11.0),
    ):
        waits = [Backoff(8.0, jitter=jitter).delay(1) for _ in range(200)]
        assert least <= min(waits) <= max(waits) <= most
        assert len(set(waits)) > 100
