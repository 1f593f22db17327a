"""`init_chat_model`: providers by name, guesses by a model's name, models that a config chooses."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from foldline import providers
from foldline.chat_models import ConfigurableChatModel, init_chat_model, split_name
from foldline.exceptions import MissingExtraError, UsageError
from foldline.language_models.chat_models import BaseChatModel
from foldline.providers import ADVICE, NICKNAMES, REGISTRY, find_provider, provider_names
from foldline.providers.openai_compatible import _hosts as hosts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt-5", ("gpt-5", "openai")),
        ("gpt-5", ("gpt-5", "openai")),
        ("o3-mini", ("o3-mini", "openai")),
        ("claude-sonnet-4-5", ("claude-sonnet-4-5", "anthropic")),
        ("gemini-2.5-pro", ("gemini-2.5-pro", "google")),
        ("google_genai:gemini-2.5-pro", ("gemini-2.5-pro", "google_genai")),
        ("groq:openai/gpt-oss-20b", ("openai/gpt-oss-20b", "groq")),
        ("ollama:qwen3:4b", ("qwen3:4b", "ollama")),
        ("mistral-large", ("mistral-large", "mistral")),
        ("deepseek-chat", ("deepseek-chat", "deepseek")),
        ("grok-4", ("grok-4", "xai")),
        ("local:/models/a.gguf", ("/models/a.gguf", "local")),
        ("command-a-03-2025", ("command-a-03-2025", "cohere")),
        ("solar-pro2", ("solar-pro2", "upstage")),
        ("amazon.nova-lite-v1:0", ("amazon.nova-lite-v1:0", "bedrock")),
        ("azure-openai:mine", ("mine", "azure-openai")),
    ],
)
def test_names_are_split_or_guessed(name: str, expected: tuple[str, str]) -> None:
    assert split_name(name) == expected


LANGCHAIN_NAMES = [
    "anthropic",
    "anthropic_bedrock",
    "azure_ai",
    "azure_openai",
    "baseten",
    "bedrock",
    "bedrock_converse",
    "bedrock_mantle_anthropic",
    "bedrock_mantle_openai",
    "cohere",
    "deepseek",
    "fireworks",
    "google_anthropic_vertex",
    "google_genai",
    "google_vertexai",
    "groq",
    "huggingface",
    "ibm",
    "langsmith",
    "litellm",
    "meta",
    "mistralai",
    "nvidia",
    "ollama",
    "openai",
    "openrouter",
    "perplexity",
    "together",
    "upstage",
    "xai",
]
"""The providers of `init_chat_model` of langchain 1.4.7."""
AIGNE_NAMES = [
    "openai",
    "anthropic",
    "bedrock",
    "deepseek",
    "gemini",
    "google",
    "ollama",
    "openRouter",
    "open-router",
    "xai",
    "doubao",
    "poe",
    "aignehub",
    "aigne-hub",
    "ideogram",
    "lmstudio",
]
"""The providers of @aigne/aigne-hub 0.10.16 and of the packages named after one."""


@pytest.mark.parametrize("name", sorted({*LANGCHAIN_NAMES, *AIGNE_NAMES}))
def test_every_name_of_others_lists_is_a_model_or_says_what_to_use(name: str) -> None:
    if name in ADVICE:
        with pytest.raises(UsageError, match=f"no provider '{name}': .* "):
            init_chat_model(f"{name}:some-model")
    else:
        model = init_chat_model(f"{name}:some-model")
        assert isinstance(model, BaseChatModel)
        assert model.model == "some-model"


def test_a_provider_can_be_given_apart() -> None:
    model = init_chat_model("some/model", model_provider="openrouter", temperature=0)
    assert (type(model).__name__, model.model, model.temperature) == (
        "ChatOpenRouter",
        "some/model",
        0,
    )


def test_what_is_not_known_is_listed() -> None:
    with pytest.raises(UsageError, match=r"whose model is 'acme:anvil'.*anthropic.*xai"):
        init_chat_model("acme:anvil")
    with pytest.raises(UsageError, match=r"there is no provider 'acme': choose one of .*anthropic"):
        init_chat_model("anvil", model_provider="acme")


@pytest.mark.parametrize(
    "name",
    [n for n, target in REGISTRY.items() if "anthropic" not in target and "google" not in target],
)
def test_every_name_of_the_registry_is_a_class(name: str) -> None:
    assert find_provider(name).__name__ == REGISTRY[name].partition(":")[2]


def test_packages_announce_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    entry_point = EntryPoint("acme", "foldline.language_models:FakeListChatModel", providers.GROUP)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: [entry_point] if group == providers.GROUP else []
    )
    assert "acme" in provider_names()
    assert init_chat_model("acme:anvil", responses=["hi"]).invoke("x").text == "hi"


def test_a_missing_package_says_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "acme", "foldline_acme_that_is_not_there:ChatAcme")
    with pytest.raises(MissingExtraError, match="pip install"):
        init_chat_model("acme:anvil")


def test_importing_the_front_door_imports_no_provider() -> None:
    code = "import foldline.chat_models, sys; print([m for m in sys.modules if m.startswith('foldline.providers.')])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def choose_model(model: ConfigurableChatModel, /, **values: Any) -> Any:
    return model.prepare({"configurable": values})[0]


def test_a_model_without_a_name_is_chosen_by_config() -> None:
    model = init_chat_model(temperature=0)
    assert choose_model(model, model="groq:m").model == "m"
    chat_model = choose_model(model, model="m", model_provider="deepseek")
    assert (type(chat_model).__name__, chat_model.temperature) == ("ChatDeepSeek", 0)
    with pytest.raises(UsageError, match="no model is chosen"):
        model.invoke("x")


def test_a_default_and_named_fields() -> None:
    model = init_chat_model(
        "openai:gpt-4.1", configurable_fields=["temperature"], config_prefix="first", api_key="k"
    )
    assert choose_model(model).model == "gpt-4.1"
    assert choose_model(model, first_temperature=0.5).temperature == 0.5
    assert choose_model(model, first_model="x", temperature=0.5).temperature is None
    assert [spec.id for spec in model.config_specs] == ["first_temperature"]


def test_any_field() -> None:
    model = init_chat_model("openai:gpt-4.1", configurable_fields="any", api_key="k")
    assert (
        choose_model(model, base_url="https://example.com/v1").base_url == "https://example.com/v1"
    )
    assert choose_model(model, max_completion_tokens=7).max_tokens == 7


def test_any_field_of_the_model_and_nothing_that_is_meant_for_others() -> None:
    model = init_chat_model("openai:gpt-4.1", configurable_fields="any", api_key="k")

    assert choose_model(model, thread_id="t1") is model.default
    mixed = choose_model(model, thread_id="t1", user_id=7, temperature=0.5)
    assert (mixed.temperature, mixed.model_kwargs) == (0.5, {})
    other = choose_model(
        model, model="anthropic:claude-opus-5", thinking={"type": "disabled"}, logprobs=1
    )
    assert (type(other).__name__, other.thinking) == ("ChatAnthropic", {"type": "disabled"})


def test_with_a_prefix_also_what_the_model_does_not_know_is_meant_for_it() -> None:
    model = init_chat_model(
        "openai:gpt-4.1", configurable_fields="any", config_prefix="llm", api_key="k"
    )

    with pytest.warns(UserWarning, match="does not know brand_new"):
        chat_model = choose_model(model, llm_brand_new=1, thread_id="t1")
    assert chat_model.model_kwargs == {"brand_new": 1}


def test_tools_and_schemas_wait_for_the_model(call: Any) -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    bound = init_chat_model().bind_tools([add], tool_choice="add")
    binding = bound.prepare({"configurable": {"model": "openai:gpt-4.1"}})[0]
    assert binding.kwargs["tools"][0]["function"]["name"] == "add"
    structured = init_chat_model().with_structured_output(
        {"title": "x", "type": "object", "properties": {}}
    )
    assert structured.prepare({"configurable": {"model": "openai:gpt-4.1"}})[0] is not None


def test_a_prefix_alone_is_an_error() -> None:
    with pytest.raises(UsageError, match="configurable_fields"):
        init_chat_model("openai:gpt-5", config_prefix="x")


def test_every_other_word_for_a_host_is_understood():
    for word, host in hosts.NICKNAMES.items():
        assert find_provider(word) is find_provider(host), word
    for word, name in NICKNAMES.items():
        assert find_provider(word) is find_provider(name), word
        assert word not in provider_names()
