"""F-Y01: data that builds a model may not move where its requests, and so its key, go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from foldline.exceptions import SchemaError
from foldline.load import dumps, loads
from foldline.load.registry import REGISTRY, loadable_fields
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle
from foldline.providers.openai import ChatOpenAI, OpenAIEmbeddings

PROXY = {"proxy": "http://evil.example:3128", "verify": False}


def build(provider: str, name: str, **kwargs: Any) -> Any:
    dump = {"lc": 1, "type": "constructor", "id": ["foldline", "providers", provider, name]}
    return loads(json.dumps({**dump, "kwargs": kwargs}), allowed_objects="all")


@pytest.mark.parametrize(
    ("provider", "name", "argument"),
    [
        ("openai", "ChatOpenAI", {"http": PROXY}),
        ("openai", "ChatOpenAI", {"default_query": {"x": "y"}}),
        ("openai", "ChatOpenAI", {"organization": "theirs"}),
        ("openai", "ChatOpenAI", {"limits": {}}),
        ("openai", "ChatOpenAI", {"model_kwargs": {"tools": [{"server_url": "https://evil"}]}}),
        ("openai", "AzureChatOpenAI", {"azure_endpoint": "https://evil.example"}),
        ("anthropic", "ChatAnthropic", {"http": PROXY}),
        ("google", "ChatGoogle", {"location": "evil.example/x#", "project": "p"}),
        ("google", "ChatGoogle", {"project": "p"}),
        ("local", "ChatLlamaCpp", {"model": "/tmp/theirs.gguf"}),
        ("local", "ChatLlamaCpp", {"template": "{{ 1 }}"}),
        ("openai_compatible", "ChatGroq", {"http": PROXY}),
        ("openai", "OpenAIEmbeddings", {"http": PROXY}),
        ("openai", "OpenAIEmbeddings", {"base_url": "https://evil.example"}),
        ("openai", "OpenAIEmbeddings", {"default_query": {"x": "y"}}),
        ("openai", "OpenAIEmbeddings", {"organization": "theirs"}),
        ("openai", "AzureOpenAIEmbeddings", {"azure_endpoint": "https://evil.example"}),
        ("openai", "AzureOpenAIEmbeddings", {"azure_deployment": "theirs"}),
    ],
)
def test_F_Y01_data_may_not_move_a_request(provider, name, argument):
    with pytest.raises(SchemaError, match="data may not set"):
        build(provider, name, **argument)


PROVIDER_CLASSES = sorted(key for key, entry in REGISTRY.items() if entry.group == "provider")
MOVING = {
    "base_url", "http", "transport", "default_headers", "default_query", "limits", "timeout", "organization", "project",
    "location", "region_name", "endpoint_url", "azure_endpoint", "azure_deployment", "api_version", "credentials",
    "openai_api_base", "openai_proxy", "anthropic_api_url", "model_path", "path",
}  # fmt: skip


@pytest.mark.parametrize("key", PROVIDER_CLASSES, ids=lambda key: key[-1])
def test_F_Y01_every_provider_lists_what_data_may_set(key):
    fields = loadable_fields(key)

    assert fields is not None, "a list of harmless fields, not of dangerous words"
    assert not fields & MOVING


def test_embeddings_come_back():
    text = dumps(OpenAIEmbeddings(model="m", dimensions=3, model_kwargs={"a": 1}, api_key="k"))
    again = loads(text, allowed_objects="all", secrets_map=dict.fromkeys(NAMES, "k"))
    assert (again.model, again.dimensions, again.model_kwargs) == ("m", 3, {"a": 1})


@pytest.mark.parametrize(
    "model",
    [
        ChatOpenAI(model="gpt-5-mini", temperature=0.5, max_tokens=7, api_key="k"),
        ChatAnthropic(model="claude-sonnet-4-5", max_tokens=7, api_key="k"),
        ChatGoogle(model="gemini-2.5-flash", temperature=0.1, api_key="k"),
    ],
)
def test_what_shapes_an_answer_comes_back(model):
    text = dumps(model)
    loaded_model = loads(text, allowed_objects="all", secrets_map=dict.fromkeys(NAMES, "k"))
    assert loaded_model.model == model.model
    assert loaded_model.temperature == model.temperature


NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")


@pytest.mark.parametrize("location", ["evil.example/x#", "a b", "", "x@y", "-a", "a/b"])
def test_F_Y01_a_location_is_a_name(location):
    with pytest.raises(ValidationError):
        ChatGoogle(project="p", location=location)
    with pytest.raises(ValidationError):
        ChatGoogle(project=location)
