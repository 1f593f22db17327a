"""Tools, cache points, settings, reasoning and schemas -> Converse."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.tools import tool
from tests.providers.bedrock.bodies import (
    CLAUDE,
    PNG,
    add,
    body_of,
    check_body,
    explain,
)


@pytest.mark.parametrize(
    ("choice", "encoded"),
    [
        ("auto", {"auto": {}}),
        ("any", {"any": {}}),
        ("required", {"any": {}}),
        ("add", {"tool": {"name": "add"}}),
        (True, {"any": {}}),
        ({"tool": {"name": "add"}}, {"tool": {"name": "add"}}),
        ({"any": {}}, {"any": {}}),
        (None, None),
    ],
)
def test_a_choice_of_tools(choice, encoded):
    config = body_of("Hi", tools=[add], tool_choice=choice)["toolConfig"]

    assert config["tools"][0]["toolSpec"]["description"] == "Add numbers."
    assert config["tools"][0]["toolSpec"]["inputSchema"]["json"]["required"] == ["a"]
    assert config.get("toolChoice") == encoded


def test_no_tool_may_be_called_where_none_was():
    assert "toolConfig" not in body_of("Hi", tools=[add], tool_choice="none")


def test_a_choice_that_is_no_tool_is_refused():
    with pytest.raises(UsageError, match="subtract"):
        explain("Hi", tools=[add], tool_choice="subtract")


def test_tools_of_bedrock_and_of_the_model_go_their_own_ways():
    computer = {"type": "computer_20250124", "name": "computer"}
    body = body_of("Hi", tools=[{"systemTool": {"name": "nova_grounding"}}, computer, add])

    assert [next(iter(tool)) for tool in body["toolConfig"]["tools"]] == ["systemTool", "toolSpec"]
    assert body["additionalModelRequestFields"] == {"tools": [computer]}


def test_a_strict_tool_has_a_closed_schema():
    spec = body_of("Hi", tools=[add], strict=True)["toolConfig"]["tools"][0]["toolSpec"]

    assert spec["strict"] is True
    assert spec["inputSchema"]["json"]["additionalProperties"] is False


def test_a_tool_that_takes_free_text_has_one_argument():
    @tool
    def shell(command: str) -> str:
        """Run."""
        return command

    shell.metadata = {"type": "custom_tool"}
    explanation = explain("Hi", tools=[shell])

    spec = explanation.body["toolConfig"]["tools"][0]["toolSpec"]
    assert spec["inputSchema"]["json"]["required"] == ["__arg1"]
    assert explanation.notes == ["the tool 'shell' takes free text: sent with one argument"]


def test_tools_that_are_not_allowed_are_left_out():
    allowed_tools = [{"type": "function", "name": "add"}]
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed_tools}
    other = {"name": "other", "description": "d", "input_schema": {"type": "object"}}
    config = body_of("Hi", tools=[add, other], tool_choice=choice)["toolConfig"]

    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == ["add"]
    assert config["toolChoice"] == {"any": {}}


# -- cache points


def test_cache_marks_become_cache_points():
    mark = {"type": "ephemeral", "ttl": "1h"}
    body = body_of(
        [
            SystemMessage([{"type": "text", "text": "S", "cache_control": mark}]),
            HumanMessage("Hi", additional_kwargs={"cache_control": {"type": "ephemeral"}}),
        ],
        tools=[
            {
                "name": "f",
                "description": "d",
                "input_schema": {"type": "object"},
                "cache_control": mark,
            }
        ],
    )

    assert body["system"] == [{"text": "S"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]
    assert body["messages"][0]["content"] == [{"text": "Hi"}, {"cachePoint": {"type": "default"}}]
    assert body["toolConfig"]["tools"][1] == {"cachePoint": {"type": "default", "ttl": "1h"}}


def test_prompt_cache_sets_the_points_itself():
    body = body_of([SystemMessage("S"), HumanMessage("Hi")], {"prompt_cache": True}, tools=[add])

    places = (body["system"], body["messages"][0]["content"], body["toolConfig"]["tools"])
    assert [place[-1] for place in places] == [{"cachePoint": {"type": "default"}}] * 3


def test_the_mark_of_a_result_comes_after_it():
    result = ToolMessage(
        [{"type": "text", "text": "r", "cache_control": {"type": "ephemeral"}}], tool_call_id="c"
    )
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        result,
    ]

    content = body_of(messages)["messages"][2]["content"]
    assert [next(iter(part)) for part in content] == ["toolResult", "cachePoint"]
    assert content[0]["toolResult"]["content"] == [{"text": "r"}]


# -- further fields


def test_fields_of_the_api():
    fields = {
        "additional_model_request_fields": {"anthropic_beta": ["x"]},
        "additional_model_response_field_paths": ["/stop_sequence"],
        "guardrails": {"guardrailIdentifier": "g1", "guardrailVersion": "1", "trace": "enabled"},
        "performance_config": "optimized",
        "prompt_variables": {"genre": "pop"},
        "request_metadata": {"team": "a"},
        "service_tier": "flex",
        "top_k": 5,
    }
    body = body_of("Hi", fields, custom_option=1)

    assert body["additionalModelRequestFields"] == {
        "anthropic_beta": ["x"],
        "top_k": 5,
        "custom_option": 1,
    }
    assert body["additionalModelResponseFieldPaths"] == ["/stop_sequence"]
    assert body["guardrailConfig"]["trace"] == "enabled"
    assert body["performanceConfig"] == {"latency": "optimized"}
    assert body["promptVariables"] == {"genre": {"text": "pop"}}
    assert body["requestMetadata"] == {"team": "a"}
    assert body["serviceTier"] == {"type": "flex"}


def test_fields_in_the_words_of_the_api_are_taken_too():
    body = body_of(
        "Hi", guardrailConfig={"guardrailIdentifier": "g1"}, inferenceConfig={"maxTokens": 3}
    )

    assert body["guardrailConfig"] == {"guardrailIdentifier": "g1"}
    assert body["inferenceConfig"] == {"maxTokens": 3}


def test_a_guardrail_may_read_the_last_turn_only():
    messages = [
        HumanMessage("old"),
        AIMessage("ok"),
        HumanMessage([{"type": "text", "text": "new"}, PNG]),
    ]
    turns = body_of(messages, {"guard_last_turn_only": True})["messages"]

    assert turns[0]["content"] == [{"text": "old"}]
    assert [next(iter(part["guardContent"])) for part in turns[2]["content"]] == ["text", "image"]


def test_an_unknown_field_of_the_constructor_goes_to_the_model():
    with pytest.warns(UserWarning, match="does not know"):
        model = ChatBedrockConverse(model=CLAUDE, region_name="us-east-1", seedling=3)

    assert model.explain("Hi").body["additionalModelRequestFields"] == {"seedling": 3}


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        (CLAUDE, "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (CLAUDE, "none", {"thinking": {"type": "disabled"}}),
        ("anthropic.claude-opus-4-6-v1", "high", {"thinking": {"type": "adaptive"}}),
        (
            "us.amazon.nova-2-lite-v1:0",
            "low",
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
        ),
        ("openai.gpt-oss-120b-1:0", "medium", {"reasoning_effort": "medium"}),
    ],
)
def test_reasoning_effort_in_the_words_of_the_family(model, effort, expected):
    body = body_of("Hi", {"model": model}, reasoning_effort=effort)

    assert body.get("additionalModelRequestFields") == expected
    if (expected or {}).get("thinking", {}).get("budget_tokens"):
        assert body["inferenceConfig"]["maxTokens"] > 1024


def test_a_model_that_does_not_reason_is_not_told_to():
    explanation = explain(
        "Hi", fields={"model": "us.amazon.nova-pro-v1:0", "reasoning_effort": "low"}
    )

    assert "additionalModelRequestFields" not in explanation.body
    assert explanation.notes == [
        "us.amazon.nova-pro-v1:0 does not reason: reasoning_effort was left out"
    ]


def test_effort_gives_way_to_thinking_and_thinking_to_no_forced_tool():
    fields = {
        "additional_model_request_fields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    }
    explanation = explain(
        "Hi", fields=fields, tools=[add], tool_choice="any", reasoning_effort="high"
    )

    assert explanation.body["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 2000
    assert explanation.body["toolConfig"]["toolChoice"] == {"auto": {}}
    assert len(explanation.notes) >= 2


def test_an_effort_that_the_model_does_not_know_is_said_as_it_is_sent():
    explanation = explain(
        "Hi", fields={"model": "amazon.nova-2-lite-v1:0", "reasoning_effort": "max"}
    )

    assert explanation.notes == ["reasoning_effort='max' was sent as 'high'"]


def test_another_model_of_a_call_has_its_own_profile():
    explanation = explain("Hi", model="amazon.nova-2-lite-v1:0", reasoning_effort="low")

    assert "/amazon.nova-2-lite-v1%3A0/" in explanation.url
    assert "reasoningConfig" in explanation.body["additionalModelRequestFields"]


def test_top_k_of_nova_has_a_place_of_its_own():
    body = body_of("Hi", {"model": "amazon.nova-lite-v1:0", "top_k": 4})

    assert body["additionalModelRequestFields"] == {"inferenceConfig": {"topK": 4}}


# -- structured output


class City(BaseModel):
    """A city."""

    name: str
    tags: list[str] = []


def test_a_schema_is_sent_natively_where_the_model_takes_it():
    chain = ChatBedrockConverse(model=CLAUDE, region_name="us-east-1").with_structured_output(City)
    body = chain.first.bound.explain("Hi", **chain.first.kwargs).body

    form = body["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    definition = form["structure"]["jsonSchema"]
    assert definition["name"] == "City"
    assert json.loads(definition["schema"])["additionalProperties"] is False
    check_body(body)


def test_a_schema_is_a_tool_for_other_models():
    model = ChatBedrockConverse(model="us.amazon.nova-pro-v1:0", region_name="us-east-1")
    chain = model.with_structured_output(City)
    config = chain.first.bound.explain("Hi", **chain.first.kwargs).body["toolConfig"]

    assert config["toolChoice"] == {"tool": {"name": "City"}}


@pytest.mark.parametrize(
    "form",
    [
        City,
        City.model_json_schema(),
        {"json_schema": {"name": "City", "schema": {"type": "object", "properties": {}}}},
    ],
)
def test_forms_of_a_schema(form):
    body = body_of("Hi", response_format=form)

    assert body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["name"] == "City"


def test_json_mode_is_only_noted():
    assert "outputConfig" not in body_of("Hi", response_format={"type": "json_object"})
