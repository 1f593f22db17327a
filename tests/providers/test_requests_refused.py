"""Requests that are not sent: without the name of a model, with numbers that JSON has no word for."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogle, GoogleGenerativeAIEmbeddings
from foldline.providers.openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings
from foldline.providers.openai_compatible import ChatGroq, ChatOpenAICompatible

MODELS: list[Any] = [ChatAnthropic, ChatOpenAI, ChatGoogle, ChatGroq]


def chat(cls: Any, **fields: Any) -> Any:
    return cls(api_key="k", **fields)


@pytest.mark.parametrize("cls", MODELS)
def test_a_model_without_a_name_is_refused(call, cls):
    with pytest.raises(UsageError, match=r"has no model: pass model=|no name of a model"):
        call.invoke(chat(cls, model=""), "?")


@pytest.mark.parametrize("cls", MODELS)
def test_the_name_may_come_with_the_call(cls):
    assert chat(cls, model="").explain("?", model="m").body.get("model", "m") == "m"


@pytest.mark.parametrize("cls", [OpenAIEmbeddings, GoogleGenerativeAIEmbeddings])
def test_embeddings_without_a_name_are_refused(call, cls):
    with pytest.raises(UsageError, match="has no model"):
        call.run(cls(api_key="k", model=""), "embed_query", "?")


def test_a_server_of_ones_own_may_have_a_single_model():
    model = ChatOpenAICompatible(provider="mine", base_url="http://127.0.0.1/v1", api_key="k")

    assert "model" not in model.explain("?").body


WIRES = {
    "anthropic": lambda: chat(ChatAnthropic),
    "responses": lambda: chat(ChatOpenAI, use_responses_api=True),
    "completions": lambda: chat(ChatOpenAI, use_responses_api=False),
    "azure": lambda: chat(AzureChatOpenAI, azure_endpoint="https://a.test", azure_deployment="d"),
    "google": lambda: chat(ChatGoogle),
    "bedrock": lambda: ChatBedrockConverse(region_name="us-east-1", api_key="k"),
}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("wire", WIRES)
def test_numbers_that_json_has_no_word_for_are_refused(wire, number):
    calls = [{"name": "f", "args": {"a": [number]}, "id": "c1", "type": "tool_call"}]
    messages = [
        HumanMessage("?"),
        AIMessage("", tool_calls=calls),
        ToolMessage("r", tool_call_id="c1"),
    ]

    with pytest.raises(UsageError, match="cannot be written as JSON"):
        WIRES[wire]().explain(messages)


@pytest.mark.parametrize("cls", MODELS)
def test_F_Y11_headers_and_queries_of_a_model_are_shown_nowhere(cls):
    model = chat(
        cls, model="m", default_headers={"x-key": "sk-1-canary"}, default_query={"q": "sk-2-canary"}
    )

    assert "canary" not in f"{vars(model)} {model!r} {model} {model.model_dump()}"
    assert model.default_headers["x-key"] == "sk-1-canary"
    assert model.explain("?").headers["x-key"] == "***"
