"""Limits of requests and tokens, wherever they are kept: reserved, settled, waited for in turn, given up in time."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline._io import ASYNC
from foldline.exceptions import RateLimitError, StoreError, UsageError
from foldline.rate_limiters import (
    InMemoryRateLimiter,
    LocalLimit,
    Quota,
    QuotaLimiter,
    RedisRateLimiter,
    SQLiteRateLimiter,
    sqlite as sqlite_module,
)
from foldline.rate_limiters._state import Cap, Learn
from foldline.rate_limiters.limiter import MAX_HOLD
from foldline.rate_limiters.redis import GRACE
from tests.rate_limiters.fleet import start_again
from tests.servers.databases import free_port

pytestmark = pytest.mark.timing

Make = Callable[..., QuotaLimiter]


@pytest.fixture(params=["memory", "sqlite", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return InMemoryRateLimiter
    if request.param == "sqlite":
        return lambda **options: SQLiteRateLimiter(tmp_path / "limits.db", **options)
    url = request.getfixturevalue("redis_server").url
    key = f"limits:{time.monotonic_ns()}"
    return lambda **options: RedisRateLimiter(url, key=key, **options)


def free(limiter: QuotaLimiter, count: int = 10) -> int:
    return sum(limiter.acquire(blocking=False) for _ in range(count))


def test_requests_per_minute_are_all_free_at_first_and_then_none(make: Make) -> None:
    limiter = make(requests_per_minute=3)

    assert free(limiter) == 3


def test_the_smaller_of_several_limits_holds(make: Make) -> None:
    assert free(make(requests_per_minute=5, requests_per_day=2)) == 2


def test_tokens_are_reserved_and_settled(make: Make) -> None:
    limiter = make(tokens_per_minute=100, max_wait=0.05)

    with limiter.reserve(tokens=90) as permit:
        with pytest.raises(RateLimitError, match="no room"), limiter.reserve(tokens=20):
            pytest.fail("there was no room")
        permit.settle(30)
    with limiter.reserve(tokens=65):
        pass
    with pytest.raises(RateLimitError) as excinfo, limiter.reserve(tokens=10):
        pytest.fail("there was no room")
    assert 50 < (excinfo.value.wait or 0) <= 62


def test_a_request_that_is_cancelled_takes_nothing(make: Make) -> None:
    limiter = make(requests_per_minute=1, max_wait=0.05)

    with limiter.reserve() as permit:
        permit.cancel()

    assert free(limiter) == 1


def test_who_gave_up_waiting_is_in_nobodys_way(make: Make) -> None:
    limiter = make(tokens_per_minute=100, max_wait=0.05)
    with limiter.reserve(tokens=90):
        with pytest.raises(RateLimitError), limiter.reserve(tokens=50):
            pytest.fail("there was no room")

        assert limiter.acquire(blocking=False) is True


def test_tokens_that_are_given_back_are_waited_for_although_their_minute_is_not_over(
    make: Make,
) -> None:
    limiter = make(tokens_per_minute=100, max_wait=20)

    async def use() -> float:
        async with limiter.areserve(tokens=90) as permit:
            start = time.monotonic()
            waiting = asyncio.create_task(limiter.enter(ASYNC, 50))
            await asyncio.sleep(0.2)
            permit.settle(10)
        await waiting
        return time.monotonic() - start

    assert asyncio.run(use()) < 5


def test_a_request_that_never_fits_is_refused_at_once(make: Make) -> None:
    limiter = make(tokens_per_minute=100)

    with (
        pytest.raises(RateLimitError, match="never fits 100 tokens in 60 s"),
        limiter.reserve(tokens=101),
    ):
        pytest.fail("it does not fit")


def test_max_wait_is_kept_also_by_those_behind(make: Make) -> None:
    limiter = make(requests_per_minute=1, max_wait=0.3)
    limiter.acquire()
    waits: list[float] = []

    def wait() -> None:
        start = time.monotonic()
        with pytest.raises(RateLimitError):
            limiter.acquire()
        waits.append(time.monotonic() - start)

    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(waits) == 5
    assert max(waits) < 2.0


def test_threads_and_tasks_are_served_in_the_order_they_came(make: Make) -> None:
    limiter = make(quotas=[Quota("requests", 1, 0.3)])
    limiter.acquire()
    order: list[str] = []

    def thread(name: str) -> None:
        limiter.acquire()
        order.append(name)

    async def tasks() -> None:
        async def task(name: str) -> None:
            await limiter.aacquire()
            order.append(name)

        first = threading.Thread(target=thread, args=("thread 1",))
        first.start()
        await asyncio.sleep(0.05)
        second = asyncio.create_task(task("task 2"))
        await asyncio.sleep(0.05)
        third = threading.Thread(target=thread, args=("thread 3",))
        third.start()
        await asyncio.sleep(0.05)
        fourth = asyncio.create_task(task("task 4"))
        await asyncio.gather(second, fourth)
        await asyncio.to_thread(first.join)
        await asyncio.to_thread(third.join)

    asyncio.run(tasks())

    assert order == ["thread 1", "task 2", "thread 3", "task 4"]


def test_who_gives_up_leaves_its_place_to_the_next(make: Make) -> None:
    limiter = make(quotas=[Quota("requests", 1, 0.5)])
    limiter.acquire()

    async def use() -> float:
        first = asyncio.create_task(limiter.aacquire())
        await asyncio.sleep(0.05)
        second = asyncio.create_task(limiter.aacquire())
        await asyncio.sleep(0.05)
        first.cancel()
        start = time.monotonic()
        await asyncio.wait_for(second, 5)
        return time.monotonic() - start

    assert asyncio.run(use()) < 2.5


@pytest.mark.slow
def test_a_blocking_call_on_a_loop_whose_tasks_wait_too_comes_through() -> None:
    limiter = InMemoryRateLimiter(quotas=[Quota("requests", 1, 0.1)])
    limiter.acquire()

    async def use() -> bool:
        waiting = asyncio.create_task(limiter.aacquire())
        await asyncio.sleep(0.01)
        result = limiter.acquire()  # the loop stands still: the task before it cannot ask
        await waiting
        return result

    assert asyncio.run(asyncio.wait_for(use(), 30)) is True


@pytest.mark.slow
def test_ten_thousand_tasks_wait_without_wearing_the_machine_out() -> None:
    limiter = InMemoryRateLimiter(quotas=[Quota("requests", 2_000, 0.5)])

    async def use() -> float:
        start = time.monotonic()
        await asyncio.gather(*(limiter.aacquire() for _ in range(10_000)))
        return time.monotonic() - start

    assert asyncio.run(use()) < 20


def test_a_forked_child_does_not_stand_in_its_parents_line() -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=5)
    limiter._entries[object()] = None  # type: ignore[index]
    limiter._is_asking = True
    limiter._asked_at = time.monotonic()
    child = os.fork()
    if not child:
        os._exit(0 if limiter.acquire() else 1)

    assert os.waitpid(child, 0)[1] == 0


# -- what a provider says


def test_what_a_provider_says_is_left_is_heeded(make: Make) -> None:
    limiter = make(requests_per_minute=1000)
    headers = {
        "x-ratelimit-remaining-requests": "2",
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-reset-requests": "1m",
    }

    limiter.observe(headers)

    assert free(limiter) == 2


def test_a_provider_that_says_wait_stops_everybody(make: Make) -> None:
    limiter, other = make(requests_per_minute=100), make(requests_per_minute=100)
    if isinstance(limiter, InMemoryRateLimiter):
        other = limiter

    limiter.observe({}, status=429, retry_after=0.4)
    assert limiter.acquire(blocking=False) is False
    assert other.acquire(blocking=False) is False
    start = time.monotonic()
    assert other.acquire()

    assert 0.2 < time.monotonic() - start < 3


def test_what_was_said_a_while_ago_has_grown_old() -> None:
    learn = Learn({"requests": Cap(10, 2, 60)}, 30.0, at=100.0)

    assert learn.aged(110.0) == Learn({"requests": Cap(10, 2, 50)}, 20.0)
    assert learn.aged(500.0) == Learn({"requests": Cap(10, 2, 0)}, 0.0)


def test_what_a_provider_says_may_be_ignored_and_is_bounded() -> None:
    deaf = InMemoryRateLimiter(requests_per_minute=5, learn=False)
    deaf.observe({}, status=429, retry_after=100)
    assert free(deaf) == 5

    limiter = InMemoryRateLimiter(requests_per_minute=5)
    limiter.observe({}, status=200, retry_after=100)
    assert free(limiter, 1) == 1
    limiter.observe({}, status=429, retry_after=1e9)
    limiter.acquire(blocking=False)
    assert limiter._state.hold - time.monotonic() <= MAX_HOLD


# -- clocks


def test_a_wall_clock_that_is_set_does_not_matter_to_sqlite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter = SQLiteRateLimiter(tmp_path / "limits.db", requests_per_minute=2)
    assert free(limiter) == 2

    monkeypatch.setattr(sqlite_module.time, "time", lambda: 4e9)
    assert free(limiter) == 0
    monkeypatch.setattr(sqlite_module.time, "time", lambda: 0.0)
    assert free(limiter) == 0


def test_after_a_restart_of_the_machine_the_wall_clock_says_how_long_it_took() -> None:
    clock = sqlite_module._clock
    last = {"now": 500.0, "monotonic": 9000.0, "wall": 1000.0}

    assert clock(last, 9001.0, 5.0)["now"] == 501.0
    assert clock(last, 12.0, 1040.0)["now"] == 540.0  # restarted: monotonic time began anew
    assert clock(last, 12.0, 900.0)["now"] == 500.0  # and the wall clock was set back
    assert clock(None, 12.0, 900.0)["now"] == 0.0


# -- Redis gone


def test_without_redis_a_limiter_fails_with_a_store_error() -> None:
    limiter = RedisRateLimiter(
        f"redis://127.0.0.1:{free_port()}/0", requests_per_minute=5, timeout=0.3
    )

    with pytest.raises(StoreError, match="Redis did not answer"):
        limiter.acquire()
    with pytest.raises(StoreError):
        asyncio.run(limiter.aacquire())


def test_without_redis_a_local_limit_goes_on_with_its_share() -> None:
    limiter = RedisRateLimiter(
        f"redis://127.0.0.1:{free_port()}/0",
        requests_per_minute=8,
        on_unreachable=LocalLimit(share=0.25),
        timeout=0.3,
    )

    assert free(limiter) == 2


@pytest.mark.slow
def test_a_redis_that_comes_back_hears_what_was_used_without_it(redis_server: Any) -> None:
    key = f"back:{time.monotonic_ns()}"
    limiter = RedisRateLimiter(
        redis_server.url,
        key=key,
        requests_per_minute=10,
        on_unreachable=LocalLimit(share=0.5),
        timeout=0.5,
    )
    assert free(limiter, 2) == 2

    redis_server.stop()
    try:
        assert free(limiter) == 4  # half of the eight that are left of ten
    finally:
        start_again(redis_server)
    time.sleep(1.5)
    other = RedisRateLimiter(redis_server.url, key=key, requests_per_minute=10)

    assert limiter.acquire(blocking=False) is False  # others may have something to tell, too
    assert limiter._mirror.is_local is False
    assert free(other) == 0
    time.sleep(GRACE)
    assert free(other) == 10 - 2 - 4


def test_shares_without_redis_are_of_what_the_fleet_had_left(redis_server: Any) -> None:
    key = f"left:{time.monotonic_ns()}"
    busy, idle = (
        RedisRateLimiter(
            redis_server.url,
            key=key,
            requests_per_minute=12,
            on_unreachable=LocalLimit(),
            timeout=0.5,
        )
        for _ in range(2)
    )
    assert free(idle, 1) == 1
    assert free(busy, 7) == 7
    assert free(idle, 1) == 1
    assert free(busy, 1) == 1

    redis_server.stop()
    try:
        assert free(busy) + free(idle) <= 12 - 10
    finally:
        start_again(redis_server)
    busy.close()
    idle.close()


def test_a_share_is_that_of_those_who_were_seen(redis_server: Any) -> None:
    key = f"share:{time.monotonic_ns()}"
    fleet = [
        RedisRateLimiter(
            redis_server.url,
            key=key,
            requests_per_minute=40,
            on_unreachable=LocalLimit(),
            timeout=0.5,
        )
        for _ in range(4)
    ]
    for limiter in (*fleet, *fleet):
        limiter.acquire()

    redis_server.stop()
    try:
        assert [free(limiter, 20) for limiter in fleet] == [
            8,
            8,
            8,
            8,
        ]  # ten each, of which two are used
    finally:
        start_again(redis_server)


@pytest.mark.slow
def test_what_a_redis_that_forgot_had_counted_is_told_again(redis_server: Any) -> None:
    import redis

    key = f"forgot:{time.monotonic_ns()}"
    limiter = RedisRateLimiter(redis_server.url, key=key, requests_per_minute=10)
    assert free(limiter, 6) == 6

    client = redis.Redis.from_url(redis_server.url)
    client.delete(f"{key}:quotas")
    client.close()
    assert limiter.acquire(blocking=False) is False  # others have two seconds to tell theirs
    time.sleep(2.2)

    assert free(limiter) == 4


# -- arguments


@pytest.mark.parametrize(
    "options",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"requests_per_day": float("inf")},
        {"requests_per_minute": True},
        {"requests_per_minute": 5, "quotas": [Quota("requests", 7, 60)]},
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        InMemoryRateLimiter(**options)


def test_choices_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="'fail' or LocalLimit"):
        RedisRateLimiter(requests_per_minute=1, on_unreachable="go on")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="share"):
        LocalLimit(share=0)
    with pytest.raises(UsageError, match="kind"):
        Quota("words", 5, 60)  # type: ignore[arg-type]
