"""Retries and deadlines by a clock of our own: minutes of waiting, shown in no time."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import ModelAPIError, ModelRateLimitError
from foldline.language_models._call.retry_policy import RetryPolicy
from foldline.providers.openai import ChatOpenAI
from foldline.transports import Timeouts
from foldline.transports._body import Clock
from tests.faults.clock import FakeClock
from tests.servers import Answer, FaultServer, json_answer

pytestmark = pytest.mark.timing

CHAT = "/v1/chat/completions"
SAID = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
WHOLE = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [SAID]}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.install(monkeypatch)
    return clock


def model(server: FaultServer, **policy: Any) -> ChatOpenAI:
    retries = RetryPolicy(**{"max_retries": 4, "jitter": False, **policy})
    return ChatOpenAI(model="m", api_key="k", base_url=f"{server.url}/v1", retry_on_error=retries)


def rate_limit_answer(wait: str | None) -> Answer:
    return Answer(status=429, headers={} if wait is None else {"retry-after": wait})


@pytest.mark.parametrize(("wait", "slept"), [("30", 30.0), ("60", 60.0), ("0.5", 0.5)])
def test_F_H01_the_wait_a_server_asks_for_is_waited(call, fault_server, clock, wait, slept):
    fault_server.script(CHAT, rate_limit_answer(wait), json_answer(WHOLE))
    assert call.invoke(model(fault_server), "Hi").text == "Hello"
    assert clock.slept == [slept]
    assert fault_server.hits(CHAT) == 2


@pytest.mark.parametrize("wait", [None, "soon", "nan", "-5"])
def test_F_H01_nonsense_is_waited_as_if_nothing_was_asked(call, fault_server, clock, wait):
    fault_server.script(CHAT, rate_limit_answer(wait), rate_limit_answer(wait), json_answer(WHOLE))
    call.invoke(model(fault_server, initial=2.0, factor=3.0), "Hi")
    assert clock.slept == [2.0, 6.0]


def test_F_H01_a_wait_above_the_cap_is_raised_and_not_waited(call, fault_server, clock):
    fault_server.script(CHAT, rate_limit_answer("3600"))
    with pytest.raises(ModelRateLimitError) as excinfo:
        call.invoke(model(fault_server), "Hi")
    assert (excinfo.value.retry_after, clock.slept) == (3600, [])


def test_F_H03_waits_grow_to_their_bound_and_end_with_the_budget(call, fault_server, clock):
    fault_server.script(CHAT, Answer(status=503))
    with pytest.raises(ModelAPIError) as excinfo:
        call.invoke(model(fault_server, initial=10.0, max_delay=25.0), "Hi")
    assert clock.slept == [10.0, 20.0, 25.0, 25.0]
    assert (excinfo.value.attempts, fault_server.hits(CHAT)) == (5, 5)


def test_F_T09_the_deadline_of_the_whole_call_is_the_last_word(clock):
    ticking = Clock(Timeouts(first_byte=30, idle=30, total=60))
    assert (ticking.budget("first_byte"), ticking.phase) == (30, "first_byte")
    clock.advance(45)
    assert (ticking.budget("idle"), ticking.phase) == (15, "total")
    clock.advance(45)
    assert (ticking.budget("idle"), ticking.phase) == (0, "total")
