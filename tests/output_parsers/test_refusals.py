"""Refusals in parsers: those that need an answer raise, at the end of a stream with all the words."""

from __future__ import annotations

import pickle

import pytest
from pydantic import BaseModel

from foldline.exceptions import ModelRefusalError, OutputParserException
from foldline.messages import AIMessage, AIMessageChunk
from foldline.output_parsers import (
    JsonOutputParser,
    JsonOutputToolsParser,
    PydanticOutputParser,
    PydanticToolsParser,
    StrOutputParser,
)
from foldline.output_parsers.fix import OutputFixingParser
from foldline.output_parsers.openai_functions import JsonOutputFunctionsParser
from foldline.runnables import RunnableGenerator, RunnableLambda


class Pet(BaseModel):
    name: str


PARSERS = {
    "json": JsonOutputParser(),
    "pydantic": PydanticOutputParser(pydantic_object=Pet),
    "tools": JsonOutputToolsParser(),
    "pydantic tools": PydanticToolsParser(tools=[Pet]),
    "functions": JsonOutputFunctionsParser(),
    "fixing": OutputFixingParser.from_llm(
        llm=RunnableLambda(lambda _: '{"name": "Rex"}'), parser=JsonOutputParser()
    ),
}
REFUSALS = {
    "a block": AIMessage([{"type": "refusal", "refusal": "I will not."}]),
    "LangChain's field": AIMessage("", additional_kwargs={"refusal": "I will not."}),
    "Anthropic's reason": AIMessage(
        "I will not.",
        response_metadata={
            "model_provider": "anthropic",
            "stop_reason": "refusal",
            "stop_details": {"explanation": "I will not."},
        },
    ),
    "our reason": AIMessage("I will not.", finish_reason="refusal"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("parser", PARSERS)
def test_a_parser_that_needs_an_answer_raises_for_a_refusal(call, parser, refusal):
    with pytest.raises(ModelRefusalError, match="I will not") as caught:
        call.invoke(PARSERS[parser], REFUSALS[refusal])

    assert caught.value.refusal == "I will not."
    assert caught.value.raw_message is REFUSALS[refusal]
    assert isinstance(caught.value, OutputParserException)


@pytest.mark.parametrize("parser", ["json", "pydantic", "tools", "pydantic tools", "functions"])
def test_a_streamed_refusal_raises_at_its_end_with_all_its_words(call, parser):
    chunks = [
        AIMessageChunk([{"type": "refusal", "refusal": piece, "index": 0}])
        for piece in ("I will", " not.")
    ]

    def stream(_inputs):
        yield from chunks

    with pytest.raises(ModelRefusalError) as caught:
        call.stream(RunnableGenerator(stream) | PARSERS[parser], "x")

    assert caught.value.refusal == "I will not."


def test_the_text_parser_returns_the_text_of_a_refusal_which_is_none(call):
    assert call.invoke(StrOutputParser(), REFUSALS["a block"]) == ""


def test_a_refusal_error_keeps_its_fields_when_it_is_pickled():
    error = ModelRefusalError.from_refusal(
        {"type": "refusal", "refusal": "No.", "extras": {"category": "bio"}},
        raw_message=REFUSALS["a block"],
    )

    copy = pickle.loads(pickle.dumps(error))

    assert (str(copy), copy.refusal, copy.raw_message) == (
        str(error),
        "No.",
        REFUSALS["a block"],
    )
