"""Callbacks of prompts and parsers, and structured prompts."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.load import dumps, loads
from foldline.output_parsers import JsonOutputParser, StrOutputParser
from foldline.prompts import ChatPromptTemplate, DictPromptTemplate, PromptTemplate
from foldline.prompts.structured import StructuredPrompt
from foldline.runnables import Runnable, RunnableLambda
from tests.runnables.recording import Recorder


class KindRecorder(Recorder):
    serialized: Any = None

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.serialized = serialized
        super().on_chain_start(serialized, inputs, **kwargs)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        (PromptTemplate.from_template("{q}"), "PromptTemplate"),
        (ChatPromptTemplate.from_template("{q}"), "ChatPromptTemplate"),
        (ChatPromptTemplate([("human", "{q}")], name="mine"), "mine"),
        (
            DictPromptTemplate(template={"a": "{q}"}, template_format="f-string"),
            "DictPromptTemplate",
        ),
    ],
)
def test_a_prompt_is_told_as_a_run_of_the_kind_prompt(call, prompt, name):
    recorder = KindRecorder()
    call.invoke(prompt, {"q": 1}, {"callbacks": [recorder]})

    (run,) = recorder.started.values()
    assert (run["name"], run["run_type"], run["inputs"]) == (name, "prompt", {"q": 1})
    assert recorder.serialized["name"] == name
    assert loads(dumps(prompt)) == prompt
    recorder.check()


def test_tags_and_metadata_of_a_prompt_are_those_of_its_runs(call):
    recorder = KindRecorder()
    prompt = PromptTemplate.from_template("{q}", tags=["t"], metadata={"a": 1})
    for run in (call.invoke, call.stream):
        run(prompt, {"q": 1}, {"callbacks": [recorder], "tags": ["u"], "metadata": {"b": 2}})

    for run in recorder.started.values():
        assert run["tags"] == ["u", "t"]
        assert run["metadata"] == {"a": 1, "b": 2}


def test_a_prompt_that_fails_is_told_as_an_error(call):
    recorder = KindRecorder()
    with pytest.raises(KeyError):
        call.invoke(ChatPromptTemplate.from_template("{q}"), {"z": 1}, {"callbacks": [recorder]})

    assert recorder.endings() == {"ChatPromptTemplate": "error"}


def test_a_chain_tells_prompt_and_parser_in_their_order(call):
    recorder = KindRecorder()
    chain = (
        PromptTemplate.from_template("[{q}]")
        | RunnableLambda(lambda value: value.text)
        | JsonOutputParser()
    )
    for run in (call.invoke, call.stream):
        assert run(chain, {"q": 1}, {"callbacks": [recorder]}) in ([1], [[1]])

    kinds = [(run["name"], run.get("run_type")) for run in recorder.started.values()]
    assert kinds[:4] == [
        ("RunnableSequence", None),
        ("PromptTemplate", "prompt"),
        ("RunnableLambda", None),
        ("JsonOutputParser", "parser"),
    ]
    recorder.check()


class Model(Runnable[Any, Any]):
    """Records how it was called."""

    def invoke(self, input, config=None, **kwargs):
        return "plain"

    def with_structured_output(self, schema, **options):
        return RunnableLambda(lambda value: (value.to_string(), schema, options))


def test_a_structured_prompt_asks_the_model_for_its_schema(call):
    schema = {"title": "Answer", "type": "object", "properties": {}}
    prompt = StructuredPrompt([("human", "{a}")], schema, method="json_mode")

    assert call.invoke(prompt | Model(), {"a": 1}) == ("Human: 1", schema, {"method": "json_mode"})
    piped = prompt.pipe(Model(), RunnableLambda(lambda answer: answer[0]))
    assert call.invoke(piped, {"a": 1}) == "Human: 1"
    assert loads(dumps(prompt)) == prompt
    assert call.invoke(prompt.partial(a=2) | Model(), {})[0] == "Human: 2"
    structured_prompt = StructuredPrompt.from_messages_and_schema([("human", "x")], schema)
    assert call.invoke(structured_prompt, {}).to_string() == "Human: x"


def test_a_structured_prompt_needs_a_schema_and_a_model():
    with pytest.raises(UsageError, match="schema"):
        StructuredPrompt([("human", "{a}")])
    with pytest.raises(UsageError, match="with_structured_output"):
        StructuredPrompt([("human", "{a}")], {"title": "x"}) | StrOutputParser()


def test_get_prompts_finds_the_prompts_of_a_chain():
    prompt = ChatPromptTemplate.from_template("{a}")

    assert (prompt | RunnableLambda(str)).get_prompts() == [prompt]
