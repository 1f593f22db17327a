"""Chat prompts: what they are made of, and how they are filled in, added, cut and shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from foldline.exceptions import UsageError
from foldline.load import dumps, loads
from foldline.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.prompt_values import ChatPromptValue
from foldline.prompts import (
    AIMessagePromptTemplate,
    BaseChatPromptTemplate,
    ChatMessagePromptTemplate,
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
    SystemMessagePromptTemplate,
)
from foldline.prompts.message import BaseMessagePromptTemplate
from foldline.utils.formatting import MissingVariableError


def test_a_chat_prompt_is_made_of_whatever_means_a_message(call):
    prompt = ChatPromptTemplate(
        [
            ("system", "You are {name}."),
            SystemMessage("fixed {name}"),
            ("placeholder", "{history}"),
            {"role": "user", "content": "{q}"},
            (AIMessage, "ok"),
            AIMessagePromptTemplate.from_template("{q}!"),
            "bare {q}",
            ChatPromptTemplate([("human", "nested {q}")]),
        ]
    )

    value = call.invoke(prompt, {"name": "Bob", "q": "why", "history": [("ai", "h"), "s"]})

    assert value == ChatPromptValue(
        messages=[
            SystemMessage("You are Bob."),
            SystemMessage("fixed {name}"),
            AIMessage("h"),
            HumanMessage("s"),
            HumanMessage("why"),
            AIMessage("ok"),
            AIMessage("why!"),
            HumanMessage("bare why"),
            HumanMessage("nested why"),
        ]
    )
    assert prompt.input_variables == ["name", "q"]
    assert prompt.optional_variables == ["history"]


def test_messages_made_without_validation_equal_those_made_with_it(call):
    prompt = ChatPromptTemplate([("system", "{a}"), ("human", "{a}"), ("ai", "{a}")])
    messages = call.invoke(prompt, {"a": "x"}).to_messages()

    assert messages == [SystemMessage("x"), HumanMessage("x"), AIMessage("x")]
    for message, twin in zip(
        messages, [SystemMessage("x"), HumanMessage("x"), AIMessage("x")], strict=True
    ):
        assert message.model_dump() == twin.model_dump()
        assert repr(message) == repr(twin)
        assert pickle.loads(pickle.dumps(message)) == twin
        assert loads(dumps(message)) == twin
        message.additional_kwargs["mine"] = 1
    assert call.invoke(prompt, {"a": "x"}).to_messages()[0].additional_kwargs == {}


def test_half_a_character_in_a_value_is_spelt_so_that_it_can_be_sent(call):
    value = call.invoke(ChatPromptTemplate([("human", "{a}")]), {"a": "x\ud83d"})

    assert value.to_messages()[0].content == "x\\ud83d"


def test_missing_variables_are_all_named(call):
    prompt = ChatPromptTemplate([("human", "{a} {b}"), MessagesPlaceholder("history")])

    with pytest.raises(MissingVariableError, match=r"\{'b', 'history'\}"):
        call.invoke(prompt, {"a": 1})
    with pytest.raises(KeyError):
        call.run(prompt, "format_messages", a=1, b=2)


def test_a_message_passes_through_as_the_same_object(call):
    message = HumanMessage("{not a variable}")
    value = call.invoke(ChatPromptTemplate([message]), {})

    assert value.to_messages()[0] is message


def test_a_placeholder_takes_the_last_messages_and_may_be_optional():
    place = MessagesPlaceholder("h", n_messages=2)

    assert [m.content for m in place.format_messages(h=["a", "b", "c"])] == ["b", "c"]
    assert MessagesPlaceholder("h", optional=True).format_messages() == []
    assert MessagesPlaceholder("h", optional=True).format_messages(h=None) == []
    assert place.format_messages(h=(HumanMessage("t"),)) == [HumanMessage("t")]
    with pytest.raises(UsageError, match="list of messages"):
        place.format_messages(h="text")
    with pytest.raises(ValidationError):
        MessagesPlaceholder("h", n_messages=0)


def test_a_placeholder_does_not_hand_out_the_callers_list():
    history = [HumanMessage("a")]
    MessagesPlaceholder("h").format_messages(h=history).append(HumanMessage("b"))

    assert history == [HumanMessage("a")]


@pytest.mark.parametrize(
    ("value", "error_text"),
    [
        ([("bob", "{a}")], "bob"),
        ([("tool", "{a}")], "type: tool"),
        ([3], "int"),
        ([{"role": "user"}], "role"),
        ([("placeholder", "x")], "braces"),
        ([("placeholder", ["{x}"])], "is_optional"),
        ([("human", "a", "b")], "pair"),
        ([(ToolMessage, "x")], "ToolMessage"),
        ([("human", 3)], "list of parts"),
        ("text", "from_template"),
    ],
)
def test_what_is_no_message_says_what_it_should_have_been(value, error_text):
    with pytest.raises(UsageError, match=error_text):
        ChatPromptTemplate(value)


def test_a_placeholder_pair_may_be_required():
    assert ChatPromptTemplate([("placeholder", ["{x}", False])]).input_variables == ["x"]


def test_partial_fills_in_now_or_by_a_function_each_time(call):
    prompt = ChatPromptTemplate([("human", "{a}{b}"), MessagesPlaceholder("h")])
    partial = prompt.partial(a=lambda: "1", h=[("ai", "x")])

    assert partial.input_variables == ["b"]
    assert call.invoke(partial, {"b": 2}).to_messages() == [HumanMessage("12"), AIMessage("x")]
    assert prompt.input_variables == ["a", "b", "h"]


def test_prompts_add_up_with_prompts_texts_messages_lists_and_keep_what_was_given():
    base = ChatPromptTemplate([("human", "{a}")]).partial(a="A")
    more = (
        base
        + "x{y}"
        + AIMessage("k")
        + [("ai", "{z}")]
        + ("system", "{w}")
        + PromptTemplate.from_template("{v}")
    )
    prompt = more + ChatPromptTemplate([("human", "{b}")]).partial(b="B")

    assert prompt.input_variables == ["v", "w", "y", "z"]
    assert [m.content for m in prompt.format_messages(v=1, w=2, y=3, z=4)] == [
        "A",
        "x3",
        "k",
        "4",
        "2",
        "1",
        "B",
    ]


def test_messages_add_up_to_a_prompt():
    prompt = SystemMessage("You {x}") + HumanMessage("lit") + "and {b}"

    assert isinstance(prompt, ChatPromptTemplate)
    assert prompt.input_variables == ["b"]
    assert isinstance(HumanMessagePromptTemplate.from_template("{a}") + "b", ChatPromptTemplate)


def test_append_and_extend_ask_for_the_new_variables(call):
    prompt = ChatPromptTemplate([("human", "{a}")])
    prompt.append("{b}")
    prompt.extend([("ai", "{c}"), MessagesPlaceholder("h", optional=True)])

    assert prompt.input_variables == ["a", "b", "c"]
    with pytest.raises(MissingVariableError, match=r"\{'c'\}"):
        call.invoke(prompt, {"a": 1, "b": 2})
    assert len(call.invoke(prompt, {"a": 1, "b": 2, "c": 3}).messages) == 3


def test_a_prompt_is_indexed_and_cut_like_a_list():
    prompt = ChatPromptTemplate([("system", "{a}"), ("human", "{b}"), ("ai", "{c}")]).partial(c="C")

    assert len(prompt) == 3
    assert isinstance(prompt[0], SystemMessagePromptTemplate)
    assert prompt[1:].input_variables == ["b"]
    assert [m.content for m in prompt[1:].format_messages(b="B")] == ["B", "C"]


def test_a_prompt_of_one_variable_takes_its_value(call):
    assert call.invoke(ChatPromptTemplate.from_template("{q}"), "hi").to_messages() == [
        HumanMessage("hi")
    ]
    placed = ChatPromptTemplate([MessagesPlaceholder("m")])
    assert call.invoke(placed, [("ai", "x")]).to_messages() == [AIMessage("x")]


def test_chat_messages_have_any_role_and_templates_carry_kwargs():
    assert ChatMessagePromptTemplate.from_template("{a}", role="chair").format(
        a="x"
    ) == ChatMessage("x", role="chair")
    carried = HumanMessagePromptTemplate.from_template("{a}", additional_kwargs={"k": 1}).format(
        a="x"
    )
    assert carried.additional_kwargs == {"k": 1}
    partial = HumanMessagePromptTemplate.from_template("{a}{b}", partial_variables={"a": "1"})
    assert partial.format(b="2").content == "12"


def test_input_types_tell_the_schema_which_variables_are_messages():
    schema = ChatPromptTemplate([MessagesPlaceholder("h"), ("human", "{q}")]).get_input_jsonschema()

    assert schema["properties"]["h"]["type"] == "array"
    assert schema["properties"]["q"]["type"] == "string"


def test_pretty_repr_shows_every_message_under_its_title(capsys):
    prompt = ChatPromptTemplate([("system", "You {a}"), MessagesPlaceholder("h"), AIMessage("x")])
    prompt.pretty_print()

    output = capsys.readouterr().out
    for part in ("System Message", "You {a}", "Messages Placeholder", "{h}", "Ai Message"):
        assert part in output
    assert "\x1b[" in prompt.pretty_repr(html=True)


def test_format_is_a_transcript(call):
    assert (
        call.run(ChatPromptTemplate([("system", "a"), ("human", "{b}")]), "format", b="c")
        == "System: a\nHuman: c"
    )


def test_chat_prompts_dump_and_load_with_all_their_parts():
    prompt = ChatPromptTemplate(
        [
            ("system", "{a}"),
            (
                "human",
                [
                    {"type": "text", "text": "{b}"},
                    {"type": "image_url", "image_url": "{u}"},
                    {"type": "x", "y": "{z}"},
                ],
            ),
            MessagesPlaceholder("h", optional=True),
            AIMessage("lit"),
        ]
    )

    assert loads(dumps(prompt)) == prompt


def test_an_authors_chat_prompt_writes_format_messages(call):
    class RepeatedPrompt(BaseChatPromptTemplate):
        def format_messages(self, **kwargs: Any):
            return [HumanMessage(kwargs["a"]), HumanMessage(kwargs["a"])]

    assert len(call.invoke(RepeatedPrompt(input_variables=["a"]), {"a": "x"}).messages) == 2
    inside = ChatPromptTemplate([RepeatedPrompt(input_variables=["a"]), ("ai", "{b}")])
    assert inside.input_variables == ["a", "b"]
    assert len(call.invoke(inside, {"a": "x", "b": "y"}).messages) == 3


def test_authors_message_templates_and_overrides_are_asked_through_their_methods(call):
    class Shout(BaseMessagePromptTemplate):
        def format_messages(self, **kwargs: Any):
            return [HumanMessage(kwargs["a"].upper())]

        @property
        def input_variables(self) -> list[str]:
            return ["a"]

    class Marked(HumanMessagePromptTemplate):
        def format(self, **kwargs: Any):
            return HumanMessage("> " + super().format(**kwargs).content)

    prompt = ChatPromptTemplate([Shout(), Marked.from_template("{a}")])
    assert [m.content for m in call.invoke(prompt, {"a": "x"}).messages] == ["X", "> x"]


def test_an_authors_override_of_a_chat_prompt_is_used(call):
    class Ended(ChatPromptTemplate):
        def format_messages(self, **kwargs: Any):
            return [*super().format_messages(**kwargs), AIMessage("end")]

    assert len(call.invoke(Ended([("human", "{a}")]), {"a": 1}).messages) == 2


def test_validate_template_compares_the_variables_given():
    with pytest.raises(ValidationError, match=r"\{'a'\}"):
        ChatPromptTemplate([("human", "{a}")], input_variables=["b"], validate_template=True)


def test_a_mustache_chat_prompt_uses_it_in_every_message(call):
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{{a}}"), ("human", "{b} {{b}}")], template_format="mustache"
    )

    assert [m.content for m in call.invoke(prompt, {"a": 1, "b": 2}).messages] == ["1", "{b} 2"]
