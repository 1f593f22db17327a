"""Eight processes share one limit: it holds, it is used, and neither a dead process nor a restart breaks it."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from foldline.rate_limiters import LocalLimit, Quota, RedisRateLimiter
from foldline.rate_limiters._state import LEASE
from foldline.rate_limiters.limiter import INITIAL_OUTPUT
from tests.rate_limiters.fleet import PROCESSES, Plan, running_fleet, start_again
from tests.servers.databases import Server, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timing]

WINDOW = 8.0
REQUESTS, TOKENS = 320, 32_000


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "limits.db")
    server = request.getfixturevalue("redis_server")
    client = redis.Redis.from_url(server.url)
    client.delete("fleet:quotas")
    client.close()
    return "redis", server.url


def run(plan: Plan) -> Any:
    with running_fleet(plan) as (stub, _):
        time.sleep(plan.seconds)
    return stub


def test_requests_are_never_passed_by_more_than_one_and_the_limit_is_used(
    place: tuple[str, str],
) -> None:
    stub = run(Plan(*place, (Quota("requests", REQUESTS, WINDOW),), seconds=3 * WINDOW))

    assert stub.most(WINDOW) <= REQUESTS + 1 + stub.late(WINDOW)
    assert len(stub.arrivals) >= 0.95 * REQUESTS * 3


def test_tokens_are_passed_by_no_more_than_the_estimates_in_flight_were_off(
    place: tuple[str, str],
) -> None:
    plan = Plan(*place, (Quota("tokens", TOKENS, WINDOW),), seconds=3 * WINDOW)
    stub = run(plan)

    # An answer is estimated by the mean of those before it, which tends to 100; it has up to 150.
    most_off = PROCESSES * plan.tasks * (plan.most - plan.least)
    assert stub.most(WINDOW, tokens=True) <= TOKENS + most_off
    assert (
        plan.most < INITIAL_OUTPUT
    )  # the first estimates are too high: they pass nothing, and are given back
    tokens_used = sum(tokens for _, tokens in stub.arrivals)
    assert tokens_used >= 0.95 * TOKENS * 3


def test_a_process_that_is_killed_does_not_stop_the_others(place: tuple[str, str]) -> None:
    plan = Plan(*place, (Quota("requests", 80, 4.0),), seconds=0)

    with running_fleet(plan, 4) as (stub, workers):
        time.sleep(3)
        for worker in workers[:2]:
            worker.kill()
        killed = time.monotonic()
        time.sleep(LEASE + 5)
        after = [at for at, _ in stub.arrivals if at > killed]

    assert stub.most(4.0) <= 81 + stub.late(4.0)
    assert min(after) - killed < LEASE + 2.5
    assert len(after) >= 0.95 * 80


def test_redis_may_restart_under_a_fleet(redis_server: Any) -> None:
    client = redis.Redis.from_url(redis_server.url)
    client.delete("fleet:quotas")
    plan = Plan("redis", redis_server.url, (Quota("requests", 60, 3.0),), seconds=0)

    with running_fleet(plan, 4) as (stub, _):
        time.sleep(2.0)
        client.flushall()  # the worst restart: everything is gone
        time.sleep(8.0)
    client.close()

    assert stub.most(3.0) <= 61 + stub.late(3.0)
    assert len(stub.arrivals) >= 0.95 * 60 * 2


@pytest.mark.parametrize("is_kept", [True, False])
def test_eight_processes_keep_the_limit_while_redis_is_gone_and_after(
    tmp_path: Path, *, is_kept: bool
) -> None:
    port, way = free_port(), ["--appendonly", "yes"] if is_kept else ["--save", ""]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    stop = signal.SIGTERM if is_kept else signal.SIGKILL
    server = Server([*command, *way], port, f"redis://127.0.0.1:{port}/0", stop)
    server.start()
    plan = Plan("redis", server.url, (Quota("requests", 160, 4.0),), seconds=0, local=LocalLimit())

    try:
        with running_fleet(plan) as (stub, workers):
            time.sleep(6)
            server.stop()
            time.sleep(4)
            start_again(server)
            back = time.monotonic()
            time.sleep(12)
            assert all(worker.is_alive() for worker in workers)
    finally:
        server.stop()

    assert stub.most(4.0) <= 161 + stub.late(4.0)
    # No request is sent for two seconds, until all have reported their usage; then the limit is used again.
    assert sum(at > back for at, _ in stub.arrivals) >= 0.95 * 160 * 2


def test_a_restarted_server_goes_on_with_what_it_had_kept(redis_server: Any) -> None:
    limiter = RedisRateLimiter(
        redis_server.url, key="restart", requests_per_minute=2, requests_per_day=10
    )
    assert [limiter.acquire(blocking=False) for _ in range(3)] == [True, True, False]

    redis_server.stop()
    start_again(redis_server)

    assert limiter.acquire(blocking=False) is False
    limiter.close()
