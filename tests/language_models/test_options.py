from __future__ import annotations

import pytest

from foldline.agents import create_agent
from foldline.exceptions import UsageError
from foldline.language_models import ToolChoice, from_config, tool_choice_of
from foldline.language_models._call.call_options import merge_options, read_tool_choice
from foldline.messages import AIMessage
from tests.language_models.scripted import Speaking


@pytest.mark.parametrize(
    ("value", "mode", "name"),
    [
        ("auto", "auto", None),
        ("none", "none", None),
        ("required", "required", None),
        ("any", "required", None),
        (True, "required", None),
        (False, "none", None),
        ("search", "tool", "search"),
        ({"type": "function", "function": {"name": "search"}}, "tool", "search"),
        ({"type": "function", "name": "search"}, "tool", "search"),
        ({"type": "tool", "name": "search"}, "tool", "search"),
        ({"type": "any"}, "required", None),
        ({"type": "auto"}, "auto", None),
        ({"type": "none"}, "none", None),
        ({"function_calling_config": {"mode": "ANY"}}, "required", None),
        ({"any": {}}, "required", None),
        ({"auto": {}}, "auto", None),
        ({"tool": {"name": "search"}}, "tool", "search"),
        (ToolChoice("required"), "required", None),
    ],
)
def test_every_form_of_tool_choice_is_one_value(value, mode, name):
    choice = read_tool_choice(value)

    assert (choice.mode, choice.name) == (mode, name)
    assert read_tool_choice(choice.as_option()) == choice


def test_anthropic_says_in_the_choice_that_calls_are_not_parallel():
    assert read_tool_choice({"type": "any", "disable_parallel_tool_use": True}).parallel is False


def test_a_choice_among_some_tools_keeps_their_names():
    value = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "a"}],
    }

    choice = read_tool_choice(value)

    assert (choice.mode, choice.allowed) == ("required", ("a",))
    assert read_tool_choice(choice.as_option()) == choice


@pytest.mark.parametrize("value", ["", 7, {"mode": "what"}, {}, []])
def test_a_choice_that_nobody_knows_says_what_to_write(value):
    with pytest.raises(UsageError, match="tool_choice="):
        read_tool_choice(value)


def test_options_without_a_choice_have_none():
    assert tool_choice_of({}) is None
    assert tool_choice_of({"parallel_tool_calls": False}) == ToolChoice("auto", parallel=False)


def test_nested_options_merge_and_nothing_given_is_changed():
    under, overrides = {"a": {"x": 1, "y": 1}, "b": 1}, {"a": {"y": 2}, "c": 3}

    assert merge_options(under, overrides) == {"a": {"x": 1, "y": 2}, "b": 1, "c": 3}
    assert (under, overrides) == ({"a": {"x": 1, "y": 1}, "b": 1}, {"a": {"y": 2}, "c": 3})


def test_model_options_lie_under_those_of_the_call_and_unknown_keys_reach_the_provider(call):
    model = Speaking(
        answers=["hi"], model_options={"top_p": 0.1, "extra": {"a": 1, "b": 1}, "stop": "X"}
    )

    call.invoke(model, "x", top_p=0.9, extra={"b": 2}, brand_new=True)

    assert model.requests[0].options == {"top_p": 0.9, "extra": {"a": 1, "b": 2}, "brand_new": True}
    assert model.requests[0].stop == ["X"]


def test_late_values_come_from_the_config(call):
    model = Speaking(answers=["hi"], model_options={"user": from_config("user_id", "nobody")})

    call.invoke(model, "x", {"configurable": {"user_id": "u1"}})
    call.invoke(model, "x")
    call.invoke(model, "x", {"configurable": {"model_options": {"seed": 3}}})

    assert [request.options["user"] for request in model.requests] == ["u1", "nobody", "nobody"]
    assert model.requests[2].options["seed"] == 3


def test_late_values_of_a_call_or_a_binding_come_from_the_config_too(call):
    model = Speaking(answers=["hi"])
    bound = model.bind(user=from_config("user_id", "nobody"), extra={"seat": from_config("seat")})

    call.invoke(bound, "x", {"configurable": {"user_id": "u1", "seat": 3}})
    call.invoke(bound, "x")

    assert [request.options["user"] for request in model.requests] == ["u1", "nobody"]
    assert [request.options["extra"] for request in model.requests] == [{"seat": 3}, {"seat": None}]


def test_an_option_the_model_refuses_is_left_out_with_a_warning(call):
    model = Speaking(answers=["hi"], profile={"unsupported_options": ["top_k"]})

    with pytest.warns(UserWarning, match="does not take top_k"):
        call.invoke(model, "x", top_k=3, seed=1)

    assert model.requests[0].options == {"seed": 1}


def test_an_option_the_model_refuses_raises_where_asked_for(call):
    model = Speaking(answers=["hi"], profile={"temperature": False}, on_unsupported="raise")

    with pytest.raises(UsageError, match="does not take temperature"):
        call.invoke(model, "x", temperature=0.5)

    assert model.requests == []


@pytest.mark.parametrize(
    ("profile", "name", "option"),
    [
        ({"unsupported_options": ["stop"]}, "stop", ["!"]),
        ({"tool_choice": False}, "tool_choice", "required"),
    ],
)
def test_what_the_profile_says_the_model_lacks_is_left_out_with_a_warning(
    call, profile, name, option
):
    model = Speaking(answers=["hi"], profile=profile)

    with pytest.warns(UserWarning, match=f"does not take {name}"):
        call.invoke(model, "x", **{name: option})

    assert model.requests[0].options == {}
    assert model.requests[0].stop is None


TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize("profile", [{"tool_calling": False}, {"unsupported_options": ["tools"]}])
def test_AH9_tools_are_sent_with_a_warning_though_the_profile_says_the_model_takes_none(
    call, profile
):
    model = Speaking(answers=["hi"], profile=profile)

    with pytest.warns(UserWarning, match="does not take tools.*sent all the same"):
        call.invoke(model.bind_tools(TOOLS), "x")
    with pytest.warns(UserWarning, match="sent all the same"):
        call.stream(model, "x", tools=TOOLS, tool_choice="required")

    assert [request.options["tools"] for request in model.requests] == [TOOLS, TOOLS]
    assert model.requests[1].options["tool_choice"] == "required"


def test_AH9_tools_that_the_model_lacks_raise_where_asked_for(call):
    model = Speaking(answers=["hi"], profile={"tool_calling": False}, on_unsupported="raise")

    with pytest.raises(UsageError, match="does not take tools"):
        call.invoke(model, "x", tools=TOOLS)

    assert model.requests == []


def test_AH9_an_agent_runs_its_tools_though_the_profile_says_the_model_takes_none(call):
    ran = []

    def look_up(word: str) -> str:
        """Look a word up."""
        ran.append(word)
        return "found"

    answers = [
        AIMessage("", tool_calls=[{"name": "look_up", "args": {"word": "x"}, "id": "1"}]),
        "done",
    ]
    model = Speaking(answers=answers, profile={"tool_calling": False})

    with pytest.warns(UserWarning, match="sent all the same"):
        call.invoke(create_agent(model, [look_up]), {"messages": "x"})

    assert ran == ["x"]
    assert model.requests[0].options["tools"][0]["function"]["name"] == "look_up"


def test_leaving_the_choice_to_a_model_that_cannot_be_told_is_no_warning(call):
    model = Speaking(answers=["hi"], profile={"tool_choice": False})

    call.invoke(model, "x", tool_choice="auto")

    assert model.requests[0].options == {"tool_choice": "auto"}


def test_one_stop_word_is_a_list_of_one(call):
    model = Speaking(answers=["hi"])

    call.invoke(model, "x", stop="END")

    assert model.requests[0].stop == ["END"]
