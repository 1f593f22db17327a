"""The book-keeping of a limiter: what Python does in memory, and that Redis does the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings, strategies as st

from foldline.rate_limiters import Quota
from foldline.rate_limiters._state import (
    LEASE,
    Cap,
    Learn,
    Leave,
    Operation,
    Restore,
    Settle,
    State,
    Take,
    apply,
)
from foldline.rate_limiters.quotas import Rules
from foldline.rate_limiters.redis import _encode, _encode_rules, _script

pytestmark = pytest.mark.timing

LIMITS = Rules((Quota("requests", 3, 60), Quota("tokens", 100, 60)))


def granted_count(
    state: State, caller: str, *demands: float, now: float, rules: Rules = LIMITS
) -> int:
    return len(state.take(rules, caller, list(demands), now).taken)


def test_what_is_taken_is_free_again_when_its_time_is_over_and_not_before() -> None:
    state = State()

    assert granted_count(state, "a", 10, 10, 10, now=0.5) == 3
    assert granted_count(state, "a", 10, now=61.4) == 0
    assert granted_count(state, "a", 10, now=62.0) == 1


def test_tokens_are_limited_beside_requests() -> None:
    state = State()

    assert granted_count(state, "a", 60, 60, now=0) == 1
    reply = state.take(LIMITS, "a", [60], 1.0)
    assert reply.taken == []
    assert reply.wait == pytest.approx(61.0)


def test_what_was_not_used_is_given_back_and_what_was_used_more_is_counted() -> None:
    state = State()
    ((_, places),) = state.take(LIMITS, "a", [90], 0.0).taken

    state.settle(LIMITS, places, -70, 2.0, unsent=False)
    assert granted_count(state, "a", 80, now=3.0) == 1

    state.settle(LIMITS, places, 30, 4.0, unsent=False)
    assert sum(state.used["tokens/60"].values()) == 20 + 80 + 30


def test_a_request_that_was_not_sent_is_given_back_whole() -> None:
    state = State()
    ((_, places),) = state.take(LIMITS, "a", [90], 0.0).taken

    state.settle(LIMITS, places, -90, 1.0, unsent=True)

    assert granted_count(state, "a", 90, 5, 5, now=2.0) == 3


def test_callers_are_served_in_the_order_of_the_line() -> None:
    state, rules = State(), Rules((Quota("requests", 1, 60),))
    assert granted_count(state, "a", 0, now=0.0, rules=rules) == 1

    assert granted_count(state, "b", 0, now=61.0, rules=rules) == 0
    assert granted_count(state, "c", 0, now=61.1, rules=rules) == 0
    # c looks first once there is room; it is b's turn, for whom it is kept.
    assert granted_count(state, "c", 0, now=62.0, rules=rules) == 0
    assert granted_count(state, "b", 0, now=62.5, rules=rules) == 1


def test_what_is_kept_counts_and_is_stamped_when_it_is_fetched() -> None:
    state, rules = State(), Rules((Quota("requests", 1, 60),))
    granted_count(state, "a", 0, now=0.0, rules=rules)
    granted_count(state, "b", 0, now=61.0, rules=rules)
    granted_count(state, "c", 0, now=62.0, rules=rules)
    assert state.kept == {"b": [0]}

    assert granted_count(state, "c", 0, now=62.5, rules=rules) == 0
    assert granted_count(state, "b", 0, now=62.9, rules=rules) == 1
    assert state.used["requests/60"] == {62: 1}


def test_a_caller_that_does_not_look_any_more_is_passed_by() -> None:
    state, rules = State(), Rules((Quota("requests", 1, 60),))
    granted_count(state, "a", 0, now=0.0, rules=rules)
    granted_count(state, "dead", 0, now=61.0, rules=rules)
    granted_count(state, "c", 0, now=61.5, rules=rules)

    assert granted_count(state, "c", 0, now=62.0, rules=rules) == 0  # kept for the dead one
    granted_count(state, "c", 0, now=62.9, rules=rules)
    assert granted_count(state, "c", 0, now=61.0 + LEASE + 0.1, rules=rules) == 1


def test_a_caller_with_many_requests_does_not_starve_another() -> None:
    state, rules = State(), Rules((Quota("requests", 10, 60),))
    assert granted_count(state, "a", *[0] * 10, now=0.0, rules=rules) == 10
    granted_count(state, "a", *[0] * 16, now=61.0, rules=rules)
    granted_count(state, "b", *[0] * 16, now=61.1, rules=rules)

    first = granted_count(state, "a", *[0] * 16, now=62.0, rules=rules)
    granted_count(state, "b", *[0] * 16, now=62.1, rules=rules)
    granted_count(state, "a", *[0] * 16, now=62.2, rules=rules)
    second = granted_count(state, "b", *[0] * 16, now=124.1, rules=rules)

    assert (first, second) == (10, 10)


def test_who_does_not_wait_gets_nothing_while_others_do() -> None:
    state, rules = State(), Rules((Quota("tokens", 100, 60),))
    granted_count(state, "a", 90, now=0.0, rules=rules)
    granted_count(state, "a", 50, now=1.0, rules=rules)

    assert state.take(rules, "b", [5], 1.0, waits=False).taken == []
    assert [waiter.caller for waiter in state.line] == ["a"]


def test_a_provider_that_says_what_is_left_is_heeded() -> None:
    state, rules = State(), Rules((Quota("requests", 1000, 60),))
    state.learn({"requests": Cap(60, 1, 59)}, 0.0, 0.0)

    assert granted_count(state, "a", 0, 0, now=0.0, rules=rules) == 1
    reply = state.take(rules, "a", [0], 0.5)
    assert reply.wait == pytest.approx(0.5, abs=0.01)
    assert granted_count(state, "a", 0, now=1.1, rules=rules) == 1
    state.learn({}, 30.0, 2.0)
    assert state.take(rules, "a", [0], 3.0).wait == pytest.approx(29.0)


def test_a_bucket_goes_with_the_quotas() -> None:
    state, rules = State(), Rules((Quota("requests", 100, 60),), rate=10.0, size=2.0)

    assert granted_count(state, "a", 0, now=0.0, rules=rules) == 0
    assert granted_count(state, "a", 0, 0, 0, now=1.0, rules=rules) == 2
    assert granted_count(state, "a", 0, now=1.1, rules=rules) == 1


def test_time_that_goes_nowhere_lets_nothing_through() -> None:
    state = State()
    granted_count(state, "a", 1, 1, 1, now=100.0)

    for _ in range(50):
        assert granted_count(state, "a", 1, now=100.0) == 0


# -- the same in Redis

RULES = [
    Rules((Quota("requests", 4, 6), Quota("tokens", 50, 6))),
    Rules((Quota("tokens", 40, 3),), rate=2.0, size=2.0),
    Rules((Quota("requests", 2, 1.5), Quota("requests", 6, 12))),
]
demands = st.lists(st.sampled_from([0, 1, 5, 17, 40]), min_size=1, max_size=4)
callers = st.sampled_from(["a", "b", "c"])
steps = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.1, 0.7, 2.5, 7.0]),
        callers,
        st.one_of(
            st.builds(Take, demands, st.booleans()),
            st.just("settle-less"),
            st.just("settle-more"),
            st.just("unsent"),
            st.builds(
                lambda remaining, reset, hold: Learn({"tokens": Cap(60, remaining, reset)}, hold),
                st.sampled_from([0, 5, 60]),
                st.sampled_from([0.0, 1.0, 4.0]),
                st.sampled_from([0.0, 0.5]),
            ),
            st.just(Leave()),
            st.builds(
                lambda age, amount: Restore([("requests/6", age, amount)]),
                st.integers(0, 70),
                st.integers(1, 3),
            ),
        ),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def client(redis_server: Any) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(redis_server.url)
    yield client
    client.close()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rules=st.sampled_from(RULES), steps=steps)
def test_redis_keeps_the_same_books(client: redis.Redis, rules: Rules, steps: list[Any]) -> None:
    client.delete("books")
    script, state = client.register_script(_script()), State()
    epoch, at, reservations = "", 1_000_000.0, []

    for passed, caller, step in steps:
        at += passed
        operation: Operation
        if isinstance(step, str):
            if not reservations:
                continue
            tokens, places = reservations.pop(0)
            change = {"settle-less": -min(tokens, 3), "settle-more": 7, "unsent": -tokens}[step]
            operation = Settle(places, change, step == "unsent", epoch)
        else:
            operation = step
        request = {
            "rules": _encode_rules(rules), "caller": caller, "ops": [_encode(operation)], "epoch": epoch,
            "grace": 0.0, "ttl": 60_000, "now": at,
        }  # fmt: skip
        answer = json.loads(script(["books"], [json.dumps(request)]))
        epoch = answer["epoch"]
        result = apply(state, rules, caller, [operation], float(answer["now"]))

        redis_tokens = [
            (tokens, {key: int(part) for key, part in places.items()})
            for tokens, places in answer["taken"] or ()
        ]
        assert [tokens for tokens, _ in redis_tokens] == [tokens for tokens, _ in result.taken]
        assert [places for _, places in redis_tokens] == [places for _, places in result.taken]
        assert answer["wait"] == pytest.approx(result.wait, abs=1e-6)
        reservations += result.taken


def test_a_server_whose_clock_is_set_neither_stops_nor_empties_the_counts(
    client: redis.Redis,
) -> None:
    client.delete("clock")
    script, rules = client.register_script(_script()), Rules((Quota("requests", 1, 10),))

    def look(now: float, bound: float | None = None, epoch: str = "") -> dict[str, Any]:
        request = {
            "rules": _encode_rules(rules), "caller": "a", "ops": [_encode(Take([0.0]))], "epoch": epoch, "grace": 0.0,
            "ttl": 60_000, "now": now,
        }  # fmt: skip
        if bound is not None:
            request["bound"] = bound
        answer: dict[str, Any] = json.loads(script(["clock"], [json.dumps(request)]))
        return {**answer, "now": float(answer["now"])}

    first = look(5000.0)
    assert len(first["taken"]) == 1
    # Set forward by an hour, half a second after: who saw the state before knows better.
    ahead = look(5000.5 + 3600, first["now"] + 0.55, first["epoch"])
    assert not ahead["taken"]
    assert ahead["now"] == pytest.approx(first["now"] + 0.5, abs=0.1)
    # Set back by a day: time stands for a moment and goes on.
    back = look(5000.5 - 86_400, ahead["now"] + 1, first["epoch"])
    assert back["now"] == ahead["now"]
    later = look(5000.5 - 86_400 + 10.0, back["now"] + 10.1, first["epoch"])
    assert len(later["taken"]) == 1
