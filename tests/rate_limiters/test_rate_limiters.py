"""Token buckets: in memory, and in a real Redis for a fleet."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from foldline.exceptions import UsageError
from foldline.rate_limiters import BaseRateLimiter, InMemoryRateLimiter, RedisRateLimiter

pytestmark = pytest.mark.timing

Make = Callable[..., BaseRateLimiter]


@pytest.fixture(params=["memory", "redis"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "memory":
        return lambda rate, size=1: InMemoryRateLimiter(
            requests_per_second=rate, max_bucket_size=size, check_every_n_seconds=0.005
        )
    url = request.getfixturevalue("redis_server").url
    key = f"rate:{time.monotonic_ns()}"
    return lambda rate, size=1: RedisRateLimiter(
        url, key=key, requests_per_second=rate, max_bucket_size=size
    )


def test_the_bucket_begins_empty_and_fills_at_its_rate(make: Make) -> None:
    limiter = make(20)

    assert limiter.acquire(blocking=False) is False
    start = time.monotonic()
    assert limiter.acquire()
    assert limiter.acquire()
    assert 0.08 < time.monotonic() - start < 1.0


def test_waiting_suspends_and_does_not_block_the_loop(make: Make) -> None:
    async def use() -> int:
        limiter, beats = make(10), 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.005)
                beats += 1

        heart = asyncio.create_task(beat())
        await limiter.aacquire()
        await limiter.aacquire()
        heart.cancel()
        return beats

    assert asyncio.run(use()) > 5


def test_a_full_bucket_allows_a_burst_and_no_more(make: Make) -> None:
    limiter = make(5, 3)
    limiter.acquire(blocking=False)
    time.sleep(0.9)

    assert [limiter.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]


def test_threads_together_get_no_more_than_the_rate(make: Make) -> None:
    limiter, permits = make(100, 5), []
    end = time.monotonic() + 0.5

    def work() -> None:
        while time.monotonic() < end:
            if limiter.acquire(blocking=False):
                permits.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 20 <= len(permits) <= 60


def test_two_processes_worth_of_limiters_share_one_redis_bucket(
    request: pytest.FixtureRequest,
) -> None:
    url = request.getfixturevalue("redis_server").url
    fleet = [
        RedisRateLimiter(url, key="two", requests_per_second=2, max_bucket_size=1) for _ in range(4)
    ]
    fleet[0].acquire(blocking=False)
    time.sleep(0.7)

    assert sum(limiter.acquire(blocking=False) for limiter in fleet) == 1


@pytest.mark.parametrize("options", [{"requests_per_second": 0}, {"max_bucket_size": 0}])
def test_an_impossible_bucket_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="requests_per_second"):
        InMemoryRateLimiter(**options)  # type: ignore[arg-type]
