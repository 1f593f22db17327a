from __future__ import annotations

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import get_openai_callback, get_usage_metadata_callback
from foldline.language_models import BaseLLM, FakeListLLM
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.outputs import Generation, LLMResult
from foldline.prices import find_prices

SPENT = {
    "input_tokens": 8,
    "output_tokens": 2,
    "total_tokens": 10,
    "input_token_details": {"cache_read": 4},
    "output_token_details": {"reasoning": 1},
}


def answers(model_name):
    message = AIMessage(
        "hi",
        usage_metadata=SPENT,
        response_metadata={"model_name": model_name, "model_provider": "openai"},
    )
    return GenericFakeChatModel(messages=iter([message, message]))


def test_tokens_requests_and_cost_of_a_block_are_counted(call):
    model = answers("gpt-4o-mini")

    with get_openai_callback() as info:
        call.invoke(model, "x")
        call.invoke(model, "x")

    assert (info.total_tokens, info.prompt_tokens, info.completion_tokens) == (20, 16, 4)
    assert (info.prompt_tokens_cached, info.reasoning_tokens) == (8, 2)
    assert info.successful_requests == 2
    assert info.total_cost > 0
    assert "Tokens Used: 20" in str(info)


def test_the_cost_of_a_model_without_a_price_is_unknown_and_the_text_names_it(call):
    with get_openai_callback() as info:
        call.invoke(answers("gpt-4o-mini"), "x")
        call.invoke(answers("nobody-knows-me"), "x")

    assert (info.total_cost, info.cost, info.total_tokens) == (None, None, 20)
    assert info.costs["gpt-4o-mini"] > 0
    assert "Total Cost (USD): unknown: no price for nobody-knows-me" in str(info)


def test_the_cost_of_an_answer_without_token_counts_is_unknown(call):
    silent = AIMessage("hi", response_metadata={"model_name": "gpt-4o-mini"})

    with get_openai_callback() as info:
        call.invoke(GenericFakeChatModel(messages=iter([silent])), "x")

    assert (info.total_cost, info.total_tokens, info.successful_requests) == (None, 0, 1)
    assert info.usage_metadata == {}
    assert "Total Cost (USD): unknown: no token counts from gpt-4o-mini" in str(info)


def test_a_cached_answer_without_token_counts_costs_nothing(call):
    metadata = {"model_name": "gpt-4o-mini", "finish_reason": "stop"}
    silent = AIMessage("hi", response_metadata=metadata)
    model = GenericFakeChatModel(messages=iter([silent]), cache=InMemoryCache())
    call.invoke(model, "x")

    with get_openai_callback() as info:
        call.invoke(model, "x")

    assert info.total_cost == 0


def test_without_a_run_nothing_was_spent():
    with get_openai_callback() as info:
        pass

    assert info.total_cost == 0
    assert "Total Cost (USD): $0" in str(info)


class TextModel(BaseLLM):
    """Writes what it used where OpenAI's text models write it, for all prompts of a call."""

    name: str = "gpt-3.5-turbo-instruct"

    @property
    def _llm_type(self):
        return "text"

    def _generate(self, prompts, stop=None, run_manager=None, **kwargs):
        count = len(prompts)
        usage = {"prompt_tokens": 3 * count, "completion_tokens": 2 * count}
        return LLMResult(
            generations=[[Generation(text="a")] for _ in prompts],
            llm_output={
                "token_usage": {**usage, "total_tokens": 5 * count},
                "model_name": self.name,
                "model_provider": "openai",
            },
        )


@pytest.mark.parametrize("counter", [get_openai_callback, get_usage_metadata_callback])
def test_a_text_models_cost_is_counted_and_unknown_without_a_price(call, counter):
    with counter() as known:
        call.invoke(TextModel(), "x")
    with counter() as unknown:
        call.invoke(TextModel(name="nobody-knows-me"), "x")

    prices = find_prices("openai", "gpt-3.5-turbo-instruct")
    assert prices is not None
    assert known.cost == pytest.approx((3 * prices["input"] + 2 * prices["output"]) / 1_000_000)
    assert unknown.cost is None
    assert unknown.usage_metadata["nobody-knows-me"]["total_tokens"] == 5


def test_the_bill_of_several_prompts_is_counted_once(call):
    with get_openai_callback() as info:
        call.run(TextModel(), "generate", ["x", "y", "z"])

    assert (info.total_tokens, info.successful_requests) == (15, 3)


def test_a_text_from_the_cache_costs_nothing(call):
    model = TextModel(cache=InMemoryCache())

    with get_openai_callback() as info:
        call.invoke(model, "x")
        call.invoke(model, "x")

    assert (info.total_tokens, info.successful_requests) == (5, 2)


def test_blocks_may_be_nested_with_the_other_counter():
    model = answers("m")

    with get_usage_metadata_callback() as outer, get_openai_callback() as middle:
        model.invoke("x")
        with get_openai_callback() as inner:
            model.invoke("x")

    assert (inner.total_tokens, middle.total_tokens) == (10, 20)
    assert (inner.successful_requests, middle.successful_requests) == (1, 2)
    assert outer.usage_metadata["m"]["total_tokens"] == 20


def test_tokens_of_a_text_model_are_counted():
    class Model(FakeListLLM):
        def _generate(self, prompts, stop=None, run_manager=None, **kwargs):
            usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
            return LLMResult(
                generations=[[Generation(text="a")]], llm_output={"token_usage": usage}
            )

    with get_openai_callback() as info:
        Model(responses=["a"]).invoke("x")

    assert (info.total_tokens, info.prompt_tokens, info.successful_requests) == (5, 3, 1)
