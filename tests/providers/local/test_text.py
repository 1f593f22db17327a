"""`LlamaCpp`: the small model of the box continues a text, in this process."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import ContextOverflowError, ModelNotFoundError
from foldline.load import dumps, loads
from foldline.providers.local import LlamaCpp

pytestmark = [pytest.mark.timing, pytest.mark.slow]

PROMPT = "The days of the week are Monday, Tuesday,"


class Heard(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.ends: list[Any] = []

    def on_llm_new_token(self, token: str, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends.append(response)


def model(**settings: Any) -> LlamaCpp:
    return LlamaCpp(**{"temperature": 0.0, "seed": 1, "max_tokens": 8, **settings})


def test_a_text_is_continued(call):
    heard = Heard()
    answer = call.invoke(model(), PROMPT, {"callbacks": [heard]})
    assert "Wednesday" in answer
    usage = heard.ends[0].llm_output["token_usage"]
    assert usage["completion_tokens"] == 8
    assert usage["prompt_tokens"] > 5
    assert heard.ends[0].generations[0][0].generation_info["finish_reason"] == "length"


def test_it_comes_piece_by_piece_and_is_the_same(call):
    pieces = call.stream(model(), PROMPT)
    assert len([piece for piece in pieces if piece]) > 3
    assert "".join(pieces) == call.invoke(model(), PROMPT)


def test_streaming_tells_tokens(call):
    heard = Heard()
    answer = call.invoke(model(streaming=True), PROMPT, {"callbacks": [heard]})
    assert "".join(heard.tokens) == answer
    assert len(heard.tokens) > 3


def test_stop_echo_and_suffix(call):
    answer = call.invoke(model(echo=True, suffix="!", max_tokens=20), PROMPT, stop=["Thursday"])
    assert answer.startswith(PROMPT)
    assert answer.endswith("!")
    assert "Thursday" not in answer


def test_a_batch_is_answered_in_order(call):
    one, two = call.batch(model(), [PROMPT, "2, 4, 6, 8, 10,"])
    assert "Wednesday" in one
    assert "12" in two


def test_logprobs_are_told(call):
    heard = Heard()
    call.invoke(model(logprobs=2), PROMPT, {"callbacks": [heard]})
    assert heard.ends[0].generations[0][0].generation_info["logprobs"]


def test_a_grammar_is_kept(call):
    assert call.invoke(model(grammar='root ::= " yes" | " no"'), "Is the sky blue?") in (
        " yes",
        " no",
    )


def test_a_prompt_that_does_not_fit_is_an_overflow(call):
    with pytest.raises(ContextOverflowError):
        call.invoke(model(), "word " * 9000)


def test_a_file_that_is_not_there(call):
    with pytest.raises(ModelNotFoundError, match="GGUF"):
        call.invoke(LlamaCpp(model_path="/nowhere/a.gguf"), "Hi")


def test_tokens_are_the_models_own():
    assert model().get_num_tokens(PROMPT) == len(model().get_token_ids(PROMPT)) > 5


def test_it_is_written_and_read_without_paths():
    read = loads(dumps(LlamaCpp(temperature=0.5)), allowed_objects="all")
    assert (type(read), read.temperature) == (LlamaCpp, 0.5)
