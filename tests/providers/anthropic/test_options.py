"""Request bodies for tools, thinking, schemas and caching."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from foldline.exceptions import UsageError
from foldline.language_models._call.policies.prompt_caching import CacheConfig
from foldline.messages import (
    HumanMessage,
    SystemMessage,
)
from foldline.providers.anthropic import ChatAnthropic, convert_to_anthropic_tool

MODEL = ChatAnthropic(model="claude-sonnet-4-5", api_key="key", max_tokens=1000)
NEW = ChatAnthropic(model="claude-opus-5", api_key="key", max_tokens=1000)


def search(query: str) -> str:
    """Search the web."""
    return query


def other(place: str) -> str:
    """Do something else."""
    return place


def body_of(input, model=MODEL, **options):
    return model.explain(input, **options).body


def content_of(*blocks):
    return body_of([HumanMessage(list(blocks))])["messages"][0]["content"]


def test_tools_of_every_kind_are_described():
    class Answer(BaseModel):
        """The answer."""

        value: int = Field(ge=0)

    custom_tool = {
        "name": "mine",
        "input_schema": {"type": "object"},
        "cache_control": {"type": "ephemeral"},
    }
    server = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    openai = {"type": "function", "function": {"name": "theirs", "parameters": {"type": "object"}}}
    tools = body_of("Hi", tools=[search, Answer, custom_tool, server, openai])["tools"]

    assert tools[0]["name"] == "search"
    assert tools[0]["description"] == "Search the web."
    assert tools[0]["input_schema"]["required"] == ["query"]
    assert tools[1]["input_schema"]["properties"]["value"]["minimum"] == 0
    assert tools[2:4] == [custom_tool, server]
    assert tools[4] == {"name": "theirs", "input_schema": {"type": "object", "properties": {}}}


def test_strict_tools_have_closed_schemas():
    (tool,) = body_of("Hi", tools=[search], strict=True)["tools"]

    assert tool["strict"] is True
    assert tool["input_schema"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "any"}, {"type": "any"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "search"}, {"type": "tool", "name": "search"}),
        ({"tool_choice": {"type": "tool", "name": "search"}}, {"type": "tool", "name": "search"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "search"}}},
            {"type": "tool", "name": "search"},
        ),
        (
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "any", "parallel_tool_calls": False},
            {"type": "any", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_every_way_to_choose_a_tool(options, choice):
    assert body_of("Hi", tools=[search, other], **options).get("tool_choice") == choice


@pytest.mark.parametrize("tools", [[search], [search, other]])
def test_tool_choice_true_requires_a_call(tools):
    assert body_of("Hi", tools=tools, tool_choice=True)["tool_choice"] == {"type": "any"}


def test_a_tool_nobody_has_cannot_be_chosen():
    with pytest.raises(UsageError, match="nosuch"):
        body_of("Hi", tools=[search], tool_choice="nosuch")


def test_a_forced_tool_gives_way_to_thinking():
    thinking = {"type": "enabled", "budget_tokens": 1024}
    explanation = MODEL.explain("Hi", tools=[search], tool_choice="any", thinking=thinking)

    assert explanation.body["tool_choice"] == {"type": "auto"}
    assert "tool_choice" in explanation.notes[0]


# -- thinking, schema, caching


def test_effort_is_a_word_or_a_budget_as_the_model_takes_it():
    new = body_of("Hi", NEW, reasoning_effort="high")
    old = body_of("Hi", MODEL, reasoning_effort="low")

    assert new["output_config"] == {"effort": "high"}
    assert new["thinking"] == {"type": "adaptive"}
    assert old["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert old["max_tokens"] == 2024
    assert body_of("Hi", NEW, reasoning_effort="none")["thinking"] == {"type": "disabled"}
    assert body_of("Hi", ChatAnthropic(model="claude-opus-5", effort="low"))["output_config"] == {
        "effort": "low"
    }


def test_a_schema_is_sent_in_the_words_that_are_enforced():
    class Person(BaseModel):
        """Somebody."""

        name: str = Field(max_length=20)
        age: int | None = Field(default=None, ge=0)

    output_format = body_of("Hi", NEW, response_format=Person)["output_config"]["format"]

    assert output_format["type"] == "json_schema"
    assert output_format["schema"]["additionalProperties"] is False
    assert output_format["schema"]["properties"]["name"] == {
        "type": "string",
        "description": "{maxLength: 20}",
    }
    openai = {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object", "properties": {}}},
    }
    assert (
        body_of("Hi", NEW, response_format=openai)["output_config"]["format"]["schema"]["type"]
        == "object"
    )


def test_cache_marks_pass_on_blocks_messages_and_tools():
    mark = {"type": "ephemeral"}
    body = body_of(
        [
            SystemMessage([{"type": "text", "text": "Long", "cache_control": mark}]),
            HumanMessage("Hi", additional_kwargs={"cache_control": mark}),
        ],
        tools=[{"name": "t", "input_schema": {"type": "object"}, "cache_control": mark}],
    )

    assert body["system"][0]["cache_control"] == mark
    assert body["messages"][0]["content"][0]["cache_control"] == mark
    assert body["tools"][0]["cache_control"] == mark


def test_cache_marks_can_be_set_by_themselves():
    model = ChatAnthropic(api_key="key", prompt_cache=CacheConfig(ttl="1h"))
    body = body_of([("system", "Long"), ("human", "Hi")], model, tools=[search])
    mark = {"type": "ephemeral", "ttl": "1h"}

    assert body["system"] == [{"type": "text", "text": "Long", "cache_control": mark}]
    assert body["messages"][0]["content"][0]["cache_control"] == mark
    assert body["tools"][0]["cache_control"] == mark


def test_one_tool_can_be_described_by_itself():
    assert convert_to_anthropic_tool(search) == {
        "name": "search",
        "description": "Search the web.",
        "input_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
    }


def test_a_schema_may_be_bare_and_json_mode_is_noted():
    bare = {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date"}, "n": {"oneOf": []}},
    }
    schema = body_of("Hi", NEW, response_format=bare)["output_config"]["format"]["schema"]
    noted = NEW.explain("Hi", response_format={"type": "json_object"})

    assert schema["properties"]["at"] == {"type": "string", "format": "date"}
    assert schema["properties"]["n"] == {"anyOf": []}
    assert "output_config" not in noted.body
    assert noted.notes == ["Anthropic has no JSON mode: only the prompt asks for JSON"]
    with_format = {
        "type": "array",
        "minItems": 1,
        "maxItems": 3,
        "items": {"type": "string", "format": "odd"},
    }
    assert body_of("Hi", NEW, response_format=with_format)["output_config"]["format"]["schema"] == {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "description": "{format: odd}"},
        "description": "{maxItems: 3}",
    }


def test_some_of_the_tools_may_be_allowed():
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "other"}],
    }
    body = body_of("Hi", tools=[search, other], tool_choice=choice)

    assert [tool["name"] for tool in body["tools"]] == ["other"]
    assert body["tool_choice"] == {"type": "any"}


def test_further_betas_and_effort_of_models_that_do_not_reason():
    model = ChatAnthropic(
        model="claude-3-5-haiku-latest", api_key="key", reasoning_effort="high", speed="fast"
    )
    explanation = model.explain("Hi", output_config={"task_budget": {"type": "tokens", "total": 9}})

    assert explanation.headers["anthropic-beta"] == "task-budgets-2026-03-13,fast-mode-2026-02-01"
    assert explanation.notes == [
        "claude-3-5-haiku-latest does not reason: reasoning_effort was left out"
    ]


# -- reasoning_effort beside Anthropic's own words


OLD_THINKING = {"type": "enabled", "budget_tokens": 2000}


def test_an_effort_of_the_call_overrules_thinking_of_the_model():
    old = MODEL.model_copy(update={"thinking": OLD_THINKING})
    new = NEW.model_copy(update={"thinking": {"type": "disabled"}})
    model = NEW.model_copy(update={"thinking": {"type": "adaptive", "display": "summarized"}})

    assert body_of("Hi", old, reasoning_effort=5000)["thinking"]["budget_tokens"] == 5000
    assert body_of("Hi", old, reasoning_effort="none")["thinking"] == {"type": "disabled"}
    assert body_of("Hi", new, reasoning_effort="high")["thinking"] == {"type": "adaptive"}
    assert body_of("Hi", model, reasoning_effort="low")["thinking"] == {
        "type": "adaptive",
        "display": "summarized",
    }


def test_an_effort_beside_thinking_gives_way_and_says_so():
    model = MODEL.model_copy(update={"thinking": OLD_THINKING, "reasoning_effort": 9000})
    explanation = model.explain("Hi")

    assert explanation.body["thinking"] == OLD_THINKING
    assert explanation.notes == [f"reasoning_effort=9000 gave way to thinking={OLD_THINKING!r}"]
    assert (
        MODEL.model_copy(update={"thinking": OLD_THINKING, "reasoning_effort": 2000})
        .explain("Hi")
        .notes
        == []
    )


def test_the_words_of_a_call_overrule_those_of_the_model_and_are_told_apart_beside_each_other():
    low = NEW.model_copy(update={"reasoning_effort": "low"})
    high = NEW.model_copy(update={"effort": "high"})
    nested = NEW.model_copy(
        update={"output_config": {"effort": "max", "task_budget": {"total": 9}}}
    )
    model = NEW.model_copy(update={"effort": "high", "reasoning_effort": "low"})

    assert body_of("Hi", low, effort="max")["output_config"] == {"effort": "max"}
    assert body_of("Hi", high, reasoning_effort="low")["output_config"] == {"effort": "low"}
    assert body_of("Hi", nested, reasoning_effort="low")["output_config"] == {
        "effort": "low",
        "task_budget": {"total": 9},
    }
    assert model.explain("Hi").notes == ["reasoning_effort='low' gave way to effort='high'"]
