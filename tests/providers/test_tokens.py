"""`streaming=True` under `invoke` reports tokens, and `llm_output` has the usage: on every provider."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.callbacks import BaseCallbackHandler, StreamingStdOutCallbackHandler
from foldline.messages import HumanMessage
from tests.providers.recorded_models import MODELS, TEXTS


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.outputs: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        assert kwargs["chunk"].message.text == token
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.outputs.append(response.llm_output)


@pytest.mark.parametrize("provider", MODELS)
def test_a_model_that_streams_tells_its_tokens_under_invoke(provider: str, call: Any):
    recorder = Recorder()
    model = MODELS[provider](TEXTS[provider], streaming=True, callbacks=[recorder])

    message = call.invoke(model, "Hi")

    assert any(recorder.tokens)
    assert "".join(recorder.tokens) == message.text


@pytest.mark.parametrize("provider", MODELS)
def test_a_model_that_does_not_stream_tells_none(provider: str, call: Any):
    recorder = Recorder()

    call.invoke(MODELS[provider](TEXTS[provider], callbacks=[recorder]), "Hi")

    assert recorder.tokens == []


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("provider", MODELS)
def test_the_end_says_the_model_and_what_was_spent(provider: str, streaming: bool, call: Any):
    recorder = Recorder()
    model = MODELS[provider](TEXTS[provider], streaming=streaming, callbacks=[recorder])

    usage = call.invoke(model, "Hi").usage_metadata

    (output,) = recorder.outputs
    assert output["model_name"]
    assert output["token_usage"]["prompt_tokens"] == usage["input_tokens"]
    assert output["token_usage"]["completion_tokens"] == usage["output_tokens"]
    assert output["token_usage"]["total_tokens"] == usage["total_tokens"]


@pytest.mark.parametrize("provider", MODELS)
def test_generate_adds_up_what_was_spent(provider: str, call: Any):
    model = MODELS[provider](TEXTS[provider])

    single = model._generate([HumanMessage("Hi")]).llm_output
    usage = call.generate(model, [[HumanMessage("Hi")], [HumanMessage("Ho")]]).llm_output

    assert usage["model_name"] == single["model_name"]
    assert usage["token_usage"]["total_tokens"] == 2 * single["token_usage"]["total_tokens"]


def test_the_copied_recipe_prints_the_answer(capsys: pytest.CaptureFixture[str]):
    model = MODELS["openai"](
        TEXTS["openai"], streaming=True, callbacks=[StreamingStdOutCallbackHandler()]
    )

    message = model.invoke("Hi")

    assert capsys.readouterr().out == message.text
