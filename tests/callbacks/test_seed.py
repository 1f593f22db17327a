"""Seed 000's callback samples, imports renamed: they run as written."""

from __future__ import annotations

from typing import Any

from foldline.callbacks import BaseCallbackHandler, CallbackManager, StreamingStdOutCallbackHandler
from foldline.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from foldline.messages import AIMessage


# fmt: off
class TokenCounterHandler(BaseCallbackHandler):
    """Counts tokens across all model calls."""

    def __init__(self):
        self.total_tokens = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0

    def on_llm_end(self, response, **kwargs):
        """Called when a model finishes. Extract usage metadata."""
        for generation in response.generations[0]:
            if hasattr(generation, 'message'):
                usage = generation.message.usage_metadata
                if usage:
                    self.total_tokens += usage.get("total_tokens", 0)
                    self.prompt_tokens += usage.get("input_tokens", 0)
                    self.completion_tokens += usage.get("output_tokens", 0)

    def on_llm_new_token(self, token: str, **kwargs):
        """Called on each streaming token."""
        self.completion_tokens += 1  # Approximate
# fmt: on


def model(**kwargs: Any) -> GenericFakeChatModel:
    usage = {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}
    answers = iter([AIMessage("leaves fall", usage_metadata=usage) for _ in range(3)])
    return GenericFakeChatModel(messages=answers, **kwargs)


def test_the_token_counter_of_the_seed_counts(call: Any):
    counter = TokenCounterHandler()
    counting_model = model(callbacks=[counter])

    call.invoke(counting_model, "Write a haiku about Python")

    assert (counter.total_tokens, counter.prompt_tokens, counter.completion_tokens) == (10, 8, 2)


def test_the_three_sources_of_the_seed_all_hear_the_call(call: Any):
    constructor, config, runtime = (
        TokenCounterHandler(),
        TokenCounterHandler(),
        TokenCounterHandler(),
    )
    counting_model = model(callbacks=[constructor])

    call.invoke(counting_model, "hi", config={"callbacks": [config]})
    call.invoke(counting_model, "hi", config={"callbacks": CallbackManager(handlers=[runtime])})

    assert (constructor.total_tokens, config.total_tokens, runtime.total_tokens) == (20, 10, 10)


def test_tokens_are_heard_while_they_stream(call: Any, capsys: Any):
    counter = TokenCounterHandler()

    chunks = call.stream(
        FakeListChatModel(responses=["abc"]),
        "x",
        {"callbacks": [counter, StreamingStdOutCallbackHandler()]},
    )

    assert counter.completion_tokens == len(chunks)
    assert capsys.readouterr().out == "abc"
