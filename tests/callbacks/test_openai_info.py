from __future__ import annotations

from foldline.callbacks import get_openai_callback, get_usage_metadata_callback
from foldline.language_models import FakeListLLM
from foldline.language_models.fake_chat_models import GenericFakeChatModel
from foldline.messages import AIMessage
from foldline.outputs import Generation, LLMResult

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


def test_a_model_without_a_price_costs_nothing():
    with get_openai_callback() as info:
        answers("nobody-knows-me").invoke("x")

    assert (info.total_cost, info.total_tokens) == (0, 10)


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
