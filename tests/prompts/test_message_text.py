"""Messages as values of text templates: their text, never their repr."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from foldline.exceptions import SecurityError
from foldline.language_models.fake_chat_models import FakeMessagesListChatModel
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage
from foldline.prompt_values import ChatPromptValue, StringPromptValue
from foldline.prompts import (
    ChatPromptTemplate,
    FewShotPromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
)

ANSWER = AIMessage(
    [{"type": "text", "text": "Long "}, {"type": "text", "text": "answer {x}"}],
    response_metadata={"model_name": "m"},
    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    id="msg_1",
)
TEXT = "Long answer {x}"
HISTORY = [HumanMessage("Hi"), AIMessage("Hello")]
FORMATS = [("f-string", "{text}"), ("mustache", "{{text}}"), ("jinja2", "{{ text }}")]
every_format = pytest.mark.parametrize(("format", "template"), FORMATS)


def fill(template: str, format: str = "f-string", **values: Any) -> str:
    return PromptTemplate.from_template(template, template_format=format).format(**values)


def test_an_answer_that_is_piped_into_a_prompt_is_its_text(call: Any) -> None:
    model = FakeMessagesListChatModel(responses=[ANSWER])

    chat = call.invoke(model | ChatPromptTemplate.from_template("Shorten: {text}"), "x")
    text = call.invoke(model | PromptTemplate.from_template("Shorten: {text}"), "x")

    assert chat.messages == [HumanMessage(f"Shorten: {TEXT}")]
    assert text.text == f"Shorten: {TEXT}"


@every_format
@pytest.mark.parametrize(
    "value",
    [
        ANSWER,
        AIMessageChunk(TEXT),
        HumanMessage(TEXT),
        StringPromptValue(text=TEXT),
    ],
)
def test_a_message_is_its_text_in_every_format(format: str, template: str, value: Any) -> None:
    assert fill(f"Say: {template}!", format, text=value) == f"Say: {TEXT}!"


@every_format
def test_a_list_of_messages_is_its_transcript(format: str, template: str) -> None:
    assert fill(template, format, text=HISTORY) == "Human: Hi\nAI: Hello"
    assert fill(template, format, text=tuple(HISTORY)) == "Human: Hi\nAI: Hello"
    assert fill(template, format, text=ChatPromptValue(messages=HISTORY)) == "Human: Hi\nAI: Hello"


@every_format
def test_messages_inside_other_values_are_their_texts(format: str, template: str) -> None:
    assert fill(template, format, text={"a": ANSWER, "b": 1}) == f"{{'a': '{TEXT}', 'b': 1}}"
    assert fill(template, format, text=["x", ANSWER]) == f"['x', '{TEXT}']"


def test_format_specs_apply_to_the_text_and_the_repr_is_there_for_who_asks() -> None:
    assert fill("{text:>6}|{text:.2}", text=HumanMessage("Hi!")) == "   Hi!|Hi"
    assert fill("{text!s}", text=ANSWER) == TEXT
    assert fill("{text!r}", text=ANSWER) == repr(ANSWER)


def test_loops_go_over_the_texts_of_messages() -> None:
    loop = "{% for part in text %}[{{ part }}]{% endfor %}{{ text[0] | upper }}"

    assert fill("{{#text}}[{{.}}]{{/text}}", "mustache", text=HISTORY) == "[Hi][Hello]"
    assert fill(loop, "jinja2", text=HISTORY) == "[Hi][Hello]HI"


@every_format
def test_partial_values_and_examples_are_texts_too(format: str, template: str) -> None:
    example = PromptTemplate.from_template(template, template_format=format)
    few_shot = FewShotPromptTemplate(
        examples=[{"text": ANSWER}],
        example_prompt=example,
        prefix=template,
        suffix="end",
        template_format=format,
        input_variables=["text"],
    )

    assert example.partial(text=ANSWER).format() == TEXT
    assert few_shot.format(text=ANSWER) == f"{TEXT}\n\n{TEXT}\n\nend"


def test_a_placeholder_takes_the_messages_themselves(call: Any) -> None:
    prompt = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "About: {history}")])

    messages = call.invoke(prompt, {"history": HISTORY}).messages

    assert messages == [*HISTORY, HumanMessage("About: Human: Hi\nAI: Hello")]


def test_values_without_messages_are_not_copied() -> None:
    class Shown:
        def __format__(self, spec: str) -> str:
            return f"<{spec}>"

    assert fill("{text:ab}", text=Shown()) == "<ab>"
    assert fill("{text}", text=[1, {"a": (2,)}]) == "[1, {'a': (2,)}]"


@pytest.mark.parametrize("template", [
    "{{ a.content }}", "{{ a['type'] }}", "{% for m in b %}{{ m.content }}{% endfor %}", "{{ b.content }}",
])  # fmt: skip
def test_a_part_of_a_message_in_jinja_is_an_error_and_not_empty_text(template: str) -> None:
    prompt = PromptTemplate.from_template(template, template_format="jinja2")

    with pytest.raises(SecurityError, match="reads the text of a message, not its"):
        prompt.format(a=AIMessage("hello"), b=[AIMessage("hello")])


class Messages(list[Any]):
    """A list of a program's own."""


@pytest.mark.parametrize("kind", [Messages, deque, tuple])
def test_every_sequence_of_messages_is_its_transcript(kind: Any) -> None:
    prompt = PromptTemplate.from_template("{a}")

    assert prompt.format(a=kind([HumanMessage("hi"), AIMessage("hello")])) == "Human: hi\nAI: hello"
