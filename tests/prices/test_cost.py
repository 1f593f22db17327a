"""Cost of a usage: every kind of token by its own price, and None where a price is not known."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from foldline.messages import AIMessage
from foldline.prices import Prices, cost_of, find_prices, message_cost

PRICES: Prices = {
    "input": 1.0,
    "output": 10.0,
    "cache_read": 0.1,
    "cache_creation": 1.25,
    "cache_creation_1h": 2.0,
    "reasoning": 20.0,
    "input_audio": 3.0,
    "output_audio": 30.0,
    "input_image": 4.0,
    "output_image": 40.0,
}
MILLION = 1_000_000


def make_usage(input_tokens: int = 0, output_tokens: int = 0, **details: int) -> dict[str, object]:
    inside = {name[3:]: count for name, count in details.items() if name.startswith("in_")}
    outside = {name[4:]: count for name, count in details.items() if name.startswith("out_")}
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "input_token_details": inside,
        "output_token_details": outside,
    }


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (make_usage(MILLION), 1.0),
        (make_usage(0, MILLION), 10.0),
        (make_usage(MILLION, in_cache_read=MILLION), 0.1),
        (make_usage(MILLION, in_cache_creation=MILLION), 1.25),
        (make_usage(MILLION, in_cache_creation=MILLION, in_ephemeral_1h_input_tokens=MILLION), 2.0),
        (make_usage(MILLION, in_ephemeral_5m_input_tokens=MILLION), 1.25),
        (make_usage(MILLION, in_audio=MILLION), 3.0),
        (make_usage(MILLION, in_image=MILLION), 4.0),
        (make_usage(0, MILLION, out_reasoning=MILLION), 20.0),
        (make_usage(0, MILLION, out_audio=MILLION), 30.0),
        (make_usage(0, MILLION, out_image=MILLION), 40.0),
        (make_usage(4 * MILLION, in_cache_read=MILLION, in_audio=MILLION), 2.0 + 0.1 + 3.0),
        (make_usage(0, 3 * MILLION, out_reasoning=MILLION), 20.0 + 20.0),
    ],
)
def test_every_kind_of_token_has_its_price(usage: dict[str, object], cost: float) -> None:
    assert cost_of(usage, PRICES) == pytest.approx(cost)


def test_tokens_without_a_price_of_their_own_are_plain_input_and_output() -> None:
    usage = make_usage(10, 10, in_cache_read=4, in_audio=3, out_reasoning=5, out_audio=2)

    assert cost_of(usage, {"input": 1.0, "output": 2.0}) == pytest.approx(30 / MILLION)


@pytest.mark.parametrize(
    ("usage", "prices"),
    [
        (None, PRICES),
        ({}, PRICES),
        ({"total_tokens": 5}, PRICES),
        (make_usage(1, 1), None),
        (make_usage(1, 1), {}),
        (make_usage(1, 1), {"input": 1.0}),
        (make_usage(1, 1), {"output": 1.0}),
    ],
)
def test_what_is_not_known_is_none_and_never_nothing(usage: object, prices: object) -> None:
    assert cost_of(usage, prices) is None  # type: ignore[arg-type]


def test_an_input_alone_needs_no_price_of_an_output() -> None:
    assert cost_of(make_usage(MILLION), {"input": 0.02}) == pytest.approx(0.02)


def test_a_cost_that_the_provider_tells_goes_before_all() -> None:
    assert cost_of({"total_cost": 0.5}, None) == 0.5
    assert cost_of({"total_cost": 0, "input_tokens": 5}, PRICES) == 0
    assert cost_of({"total_cost": True, "input_tokens": MILLION}, {"input": 1.0}) == 1.0


def test_a_batch_has_its_own_price_and_scales_what_it_leaves_out() -> None:
    prices: Prices = {
        "input": 2.0,
        "output": 8.0,
        "cache_read": 0.2,
        "batch": {"input": 1.0, "output": 4.0},
    }
    usage = make_usage(MILLION, MILLION, in_cache_read=MILLION)

    assert cost_of(usage, prices) == pytest.approx(8.2)
    assert cost_of(usage, prices, service="batch") == pytest.approx(4.1)
    assert cost_of(usage, prices, service="priority") is None


def test_a_long_prompt_is_dearer_as_a_whole() -> None:
    prices: Prices = {
        "input": 1.0,
        "output": 10.0,
        "cache_read": 0.1,
        "above": {
            "200000": {"input": 2.0, "output": 15.0},
            "500000": {"input": 3.0, "output": 20.0},
        },
        "batch": {"input": 0.5, "output": 5.0},
    }

    assert cost_of(make_usage(200_000, 100), prices) == pytest.approx(0.2 + 0.001)
    assert cost_of(make_usage(200_001, 100), prices) == pytest.approx(0.400002 + 0.0015)
    assert cost_of(make_usage(MILLION, 100), prices) == pytest.approx(3.0 + 0.002)
    assert cost_of(make_usage(MILLION, in_cache_read=MILLION), prices) == pytest.approx(0.3)
    assert cost_of(make_usage(200_001, 100), prices, service="batch") == pytest.approx(
        (0.400002 + 0.0015) / 2
    )


@given(
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
)
def test_no_usage_costs_more_than_its_dearest_or_less_than_its_cheapest_price(
    given_: int, output_tokens: int, read: int, cache_write: int, thought: int
) -> None:
    # The parts of the input are parts of it: a provider that counts them beside it is read so in its decoder.
    given_ = max(given_, read + cache_write)
    usage = make_usage(
        given_,
        output_tokens,
        in_cache_read=read,
        in_cache_creation=cache_write,
        out_reasoning=thought,
    )
    cost = cost_of(usage, PRICES)

    assert cost is not None
    lowest, highest = (
        (given_ * 0.1 + output_tokens * 10) / MILLION,
        (given_ * 2 + output_tokens * 20) / MILLION,
    )
    assert lowest - 1e-9 <= cost <= highest + 1e-9


def test_counts_that_are_no_counts_cost_nothing() -> None:
    usage = {
        "input_tokens": -5,
        "output_tokens": None,
        "input_token_details": {"cache_read": "many"},
    }

    assert cost_of(usage, PRICES) == 0


def test_an_answer_is_priced_by_the_model_and_the_service_it_names() -> None:
    usage = {"input_tokens": MILLION, "output_tokens": 0, "total_tokens": MILLION}
    metadata = {"model_provider": "openai", "model_name": "gpt-5-2025-08-07"}
    plain = AIMessage("hi", usage_metadata=usage, response_metadata=metadata)
    dear = AIMessage(
        "hi", usage_metadata=usage, response_metadata={**metadata, "service_tier": "priority"}
    )
    other = AIMessage(
        "hi", usage_metadata=usage, response_metadata={**metadata, "service_tier": "default"}
    )
    prices = find_prices("openai", "gpt-5")
    assert prices is not None

    assert message_cost(plain) == message_cost(other) == prices["input"]
    assert message_cost(dear) == prices["priority"]["input"]
    assert message_cost(AIMessage("hi")) is None
    assert message_cost(AIMessage("hi", usage_metadata=usage)) is None
