"""Parsers that ask a model again: with the question, with the error, or to mend the answer."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import OutputParserException, UsageError
from foldline.messages import AIMessage
from foldline.output_parsers import (
    BaseOutputParser,
    JsonOutputParser,
    OutputFixingParser,
    PydanticOutputParser,
    RetryOutputParser,
    RetryWithErrorOutputParser,
)
from foldline.prompt_values import StringPromptValue
from foldline.prompts import PromptTemplate
from foldline.runnables import RunnableLambda
from tests.runnables.recording import Recorder

QUESTION = StringPromptValue(text="2+2 as {JSON}")


class Model:
    """Answers from a list, and records its prompts."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []
        self.runnable = RunnableLambda(self._answer)

    def _answer(self, prompt: Any) -> AIMessage:
        self.prompts.append(prompt.to_string())
        return AIMessage(self.answers.pop(0))


def test_a_readable_answer_asks_nothing(call):
    model = Model()
    parser = OutputFixingParser.from_llm(model.runnable, JsonOutputParser())

    assert call.invoke(parser, '{"a": 1}') == {"a": 1}
    assert model.prompts == []


def test_a_broken_answer_is_mended_with_instructions_answer_and_error(call):
    model = Model('{"a": 4}')
    parser = OutputFixingParser.from_llm(model.runnable, JsonOutputParser())

    assert call.invoke(parser, AIMessage("four {x}")) == {"a": 4}
    (prompt,) = model.prompts
    for part in ("JSON object", "four {x}", "no JSON"):
        assert part in prompt
    assert call.run(parser, "parse", "{}") == {}


def test_after_so_many_tries_the_error_is_passed_on(call):
    model = Model("no", "never", "not")
    parser = OutputFixingParser.from_llm(model.runnable, JsonOutputParser(), max_retries=2)

    with pytest.raises(OutputParserException) as excinfo:
        call.invoke(parser, "nope")
    assert len(model.prompts) == 2
    assert excinfo.value.llm_output == "never"


def test_the_question_is_asked_again(call):
    model = Model('{"a": 4}')
    parser = RetryOutputParser.from_llm(model.runnable, JsonOutputParser())

    assert call.run(parser, "parse_with_prompt", "four", QUESTION) == {"a": 4}
    assert "2+2 as {JSON}" in model.prompts[0]
    assert "four" in model.prompts[0]
    assert "no JSON" not in model.prompts[0]
    with pytest.raises(NotImplementedError, match="parse_with_prompt"):
        call.invoke(parser, "x")


def test_the_question_is_asked_again_with_the_error(call):
    model = Model("still no", '{"a": 4}')
    parser = RetryWithErrorOutputParser.from_llm(
        llm=model.runnable, parser=JsonOutputParser(), max_retries=2
    )

    assert call.run(parser, "parse_with_prompt", "four", "the question") == {"a": 4}
    assert "no JSON" in model.prompts[0]
    assert "still no" in model.prompts[1]


def test_other_prompts_parsers_and_errors(call):
    class FailingParser(BaseOutputParser[str]):
        def parse(self, text: str) -> str:
            if text == "good":
                return text
            if text == "crash":
                raise RuntimeError("a bug, not an answer")
            raise OutputParserException("bad", llm_output=text)

    model = Model("good")
    parser = OutputFixingParser.from_llm(
        model.runnable, FailingParser(), prompt=PromptTemplate.from_template("mend {completion}")
    )
    assert call.invoke(parser, "bad") == "good"
    assert model.prompts == ["mend bad"]
    with pytest.raises(RuntimeError):
        call.invoke(parser, "crash")
    with pytest.raises(UsageError, match="runnable"):
        OutputFixingParser.from_llm("gpt", FailingParser())
    assert (parser._type, RetryOutputParser.from_llm(model.runnable, FailingParser())._type) == (
        "output_fixing",
        "retry",
    )
    assert (
        RetryWithErrorOutputParser.from_llm(model.runnable, FailingParser())._type
        == "retry_with_error"
    )


def test_the_model_asked_again_is_a_child_of_the_parsers_run(call):
    recorder = Recorder()
    parser = OutputFixingParser.from_llm(Model('{"a": 4}').runnable, JsonOutputParser())
    call.invoke(parser, "four", {"callbacks": [recorder]})

    assert recorder.parent_of("RunnableSequence") == "OutputFixingParser"
    recorder.check()


def test_what_the_parser_inside_says_is_said():
    from pydantic import BaseModel

    class Answer(BaseModel):
        a: int

    inner = PydanticOutputParser(pydantic_object=Answer)
    parser = OutputFixingParser.from_llm(Model().runnable, inner)
    assert parser.get_format_instructions() == inner.get_format_instructions()
    assert parser.OutputType is Answer
