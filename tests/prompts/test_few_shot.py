"""Examples in prompts, as text and as messages, listed or chosen."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from foldline.example_selectors import BaseExampleSelector
from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from foldline.prompts import (
    ChatPromptTemplate,
    FewShotChatMessagePromptTemplate,
    FewShotPromptTemplate,
    FewShotPromptWithTemplates,
    PromptTemplate,
)
from foldline.utils.formatting import MissingVariableError

PAIR = PromptTemplate.from_template("{i}={o}")
EXAMPLES = [{"i": "1", "o": "2"}, {"i": "3", "o": "4"}]


class NamingSelector(BaseExampleSelector):
    """Chooses the examples whose input is asked for, and remembers the mode it was asked in."""

    def __init__(self) -> None:
        self.modes: list[str] = []
        self.examples = list(EXAMPLES)

    def add_example(self, example):
        self.examples.append(example)

    def select_examples(self, input_variables):
        self.modes.append("sync")
        return [e for e in self.examples if e["i"] == input_variables["want"]]

    async def aselect_examples(self, input_variables):
        self.modes.append("async")
        return [e for e in self.examples if e["i"] == input_variables["want"]]


def test_few_shot_text(call):
    prompt = FewShotPromptTemplate(
        examples=EXAMPLES, example_prompt=PAIR, prefix="{p}", suffix="{q}="
    )

    assert call.invoke(prompt, {"p": "Sums", "q": "5"}).text == "Sums\n\n1=2\n\n3=4\n\n5="
    assert call.run(prompt, "format", p="", q="5") == "1=2\n\n3=4\n\n5="
    assert call.run(prompt.partial(p="P"), "format", q="5").startswith("P\n\n")
    assert loads(dumps(prompt)) == prompt


def test_a_selector_chooses_sync_or_async_like_the_call(call):
    selector = NamingSelector()
    prompt = FewShotPromptTemplate(
        example_selector=selector, example_prompt=PAIR, suffix="{q}", input_variables=["want", "q"]
    )

    assert prompt.input_variables == ["q", "want"]
    assert call.invoke(prompt, {"want": "3", "q": "?"}).text == "3=4\n\n?"
    assert selector.modes == [call.mode]


def test_few_shot_messages_stand_in_a_chat_prompt(call):
    selector = NamingSelector()
    shots = FewShotChatMessagePromptTemplate(
        example_selector=selector,
        example_prompt=ChatPromptTemplate([("human", "{i}"), ("ai", "{o}")]),
        input_variables=["want"],
    )
    prompt = ChatPromptTemplate([("system", "s"), shots, ("human", "{want}")])

    assert prompt.input_variables == ["want"]
    assert call.invoke(prompt, {"want": "1"}).messages == [
        SystemMessage("s"),
        HumanMessage("1"),
        AIMessage("2"),
        HumanMessage("1"),
    ]
    assert selector.modes == [call.mode]


def test_few_shot_messages_alone(call):
    shots = FewShotChatMessagePromptTemplate(
        examples=EXAMPLES, example_prompt=ChatPromptTemplate([("human", "{i}"), ("ai", "{o}")])
    )

    assert call.run(shots, "format") == "Human: 1\nAI: 2\nHuman: 3\nAI: 4"
    assert len(call.invoke(shots, {}).messages) == 4
    assert "{i}" in shots.pretty_repr()
    assert loads(dumps(shots)) == shots


def test_few_shot_between_two_prompts(call):
    prompt = FewShotPromptWithTemplates(
        examples=EXAMPLES,
        example_prompt=PAIR,
        prefix=PromptTemplate.from_template("P {p}"),
        suffix=PromptTemplate.from_template("S {s}"),
        example_separator="|",
    )

    assert prompt.input_variables == ["p", "s"]
    assert call.invoke(prompt, {"p": 1, "s": 2}).text == "P 1|1=2|3=4|S 2"
    assert loads(dumps(prompt)) == prompt
    with pytest.raises(ValidationError, match="input_variables"):
        FewShotPromptWithTemplates(
            examples=[],
            example_prompt=PAIR,
            suffix=PAIR,
            input_variables=["z"],
            validate_template=True,
        )


@pytest.mark.parametrize("settings", [{}, {"examples": [], "example_selector": NamingSelector()}])
def test_examples_or_a_selector_not_none_and_not_both(settings):
    with pytest.raises(ValidationError, match="example"):
        FewShotPromptTemplate(example_prompt=PAIR, suffix="x", **settings)
    with pytest.raises(ValidationError, match="example"):
        FewShotChatMessagePromptTemplate(
            example_prompt=ChatPromptTemplate([("human", "x")]), **settings
        )


def test_an_example_without_a_variable_of_its_prompt_is_named(call):
    prompt = FewShotPromptTemplate(examples=[{"i": "1"}], example_prompt=PAIR, suffix="x")

    with pytest.raises(MissingVariableError, match=r"no \['o'\].*\['i'\]"):
        call.invoke(prompt, {})


def test_extra_keys_of_an_example_are_ignored_and_selectors_are_not_saved(tmp_path):
    prompt = FewShotPromptTemplate(
        examples=[{"i": "1", "o": "2", "z": "3"}], example_prompt=PAIR, suffix=""
    )
    assert prompt.format() == "1=2"
    for cls, end in ((FewShotPromptTemplate, "x"), (FewShotPromptWithTemplates, PAIR)):
        with pytest.raises(ValueError, match="selector"):
            cls(example_selector=NamingSelector(), example_prompt=PAIR, suffix=end).save(
                tmp_path / "x.json"
            )


def test_validate_template_of_a_few_shot_prompt():
    with pytest.raises(ValidationError, match="missing"):
        FewShotPromptTemplate(
            examples=[],
            example_prompt=PAIR,
            suffix="{q}",
            input_variables=["z"],
            validate_template=True,
        )
