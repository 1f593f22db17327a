"""Text models under rate limiters and usage scopes: every wire, and authors' own; whole, streamed, sync and async."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from foldline.exceptions import BudgetExceeded, RateLimitError
from foldline.language_models import LLM, BaseLLM, Limits, usage_scope
from foldline.outputs import Generation, GenerationChunk, LLMResult
from foldline.prices import find_prices, register_prices, table
from foldline.rate_limiters import InMemoryRateLimiter
from tests.providers.text_wires import WHOLE, WIRES, Wire, completion
from tests.rate_limiters.counting import CountingLimiter
from tests.servers import Answer, FaultServer, json_answer

pytestmark = pytest.mark.timing


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest, fault_server: FaultServer) -> Wire:
    wire = WIRES[request.param]
    fault_server.script(wire.path, WHOLE[request.param], wire.stream)
    return wire


def reserved_amount(limiter: InMemoryRateLimiter, key: str) -> float:
    return sum(limiter._state.used[key].values())


def ask_both(call: Any, model: Any) -> None:
    assert call.invoke(model, "x") == "Hello, world"
    assert "".join(call.stream(model, "x")) == "Hello, world"


def test_a_request_reserves_and_settles(call: Any, fault_server: FaultServer, wire: Wire) -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=10, tokens_per_minute=5_000)
    model = wire.model(fault_server, rate_limiter=limiter)

    ask_both(call, model)
    limiter.acquire(blocking=False)  # the last settlement goes with it

    assert reserved_amount(limiter, "requests/60") == 3
    assert reserved_amount(limiter, "tokens/60") == 2 * 5


def test_a_limit_that_is_used_up_refuses_before_anything_is_sent(
    call: Any, fault_server: FaultServer, wire: Wire
) -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=2, max_wait=0.01)
    model = wire.model(fault_server, rate_limiter=limiter)
    ask_both(call, model)

    with pytest.raises(RateLimitError):
        call.invoke(model, "x")
    with pytest.raises(RateLimitError):
        call.stream(model, "x")

    assert fault_server.hits(wire.path) == 2


def test_every_attempt_takes_a_permit_and_the_provider_may_stop_everybody(
    call: Any, fault_server: FaultServer
) -> None:
    wire = WIRES["openai"]
    busy = json_answer({"error": {"message": "slow"}}, status=429, headers={"retry-after": "0.4"})
    fault_server.script(wire.path, busy, WHOLE["openai"])
    limiter = InMemoryRateLimiter(requests_per_minute=10)
    model = wire.model(fault_server, rate_limiter=limiter, max_retries=1)
    start = time.monotonic()

    assert call.invoke(model, "x") == "Hello, world"

    assert time.monotonic() - start >= 0.4
    assert reserved_amount(limiter, "requests/60") == 2
    assert limiter._state.hold > 0


def test_a_limiter_without_reservations_is_asked_too(
    call: Any, fault_server: FaultServer, wire: Wire
) -> None:
    limiter = CountingLimiter()
    ask_both(call, wire.model(fault_server, rate_limiter=limiter))
    assert limiter.count == 2


@pytest.fixture
def own_prices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Prices that other tests do not see."""
    monkeypatch.setattr(table, "_registered", {})
    find_prices.cache_clear()
    yield
    monkeypatch.undo()
    find_prices.cache_clear()


@pytest.mark.usefixtures("own_prices")
def test_a_scope_counts_calls_tokens_and_cost(
    call: Any, fault_server: FaultServer, wire: Wire
) -> None:
    model = wire.model(fault_server)
    register_prices(model._provider, {model._model_name: {"input": 1.0, "output": 10.0}})

    with usage_scope() as usage:
        ask_both(call, model)

    assert usage.model_calls == 2
    assert (usage.input_tokens, usage.output_tokens) == (6, 4)
    assert usage.cost == pytest.approx(2 * (3 * 1.0 + 2 * 10.0) / 1e6)


def test_limits_of_a_scope_hold(call: Any, fault_server: FaultServer, wire: Wire) -> None:
    model = wire.model(fault_server)

    with usage_scope(Limits(model_calls=1)), pytest.raises(BudgetExceeded):
        ask_both(call, model)
    with usage_scope(Limits(output_tokens=1)) as usage, pytest.raises(BudgetExceeded):
        call.stream(model, "x")

    assert usage.output_tokens == 2


@pytest.mark.parametrize("kind", ["invoke", "stream"])
def test_a_deadline_ends_a_request_that_hangs(
    call: Any, fault_server: FaultServer, kind: str
) -> None:
    fault_server.script(WIRES["openai"].path, Answer([], before=[("stall", None)]))
    model = WIRES["openai"].model(fault_server)
    start = time.monotonic()

    with usage_scope(Limits(timeout=0.3)), pytest.raises(BudgetExceeded):
        getattr(call, kind)(model, "x")

    assert time.monotonic() - start < 5


def test_nothing_is_tried_again_where_no_time_is_left(call: Any, fault_server: FaultServer) -> None:
    busy = json_answer({"error": {"message": "slow"}}, status=429, headers={"retry-after": "60"})
    fault_server.script(WIRES["openai"].path, busy)
    model = WIRES["openai"].model(fault_server, max_retries=3)
    start = time.monotonic()

    with usage_scope(Limits(timeout=2)), pytest.raises(Exception, match="slow"):
        call.invoke(model, "x")

    assert time.monotonic() - start < 2
    assert fault_server.hits(WIRES["openai"].path) == 1


class Account:
    """A ledger that keeps the tokens that were reserved."""

    def __init__(self) -> None:
        self.reserved: list[int] = []

    def reserve(self, tokens: int, cost: float) -> int:
        self.reserved.append(tokens)
        return len(self.reserved)

    def settle(self, hold: int, tokens: int | None, cost: float | None) -> None:
        pass


def test_several_answers_to_several_prompts_are_reserved_for_at_once(
    call: Any, fault_server: FaultServer
) -> None:
    fault_server.script(WIRES["openai"].path, json_answer(completion(*["x"] * 10)))
    model = WIRES["openai"].model(fault_server, n=5, max_tokens=300)
    account = Account()

    with usage_scope(ledger=account) as usage:
        call.generate(model, ["x" * 40, "y" * 40])

    assert account.reserved == [2 * 10 + 2 * 5 * 300]
    assert usage.model_calls == 1


# -- authors' own


class OneByOne(LLM):
    @property
    def _llm_type(self) -> str:
        return "one"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return prompt


class Many(BaseLLM):
    @property
    def _llm_type(self) -> str:
        return "many"

    def _generate(
        self, prompts: list[str], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
        return LLMResult(
            generations=[[Generation(text=prompt)] for prompt in prompts],
            llm_output={"token_usage": usage},
        )

    def _stream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[GenerationChunk]:
        yield GenerationChunk(text="a")
        counts = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        yield GenerationChunk(text="b", generation_info={"token_usage": counts})


class StreamsAsync(Many):
    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[GenerationChunk]:
        for chunk in self._stream(prompt):
            yield chunk


def test_each_call_of_an_author_is_a_request(call: Any) -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=3, max_wait=0.01)
    model = OneByOne(rate_limiter=limiter)

    assert call.batch(model, ["a", "b", "c"]) == ["a", "b", "c"]
    with pytest.raises(RateLimitError):
        call.invoke(model, "d")
    with usage_scope() as usage:
        call.batch(OneByOne(), ["a", "b"])
    assert usage.model_calls == 2
    assert usage.cost is None


@pytest.mark.parametrize("kind", [Many, StreamsAsync])
def test_an_author_who_answers_many_at_once_makes_one_request(call: Any, kind: Any) -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=10, tokens_per_minute=9_000)
    model = kind(rate_limiter=limiter)

    with usage_scope() as usage:
        assert call.batch(model, ["a", "b", "c"]) == ["a", "b", "c"]
        assert call.stream(model, "a") == ["a", "b"]
    limiter.acquire(blocking=False)

    assert usage.model_calls == 2
    assert (usage.input_tokens, usage.output_tokens) == (10, 6)
    assert reserved_amount(limiter, "tokens/60") == 12 + 4


def test_a_stream_that_is_left_gives_its_share_back(call: Any) -> None:
    limiter = InMemoryRateLimiter(tokens_per_minute=600)
    model = Many(rate_limiter=limiter)

    with usage_scope(Limits(total_tokens=1_000)) as usage:
        for _ in model.stream("a"):
            break

    assert not usage.under_way
    assert usage.model_calls == 1
