"""foldline -> Converse; botocore's own model of the API says whether a body is one it would send."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from pydantic import BaseModel

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.bedrock.encode import base_model_name
from foldline.providers.bedrock.messages import encode_call_id
from tests.providers.bedrock.answers import (
    NAMES,
    decode_stream,
    events_of,
    message_of,
    whole_of,
)

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OWNER = {"bucketOwner": "123456789012"}
CITED = {"enabled": True}
PNG = {"type": "image", "base64": "AAEC", "mime_type": "image/png"}
API = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def explain(messages: Any, stream: bool = False, fields: Any = None, **options: Any) -> Any:
    model = ChatBedrockConverse(**{"model": CLAUDE, "region_name": "us-east-1", **(fields or {})})
    return model.explain(messages, stream=stream, **options)


def body_of(messages: Any, fields: Any = None, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = explain(messages, fields=fields, **options).body
    check_body(body)
    return body


def check_body(body: dict[str, Any]) -> None:
    """botocore validates what it is given before it would send it; bytes must be bytes there."""
    shape = API.operation_model("Converse").input_shape
    report = ParamValidator().validate({"modelId": "m", **_with_bytes(body)}, shape)
    assert not report.has_errors(), report.generate_report()


def _with_bytes(value: Any, key: str = "") -> Any:
    if key in ("bytes", "redactedContent"):
        return b64decode(value)
    if isinstance(value, dict):
        return {name: _with_bytes(part, name) for name, part in value.items()}
    return [_with_bytes(part) for part in value] if isinstance(value, list) else value


def turn(*blocks: Any, **options: Any) -> list[Any]:
    content = body_of([HumanMessage(list(blocks))], **options)["messages"][0]["content"]
    assert isinstance(content, list)
    return content


def test_system_prompt_turns_and_settings_have_their_places():
    messages = [
        SystemMessage("Be brief."),
        HumanMessage("Hi"),
        HumanMessage("there"),
        AIMessage("Yes"),
        HumanMessage("?"),
    ]
    body = body_of(messages, {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9}, stop=["x"])

    assert body == {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}, {"text": "there"}]},
            {"role": "assistant", "content": [{"text": "Yes"}]},
            {"role": "user", "content": [{"text": "?"}]},
        ],
        "inferenceConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxTokens": 9,
            "stopSequences": ["x"],
        },
    }


@pytest.mark.parametrize(
    ("block", "encoded"),
    [
        (PNG, {"image": {"format": "png", "source": {"bytes": "AAEC"}}}),
        (
            {"type": "image", "url": "data:image/jpeg;base64,AAEC"},
            {"image": {"format": "jpeg", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "image", "url": "s3://bct/a", "mime_type": "image/png", "extras": OWNER},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bct/a", **OWNER}}}},
        ),
        (
            {"type": "video", "base64": "AAEC", "mime_type": "video/3gpp"},
            {"video": {"format": "three_gp", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "audio", "base64": "AAEC", "mime_type": "audio/wav"},
            {"audio": {"format": "wav", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "file", "base64": "AAEC", "mime_type": "application/pdf", "extras": {"filename": "a_b.pdf"}},
            {"document": {"name": "a-b-pdf", "format": "pdf", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"type": "text-plain", "text": "N", "title": "T", "context": "C", "extras": {"citations": CITED}},
            {"document": {"name": "T", "format": "txt", "source": {"text": "N"}, "context": "C",
                          "citations": {"enabled": True}}},
        ),
        ({"guardContent": {"text": {"text": "x"}}}, {"guardContent": {"text": {"text": "x"}}}),
        ({"type": "guard_content", "text": "x"}, {"guardContent": {"text": {"text": "x"}}}),
        ({"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default"}}),
        (
            {"image": {"format": "png", "source": {"bytes": b"\x00\x01\x02"}}},
            {"image": {"format": "png", "source": {"bytes": "AAEC"}}},
        ),
        (
            {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
            {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
        ),
    ],
)  # fmt: skip
def test_every_kind_of_input_block(block, encoded):
    assert turn({"type": "text", "text": "See"}, block) == [{"text": "See"}, encoded]


def test_documents_without_a_name_are_numbered():
    pdf = {"type": "file", "base64": "AAEC", "mime_type": "application/pdf"}

    assert [part["document"]["name"] for part in turn(pdf, pdf)] == ["document-1", "document-2"]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAEC"},
        {"type": "file", "file_id": "f_1"},
        {"type": "file", "base64": "AAEC", "mime_type": "application/zip"},
        {"type": "reasoning", "reasoning": "x"},
    ],
)
def test_what_converse_has_no_form_for_is_refused(block):
    with pytest.raises(UsageError):
        explain([HumanMessage([block])])


def test_blank_text_is_not_sent():
    assert turn({"type": "text", "text": "  "}, {"type": "text", "text": "x"}) == [{"text": "x"}]


def test_a_call_and_its_results_of_every_kind():
    calls = [{"name": "f", "args": {"a": 1}, "id": "c 1"}, {"name": "g", "args": {}, "id": "c2"}]
    content = [
        {"type": "text", "text": "t"},
        {"json": {"n": 1}},
        PNG,
        {"type": "text-plain", "text": "d"},
    ]
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=calls),
        HumanMessage("Quick!"),
        ToolMessage(content, tool_call_id="c 1"),
        ToolMessage("broken", tool_call_id="c2", status="error"),
    ]
    body = body_of(messages, tools=[{"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}])

    assert body["messages"][1]["content"] == [
        {"toolUse": {"toolUseId": "c_1", "name": "f", "input": {"a": 1}}},
        {"toolUse": {"toolUseId": "c2", "name": "g", "input": {}}},
    ]
    first, second, text = body["messages"][2]["content"]
    assert first["toolResult"]["toolUseId"] == "c_1"
    assert [next(iter(part)) for part in first["toolResult"]["content"]] == [
        "text",
        "json",
        "image",
        "document",
    ]
    assert second["toolResult"] == {
        "toolUseId": "c2",
        "content": [{"text": "broken"}],
        "status": "error",
    }
    assert text == {"text": "Quick!"}


def test_ids_of_calls_fit_the_api():
    long = "call_" + "x" * 100

    assert encode_call_id("a b/c") == "a_b_c"
    assert len(encode_call_id(long)) == 64
    assert encode_call_id(long) == encode_call_id(long) != encode_call_id(long + "y")


def test_tools_that_were_used_are_described_though_none_is_bound():
    messages = [
        HumanMessage("Hi"),
        AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}]),
        ToolMessage("ok", tool_call_id="c"),
    ]
    explained = explain(messages)

    check_body(explained.body)
    assert explained.body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "f"
    assert any("without a schema" in note for note in explained.notes)
    forbidden = explain(messages, tools=[add], tool_choice="none")
    assert "toolChoice" not in forbidden.body["toolConfig"]
    assert any("cannot forbid" in note for note in forbidden.notes)


# -- tools


def add(a: int, b: int = 0) -> int:
    """Add numbers."""
    return a + b


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
    explained = explain(
        "Hi", fields={"model": "us.amazon.nova-pro-v1:0", "reasoning_effort": "low"}
    )

    assert "additionalModelRequestFields" not in explained.body
    assert explained.notes == [
        "us.amazon.nova-pro-v1:0 does not reason: reasoning_effort was left out"
    ]


def test_effort_gives_way_to_thinking_and_thinking_to_no_forced_tool():
    fields = {
        "additional_model_request_fields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    }
    explained = explain(
        "Hi", fields=fields, tools=[add], tool_choice="any", reasoning_effort="high"
    )

    assert explained.body["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 2000
    assert explained.body["toolConfig"]["toolChoice"] == {"auto": {}}
    assert len(explained.notes) >= 2


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
        {"json_schema": {"name": "City", "schema": {"type": "object"}}},
    ],
)
def test_forms_of_a_schema(form):
    body = body_of("Hi", response_format=form)

    assert body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["name"] == "City"


def test_json_mode_is_only_noted():
    assert "outputConfig" not in body_of("Hi", response_format={"type": "json_object"})


# -- round trip


@pytest.mark.parametrize(
    "name", [name for name in NAMES if whole_of(name)["output"]["message"]["content"]]
)
def test_an_answer_goes_back_as_it_came(name):
    message = message_of(decode_stream(events_of(name)))
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in message.tool_calls]
    body = explain([HumanMessage("Hi"), message, *results, HumanMessage("On")]).body

    assert body["messages"][1] == whole_of(name)["output"]["message"]
    if name != "unknown-block":
        check_body(body)


def test_foreign_reasoning_is_told_as_text_and_unsigned_is_left_out():
    reasoning = {"type": "reasoning", "reasoning": "Hm."}
    foreign = AIMessage(
        [reasoning, {"type": "text", "text": "A"}],
        response_metadata={"model_provider": "openai", "output_version": "v1"},
    )
    unsigned = AIMessage([reasoning, {"type": "text", "text": "A"}])

    assert (
        "<thinking>"
        in body_of([HumanMessage("Hi"), foreign, HumanMessage("?")])["messages"][1]["content"][0][
            "text"
        ]
    )
    explained = explain([HumanMessage("Hi"), unsigned, HumanMessage("?")])
    assert explained.body["messages"][1]["content"] == [{"text": "A"}]
    assert explained.notes == ["reasoning without a signature was left out"]


def test_a_broken_call_goes_back_with_its_result_only():
    broken = {"name": None, "args": "{", "id": "c1", "error": "no JSON"}
    messages = [HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken])]
    answered = body_of([*messages, ToolMessage("what?", tool_call_id="c1", status="error")])

    assert answered["messages"][1]["content"][0]["toolUse"]["input"] == {"INVALID_JSON": "{"}
    assert len(body_of([*messages, HumanMessage("On")])["messages"]) == 1


def test_a_late_system_message_is_a_users_text():
    content = body_of([HumanMessage("Hi"), SystemMessage("Now.")])["messages"][0]["content"]

    assert content[1] == {"text": "<system>\nNow.\n</system>"}


def test_the_end_of_an_answer_to_continue_has_no_white_space():
    assert body_of([HumanMessage("Hi"), AIMessage("Once \n")])["messages"][1]["content"] == [
        {"text": "Once"}
    ]


@pytest.mark.parametrize("value", [None, "x", {"a": 1, "b": 2}, []])
def test_a_block_that_says_nothing_is_left_out(value):
    message = AIMessage([{"type": "text", "text": "A"}, {"type": "non_standard", "value": value}])

    assert body_of([HumanMessage("Hi"), message, HumanMessage("?")])["messages"][1]["content"] == [
        {"text": "A"}
    ]


# -- addresses


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("amazon.nova-pro-v1:0", "amazon.nova-pro-v1%3A0"),
        ("arn:aws:bedrock:us-east-1:1:prompt/us.x-y", "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aprompt%2Fus.x-y"),
        ("a?b#c d", "a%3Fb%23c%20d"),
    ],
)  # fmt: skip
def test_the_id_of_a_model_is_one_segment_of_the_path(model, path):
    root = "https://bedrock-runtime.us-east-1.amazonaws.com/model"

    assert explain("Hi", fields={"model": model}).url == f"{root}/{path}/converse"
    assert explain("Hi", True, {"model": model}).url == f"{root}/{path}/converse-stream"


def test_a_model_without_an_id_is_refused():
    with pytest.raises(UsageError, match="id of a model"):
        explain("Hi", fields={"model": " "})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CLAUDE, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("global.amazon.nova-2-lite-v1:0", "amazon.nova-2-lite-v1:0"),
        ("arn:aws:bedrock:us-east-1::foundation-model/meta.llama3-8b", "meta.llama3-8b"),
        ("amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0"),
    ],
)
def test_the_name_behind_an_id(model, name):
    assert base_model_name(model) == name


def test_a_base_model_gives_its_profile_to_an_arn():
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    model = ChatBedrockConverse(model=arn, base_model_id=CLAUDE, region_name="us-east-1")

    assert model.profile["reasoning_family"] == "claude"
    assert model.explain("Hi", reasoning_effort="low").body["additionalModelRequestFields"][
        "thinking"
    ]
