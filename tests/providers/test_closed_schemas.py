"""Schemas with free keys on every wire: refused where strict was asked for, kept open everywhere else."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from foldline.agents.structured_output import ProviderReader, ToolReader, reader_of
from foldline.exceptions import UsageError
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.bedrock import ChatBedrockConverse
from foldline.providers.google import ChatGoogleGenerativeAI
from foldline.providers.openai import ChatOpenAI
from foldline.providers.openai_compatible import ChatGroq, ChatMistralAI

KEY = "k" * 20
CLAUDE = ChatAnthropic(model="claude-sonnet-4-5", api_key=KEY)
BEDROCK = ChatBedrockConverse(
    model="anthropic.claude-sonnet-4-5-20250929-v1:0", region_name="us-east-1", api_key=KEY
)
MODELS = {
    "completions": ChatOpenAI(model="gpt-5", api_key=KEY),
    "responses": ChatOpenAI(model="gpt-5", api_key=KEY, use_responses_api=True),
    "anthropic": CLAUDE,
    "bedrock": BEDROCK,
    "google": ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=KEY),
    "mistral": ChatMistralAI(model="mistral-large-latest", api_key=KEY),
    "groq": ChatGroq(model="openai/gpt-oss-20b", api_key=KEY),
}


class Inner(BaseModel):
    scores: dict[str, float]


class Rows(BaseModel):
    rows: list[Inner]


class Closed(BaseModel):
    a: int


def tag(tags: dict[str, str]) -> str:
    """Tag it."""
    return str(tags)


def body_of(model, runnable) -> str:
    bound = getattr(runnable, "steps", [runnable])[0]
    body = model.explain("x", **bound.kwargs).body
    return json.dumps(body).replace("\\", "")


@pytest.mark.parametrize("name", MODELS)
def test_a_field_with_free_keys_is_refused_under_strict(name):
    model = MODELS[name]

    with pytest.raises(UsageError, match=r"rows\[\]\.scores"):
        model.with_structured_output(Rows, strict=True)
    with pytest.raises(UsageError, match="tags is an object with free keys"):
        model.bind_tools([tag], strict=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_field_with_free_keys_stays_open_by_default(name):
    model = MODELS[name]

    structured = body_of(model, model.with_structured_output(Rows))
    tools = body_of(model, model.bind_tools([tag]))

    assert '"additionalProperties": {"type": "number"}' in structured
    assert '"strict": true' not in structured
    assert '"additionalProperties": {"type": "string"}' in tools


@pytest.mark.parametrize("name", ["completions", "responses", "mistral", "groq"])
def test_a_class_as_response_format_is_strict_only_if_it_can_be_closed(name):
    model = MODELS[name]

    is_open = body_of(model, model.bind(response_format=Rows))
    closed = body_of(model, model.bind(response_format=Closed))

    assert '"strict": false' in is_open
    assert '"additionalProperties": {"type": "number"}' in is_open
    assert '"strict": true' in closed


@pytest.mark.parametrize("model", [CLAUDE, BEDROCK], ids=["anthropic", "bedrock"])
def test_a_format_that_closes_every_object_refuses_free_keys_and_names_the_tool(model):
    with pytest.raises(UsageError, match=r"rows\[\]\.scores.*function_calling"):
        body_of(model, model.with_structured_output(Rows, method="json_schema"))
    with pytest.raises(UsageError, match=r"rows\[\]\.scores.*function_calling"):
        body_of(model, model.bind(response_format=Rows))


@pytest.mark.parametrize("model", [CLAUDE, BEDROCK], ids=["anthropic", "bedrock"])
def test_a_strict_tool_in_the_vendors_form_is_refused_if_it_has_free_keys(model):
    schema = {"type": "object", "properties": {"tags": {"type": "object"}}}
    tool = {
        "type": "function",
        "function": {"name": "tag", "parameters": schema, "strict": True},
    }

    with pytest.raises(UsageError, match="tags is an object with free keys"):
        model.explain("x", tools=[tool])


@pytest.mark.parametrize("model", [CLAUDE, BEDROCK], ids=["anthropic", "bedrock"])
def test_an_agent_asks_with_a_tool_if_the_native_schema_would_be_emptied(model):
    assert isinstance(reader_of(Rows, model.profile, has_tools=False), ToolReader)
    assert isinstance(reader_of(Closed, model.profile, has_tools=False), ProviderReader)
