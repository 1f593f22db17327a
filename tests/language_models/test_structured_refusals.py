"""Structured output of a model that refuses: an error of its own, which a fallback can name."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from foldline.exceptions import ModelRefusalError, StructuredOutputError
from foldline.messages import AIMessage
from tests.language_models.scripted import Speaking, usage


class Pet(BaseModel):
    """A pet."""

    name: str
    age: int


REFUSAL = {"type": "refusal", "refusal": "I will not.", "extras": {"category": "bio"}}


@pytest.mark.parametrize("method", ["json_schema", "json_mode", "tool"])
def test_a_refusal_is_an_error_of_its_own_with_its_words_message_and_usage(call, method):
    answer = AIMessage([REFUSAL], finish_reason="refusal", usage_metadata=usage(3, 4))
    model = Speaking(answers=[answer])

    with pytest.raises(
        ModelRefusalError, match=r"refused \(category='bio'\): I will not"
    ) as caught:
        call.invoke(model.with_structured_output(Pet, method=method), "x")

    error = caught.value
    assert error.refusal == "I will not."
    assert error.raw_message.content_blocks == [REFUSAL]
    assert error.partial is error.raw
    assert error.usage["total_tokens"] == 7
    assert not error.is_retryable
    assert isinstance(error, StructuredOutputError)
    assert len(model.requests) == 1


def test_a_refusal_block_without_its_reason_is_not_asked_again(call):
    model = Speaking(answers=[AIMessage([REFUSAL], finish_reason="stop")] * 3)

    with pytest.raises(ModelRefusalError):
        call.invoke(model.with_structured_output(Pet, max_retries=2), "x")

    assert len(model.requests) == 1


def test_include_raw_gives_the_refusal_as_the_parsing_error(call):
    model = Speaking(answers=[AIMessage([REFUSAL], finish_reason="refusal")])

    result = call.invoke(model.with_structured_output(Pet, include_raw=True), "x")

    assert result["parsed"] is None
    assert isinstance(result["parsing_error"], ModelRefusalError)
    assert result["parsing_error"].refusal == "I will not."


def test_a_stream_of_a_refusal_ends_with_its_error(call):
    model = Speaking(answers=[AIMessage([REFUSAL], finish_reason="refusal")])

    with pytest.raises(ModelRefusalError, match="I will not"):
        call.stream(model.with_structured_output(Pet, method="json_schema"), "x")


def test_a_fallback_can_name_refusals(call):
    refusing = Speaking(answers=[AIMessage([REFUSAL], finish_reason="refusal")] * 2)
    willing = Speaking(answers=['{"name": "Rex", "age": 3}'] * 2)
    chain = refusing.with_structured_output(Pet, method="json_schema").with_fallbacks(
        [willing.with_structured_output(Pet, method="json_schema")],
        exceptions_to_handle=(ModelRefusalError,),
    )

    assert call.invoke(chain, "x") == Pet(name="Rex", age=3)
    assert call.stream(chain, "x")[-1] == Pet(name="Rex", age=3)


def test_a_fallback_for_refusals_lets_other_errors_pass(call):
    wrong = Speaking(answers=["no JSON"])
    willing = Speaking(answers=['{"name": "Rex", "age": 3}'])
    chain = wrong.with_structured_output(Pet, method="json_schema", max_retries=0).with_fallbacks(
        [willing.with_structured_output(Pet, method="json_schema")],
        exceptions_to_handle=(ModelRefusalError,),
    )

    with pytest.raises(StructuredOutputError, match="not JSON"):
        call.invoke(chain, "x")


def test_a_refusal_of_a_model_without_a_schema_is_an_answer_and_no_error(call):
    model = Speaking(answers=[AIMessage([REFUSAL], finish_reason="refusal")])

    message = call.invoke(model, "x")

    assert message.content_blocks == [REFUSAL]
    assert message.text == ""
