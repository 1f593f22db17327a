"""The cost that a vendor reports wins over every table of prices."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.callbacks import UsageMetadataCallbackHandler
from foldline.exceptions import BudgetExceeded
from foldline.language_models import Limits, usage_scope
from foldline.prices import message_cost
from foldline.providers._cost import read_cost
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatOpenRouter, ChatPerplexity, ChatXAI
from tests.servers import FaultServer, json_answer, sse_answer

COUNTS = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
REPORTS: list[tuple[Any, dict[str, Any], float]] = [
    (ChatOpenRouter, {"cost": 0.0125}, 0.0125),
    (
        ChatOpenRouter,
        {"cost": 0.01, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.01}},
        0.01,
    ),
    (
        ChatOpenRouter,
        {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}},
        0.21,
    ),
    (ChatOpenRouter, {"cost": 0}, 0.0),
    (ChatXAI, {"cost_in_usd_ticks": 37_756_000}, 0.0037756),
    (ChatPerplexity, {"cost": {"input_tokens_cost": 0.001, "total_cost": 0.006}}, 0.006),
]


def script(server: FaultServer, usage: dict[str, Any], *, times: int = 1) -> None:
    response = {
        "id": "1",
        "model": "nobody/knows-this",
        "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": usage,
    }
    chunks = [
        {"id": "1", "model": "nobody/knows-this", "choices": [{"delta": {"content": "hi"}}]},
        {"id": "1", "choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"id": "1", "choices": [], "usage": usage},
    ]
    for _ in range(times):
        server.script("/v1/chat/completions", json_answer(response), sse_answer(chunks))


def make(kind: Any, server: FaultServer, **options: Any) -> Any:
    return kind(
        model="nobody/knows-this",
        api_key="k",
        base_url=f"{server.url}/v1",
        max_retries=0,
        **options,
    )


@pytest.mark.parametrize(("kind", "report", "cost"), REPORTS)
def test_what_a_host_says_it_charged_is_the_cost(
    call: Any, fault_server: FaultServer, kind: Any, report: dict[str, Any], cost: float
) -> None:
    script(fault_server, {**COUNTS, **report})
    model, handler = make(kind, fault_server), UsageMetadataCallbackHandler()

    with usage_scope() as usage:
        answer = call.invoke(model, "x", {"callbacks": [handler]})
        chunks = call.stream(model, "x")

    assert answer.usage_metadata["total_cost"] == pytest.approx(cost)
    assert answer.response_metadata["cost"] == pytest.approx(cost)
    assert message_cost(answer) == handler.cost == pytest.approx(cost)
    assert message_cost(sum(chunks[1:], chunks[0])) == pytest.approx(cost)
    assert usage.cost == pytest.approx(2 * cost)
    assert usage.unpriced_calls == 0


def test_without_a_report_the_price_stays_unknown(call: Any, fault_server: FaultServer) -> None:
    script(fault_server, {**COUNTS, "cost": "much", "cost_details": None})

    with usage_scope() as usage:
        answer = call.invoke(make(ChatOpenRouter, fault_server), "x")

    assert "total_cost" not in answer.usage_metadata
    assert usage.cost is None


def test_a_report_counts_against_a_budget_and_goes_before_prices(
    call: Any, fault_server: FaultServer
) -> None:
    script(fault_server, {**COUNTS, "cost": 0.4})
    prices = {"prices": {"input": 1.0, "output": 1.0}}
    model = make(ChatOpenRouter, fault_server, profile=prices, max_tokens=100)

    with usage_scope(Limits(cost=0.3)) as usage, pytest.raises(BudgetExceeded):
        call.invoke(model, "x")

    assert usage.known_cost == pytest.approx(0.4)


def test_the_responses_wire_reads_a_report_too(call: Any, fault_server: FaultServer) -> None:
    text = {"type": "output_text", "text": "hi", "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [text]}
    counts = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    body = {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "grok-9",
        "output": [item],
        "usage": {**counts, "cost_in_usd_ticks": 2_000_000_000},
    }
    fault_server.script("/v1/responses", json_answer(body))
    model = ChatOpenAI(
        model="grok-9", api_key="k", base_url=f"{fault_server.url}/v1", use_responses_api=True
    )

    assert message_cost(call.invoke(model, "x")) == pytest.approx(0.2)


def test_tokens_written_to_a_cache_have_the_name_that_prices_know(
    call: Any, fault_server: FaultServer
) -> None:
    details = {"cached_tokens": 200, "cache_write_tokens": 300}
    script(fault_server, {**COUNTS, "prompt_tokens_details": details})
    prices = {"input": 1.0, "cache_read": 0.1, "cache_creation": 2.0, "output": 10.0}
    model = make(ChatOpenRouter, fault_server, profile={"prices": prices})

    answer = call.invoke(model, "x")

    assert answer.usage_metadata["input_token_details"] == {
        "cache_read": 200,
        "cache_creation": 300,
    }
    assert answer.response_metadata["cost"] == pytest.approx((500 + 20 + 600 + 1000) / 1e6)


@pytest.mark.parametrize("cost", [True, -1, float("nan"), float("inf"), "1", None, [], {}])
def test_what_is_no_amount_is_no_report(cost: Any) -> None:
    assert read_cost({"cost": cost}) is None
    assert read_cost({"cost_in_usd_ticks": cost}) is None


def test_sums_say_a_cost_only_where_every_request_did(call: Any, fault_server: FaultServer) -> None:
    script(fault_server, {**COUNTS, "cost": 0.4})
    handler, model = UsageMetadataCallbackHandler(), make(ChatOpenRouter, fault_server)
    call.invoke(model, "x", {"callbacks": [handler]})
    assert handler.usage_metadata["nobody/knows-this"]["total_cost"] == 0.4  # type: ignore[typeddict-item]

    fault_server.reset()
    script(fault_server, COUNTS)
    call.invoke(model, "x", {"callbacks": [handler]})

    assert "total_cost" not in handler.usage_metadata["nobody/knows-this"]
    assert handler.cost is None
