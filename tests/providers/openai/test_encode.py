"""Requests of ChatOpenAI: parameters under all their names, tools, schemas, media, and the choice of the API."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from foldline.exceptions import UsageError
from foldline.load import dumpd
from foldline.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI


def explain(
    *,
    responses: bool | None = None,
    input: Any = "Hi",
    fields: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    settings = {"api_key": "k", "model": "m", "use_responses_api": responses, **(fields or {})}
    return ChatOpenAI(**settings).explain(input, **options)


def get_weather(city: str) -> str:
    """Get the weather of a city."""
    return city


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"model": "x"}, {"model": "x"}),
        ({"max_tokens": 3}, {"max_completion_tokens": 3}),
        ({"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
        ({"stop_sequences": ["a"]}, {"stop": ["a"]}),
        ({"stop": "a"}, {"stop": ["a"]}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"logit_bias": {"5": -100}}, {"logit_bias": {"5": -100}}),
        (
            {"seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2},
            {"seed": 7, "presence_penalty": 0.1},
        ),
        (
            {"reasoning_effort": "low", "verbosity": "low"},
            {"reasoning_effort": "low", "verbosity": "low"},
        ),
        ({"model_kwargs": {"odd": 1}}, {"odd": 1}),
        ({"extra_body": {"top_k": 4}}, {"top_k": 4}),
        (
            {"store": True, "prompt_cache_key": "p", "service_tier": "flex"},
            {"store": True, "prompt_cache_key": "p"},
        ),
        (
            {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
            {"modalities": ["text", "audio"]},
        ),
    ],
)
def test_parameters_of_chat_completions(fields: dict[str, Any], body: dict[str, Any]) -> None:
    assert explain(responses=False, fields=fields).body.items() >= body.items()


def test_other_names_of_fields() -> None:
    model = ChatOpenAI(
        openai_api_key="sk-1", openai_api_base="https://example.com/v1", request_timeout=3
    )
    assert model.explain("x").url == "https://example.com/v1/chat/completions"
    assert (model.timeout, model.model_name) == (3.0, "gpt-5-mini")
    assert ChatOpenAI(model_name="x").model == "x"
    with pytest.raises(ValidationError, match="mean the same"):
        ChatOpenAI(model="a", model_name="b")
    with pytest.warns(UserWarning, match="does not know wings"):
        assert ChatOpenAI(api_key="k", wings=2).explain("x").body["wings"] == 2


def test_options_of_the_call_win() -> None:
    body = explain(
        responses=False,
        fields={"temperature": 1, "max_tokens": 9},
        temperature=0,
        max_completion_tokens=4,
        stop=["x"],
    ).body
    assert (body["temperature"], body["max_completion_tokens"], body["stop"]) == (0, 4, ["x"])


def test_effort_of_a_call_overrules_reasoning_of_the_model_and_beside_it_gives_way() -> None:
    fields = {"reasoning": {"effort": "low", "summary": "auto"}}
    explanation = explain(fields={**fields, "reasoning_effort": "high"})

    assert explain(fields=fields, reasoning_effort="high").body["reasoning"] == {
        "effort": "high",
        "summary": "auto",
    }
    assert explanation.body["reasoning"] == fields["reasoning"]
    assert "reasoning_effort='high' gave way" in explanation.notes[0]


def test_parameters_of_responses() -> None:
    fields = {
        "max_tokens": 3,
        "reasoning_effort": "low",
        "reasoning": {"summary": "auto"},
        "verbosity": "low",
        "truncation": "auto",
    }
    body = explain(fields=fields, logprobs=True).body
    assert body["max_output_tokens"] == 3
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["text"] == {"verbosity": "low"}
    assert body["include"] == ["message.output_text.logprobs"]
    assert not body.keys() & {
        "max_tokens",
        "max_completion_tokens",
        "verbosity",
        "logprobs",
        "reasoning_effort",
    }


def test_what_responses_does_not_take_is_noted() -> None:
    explanation = explain(responses=True, stop=["x"], seed=3)
    assert explanation.notes == ["Responses does not take seed, stop"]
    assert not explanation.body.keys() & {"stop", "seed"}
    with pytest.raises(UsageError, match="one answer"):
        explain(responses=True, n=2)


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://example.com"}]},
        {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]},
        {"reasoning": {"effort": "low"}},
        {"previous_response_id": "resp_1"},
        {"include": ["reasoning.encrypted_content"]},
        {"truncation": "auto"},
    ],
)
def test_responses_is_chosen_where_a_call_needs_it(options: dict[str, Any]) -> None:
    assert explain(**options).url.endswith("/responses")
    assert explain().url.endswith("/chat/completions")
    assert explain(fields={"model": "o3-pro"}).url.endswith("/responses")


def test_tools_of_both_kinds() -> None:
    chat = explain(
        responses=False, tools=[get_weather], tool_choice="get_weather", parallel_tool_calls=False
    ).body
    assert chat["tools"][0]["function"]["name"] == "get_weather"
    assert chat["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert chat["parallel_tool_calls"] is False

    response = explain(
        responses=True, tools=[get_weather, {"type": "web_search"}], tool_choice="any"
    ).body
    assert (
        response["tools"][0].items()
        >= {"type": "function", "name": "get_weather", "strict": False}.items()
    )
    assert response["tools"][1] == {"type": "web_search"}
    assert response["tool_choice"] == "required"


def test_strict_tools_are_closed() -> None:
    (tool,) = explain(responses=False, tools=[get_weather], strict=True).body["tools"]
    assert tool["function"]["strict"] is True
    assert tool["function"]["parameters"]["additionalProperties"] is False


def test_no_tools_means_no_tool_fields() -> None:
    assert not explain(responses=False, tools=[], tool_choice="auto").body.keys() & {
        "tools",
        "tool_choice",
    }


def test_bind_tools_reaches_the_wire() -> None:
    bound = ChatOpenAI(api_key="k", model="m").bind_tools(
        [get_weather], tool_choice="any", strict=True
    )
    body = bound.bound.explain("Hi", **bound.kwargs).body
    assert body["tool_choice"] == "required"
    assert body["tools"][0]["function"]["strict"] is True


@pytest.mark.parametrize("responses", [False, True])
def test_schemas_of_the_answer(responses: bool) -> None:
    body = explain(responses=responses, response_format=Person).body
    form = body["text"]["format"] if responses else body["response_format"]["json_schema"]
    assert (form["name"], form["strict"]) == ("Person", True)
    assert form["schema"]["required"] == ["name", "age"]

    body = explain(responses=responses, response_format={"type": "json_object"}).body
    assert (body["text"]["format"] if responses else body["response_format"]) == {
        "type": "json_object"
    }


def test_media_in_chat_completions() -> None:
    message = HumanMessage(
        [
            "Look:",
            {"type": "image", "url": "https://example.com/a.png"},
            {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
            {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "filename": "a.pdf"},
            {"type": "text-plain", "text": "a document", "mime_type": "text/plain"},
            {
                "type": "image_url",
                "image_url": {"url": "https://example.com/b.png", "detail": "low"},
            },
        ]
    )
    parts = explain(responses=False, input=[message]).body["messages"][0]["content"]
    assert [part["type"] for part in parts] == [
        "text",
        "image_url",
        "image_url",
        "input_audio",
        "file",
        "text",
        "image_url",
    ]
    assert parts[2]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert parts[6]["image_url"] == {"url": "https://example.com/b.png", "detail": "low"}

    parts = explain(responses=True, input=[message]).body["input"][0]["content"]
    assert [part["type"] for part in parts] == [
        "input_text", "input_image", "input_image", "input_audio", "input_file", "input_text", "input_image",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no place for a block of the type"):
        explain(responses=False, input=[HumanMessage([{"type": "reasoning", "reasoning": "x"}])])


def test_pictures_of_a_tool_are_shown_by_the_user_after_all_results() -> None:
    calls = [{"name": "f", "args": {}, "id": id} for id in ("a", "b")]
    picture = [
        {"type": "text", "text": "see"},
        {"type": "image", "url": "https://example.com/a.png"},
    ]
    messages = [
        HumanMessage("x"),
        AIMessage("", tool_calls=calls),
        ToolMessage(picture, tool_call_id="a"),
        ToolMessage("2", tool_call_id="b"),
    ]
    explanation = explain(responses=False, input=messages)
    assert [m["role"] for m in explanation.body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert explanation.notes == ["what a tool showed was sent as a user's message"]

    body = explain(responses=True, input=messages).body
    assert [part["type"] for part in body["input"][3]["output"]] == ["input_text", "input_image"]


def test_roles() -> None:
    conversation = [
        SystemMessage("s"),
        SystemMessage("d", additional_kwargs={"__openai_role__": "developer"}),
        HumanMessage("h", name="Ann"),
        ChatMessage("c", role="critic"),
        AIMessage("a"),
    ]
    messages = explain(responses=False, input=conversation).body["messages"]
    assert [m["role"] for m in messages] == ["system", "developer", "user", "critic", "assistant"]
    assert messages[2]["name"] == "Ann"


def test_mcp_approvals_are_items() -> None:
    approval = {"type": "mcp_approval_response", "approve": True, "approval_request_id": "mcpr_1"}
    assert explain(responses=True, input=[HumanMessage([approval])]).body["input"] == [approval]


def test_results_of_custom_tools_are_told_as_such() -> None:
    call = {
        "type": "tool_call",
        "name": "run",
        "args": {"__arg1": "x"},
        "id": "c",
        "extras": {"type": "custom_tool_call"},
    }
    messages = [
        HumanMessage("x"),
        AIMessage(content_blocks=[call]),
        ToolMessage("ok", tool_call_id="c"),
    ]
    items = explain(responses=True, input=messages).body["input"]
    assert items[1:] == [
        {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
    ]


def test_azure_by_address_and_header(monkeypatch: pytest.MonkeyPatch) -> None:
    model = AzureChatOpenAI(
        azure_endpoint="https://me.openai.azure.com/",
        deployment_name="mine",
        api_version="2024-10-21",
        api_key="k",
    )
    explanation = model.explain("x")
    assert (
        explanation.url
        == "https://me.openai.azure.com/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    )
    assert explanation.headers["api-key"] == "***"
    assert explanation.body["model"] == "mine"
    assert "authorization" not in explanation.headers

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://other.openai.azure.com")
    model = AzureChatOpenAI(
        azure_deployment="mine",
        azure_ad_token_provider=lambda: "token",
        reasoning={"effort": "low"},
    )
    explanation = model.explain("x")
    assert explanation.url == "https://other.openai.azure.com/openai/v1/responses"
    assert explanation.headers["authorization"] == "***"
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT")
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        model.explain("x")


def test_a_model_is_written_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    serialized = dumpd(ChatOpenAI(model="m", api_key="sk-canary", temperature=0.5))
    assert serialized["kwargs"] == {"model": "m", "temperature": 0.5}
    assert "sk-canary" not in str(serialized)
