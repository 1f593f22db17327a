"""Where prices come from: code, files, the table; and that every one is a price per million."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.exceptions import UsageError
from foldline.language_models.profile import known_profiles
from foldline.prices import (
    check_prices,
    find_prices,
    load_prices,
    price_table,
    register_prices,
    table,
)
from foldline.providers import REGISTRY, find_provider

UNPRICED = {
    ("azure_openai", "gpt-oss"),
    ("openai", "gpt-oss"),  # open weights: others sell it
    ("aigne_hub", ""),
    ("huggingface", ""),
    ("litellm", ""),
    ("nvidia", ""),
    ("poe", ""),
    ("upstage", ""),
    ("qwen", "qvq"),
    ("qwen", "qwen-vl"),
}
"""Rows of the profiles for which the source has no price."""
FREE = {"local", "ollama", "vllm", "lmstudio", "llamacpp"}
"""Providers that run on your machine."""


@pytest.fixture(autouse=True)
def _own_prices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(table, "_registered", {})
    monkeypatch.setattr(table, "_files", [])
    monkeypatch.setattr(table, "_is_variable_read", False)
    monkeypatch.delenv("FOLDLINE_PRICES", raising=False)
    find_prices.cache_clear()
    yield
    find_prices.cache_clear()


def test_the_table_says_its_date_its_source_and_its_unit() -> None:
    table = price_table()

    assert table.unit == "per million tokens"
    assert table.currency == "USD"
    assert table.date > "2026"
    assert table.source.startswith("litellm ")


def test_every_price_of_the_table_is_one_per_million_tokens() -> None:
    for provider, rows in price_table().models.items():
        for model, row in rows.items():
            check_prices(row, f"{provider}:{model}")  # warnings are errors
            assert row["input"] < 1000, model
            assert row["output"] < 1000, model


def test_every_model_of_the_profiles_has_a_price_where_one_is_known() -> None:
    for name in REGISTRY:
        find_provider(name)
    models = price_table().models
    missing = {
        (provider, beginning)
        for provider, rows in known_profiles().items()
        if provider in REGISTRY and provider not in FREE
        for beginning in rows
        if not any(
            model.startswith(beginning) for model in models.get(table._provider(provider), {})
        )
    }

    assert missing == UNPRICED


@pytest.mark.parametrize(
    ("provider", "model", "same_as"),
    [
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("openai", "gpt-5-2099-01-01", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5-20990101", "claude-sonnet-4-5"),
        ("google", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("google_vertexai", "gemini-2.5-pro", "gemini-2.5-pro"),
        ("bedrock", "ap.amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0"),
        (
            "aws",
            "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0",
            "amazon.nova-pro-v1:0",
        ),
        (
            "anthropic_bedrock",
            "claude-sonnet-4-5-20250929",
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("anthropic_bedrock", "global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("google_anthropic_vertex", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5-20250929"),
        ("openai", "ft:gpt-4o-mini-2024-07-18:me::abc", "ft:gpt-4o-mini-2024-07-18"),
    ],
)
def test_a_model_is_found_under_its_other_names(provider: str, model: str, same_as: str) -> None:
    prices = find_prices(provider, model)

    assert prices is not None
    assert prices == find_prices(provider, same_as)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-3.5-turbo-instruct"),  # of the text model `OpenAI`
        ("anthropic_bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("google_anthropic_vertex", "claude-sonnet-4-5@20250929"),
    ],
)
def test_text_models_and_claude_on_clouds_have_prices(provider: str, model: str) -> None:
    assert find_prices(provider, model) is not None


@pytest.mark.parametrize("model", ["gpt-5-huge", "gpt-5.99", "gpt", "", None, "claude-sonnet-4-5"])
def test_a_model_is_never_taken_for_another_that_begins_so(model: str | None) -> None:
    assert find_prices("openai", model) is None
    assert find_prices("nobody", "gpt-5") is None


def test_code_goes_before_files_and_files_before_the_table(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    rows = {"gpt-5": {"input": 7.0, "output": 8.0}, "mine": {"input": 1.0, "output": 2.0}}
    file.write_text(json.dumps({"unit": "per million tokens", "models": {"openai": rows}}))

    load_prices(file)
    assert find_prices("openai", "gpt-5") == rows["gpt-5"]
    assert find_prices("openai", "mine") == rows["mine"]

    register_prices(
        "openai", {"gpt-5": {"input": 9.0, "output": 9.0}, "ft:*": {"input": 3.0, "output": 3.0}}
    )
    assert find_prices("openai", "gpt-5-2025-08-07") == {"input": 9.0, "output": 9.0}
    assert find_prices("openai", "ft:gpt-9:me::x") == {"input": 3.0, "output": 3.0}


def test_the_environment_may_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"models": {"google": {"gemini-x": {"input": 1.0, "output": 2.0}}}}))
    monkeypatch.setenv("FOLDLINE_PRICES", str(file))

    assert find_prices("google_genai", "gemini-x") == {"input": 1.0, "output": 2.0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cannot be read"),
        ("[]", "a file of prices is"),
        ('{"models": {"openai": 5}}', "a dict of models"),
        ('{"unit": "per token", "models": {}}', "per million tokens"),
        ('{"models": {"openai": {"x": {"input": -1}}}}', "no amount"),
        ('{"models": {"openai": {"x": {"input": "1"}}}}', "no amount"),
        ('{"models": {"openai": {"x": {"inputs": 1}}}}', "'inputs' is no price"),
        ('{"models": {"openai": {"x": {"above": {"long": {}}}}}}', "numbers of tokens"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)

    with pytest.raises(UsageError, match=complaint):
        load_prices(file)


@pytest.mark.parametrize(
    "prices", [{"input": 1.25e-06, "output": 1e-05}, {"batch": {"input": 0.0001}}]
)
def test_a_price_that_looks_like_one_per_token_is_questioned(prices: dict[str, object]) -> None:
    with pytest.warns(UserWarning, match="looks like a price per token"):
        register_prices("acme", {"anvil": prices})  # type: ignore[dict-item]


def test_a_profile_is_questioned_too() -> None:
    from foldline.language_models import FakeListChatModel

    with pytest.warns(UserWarning, match="FakeListChatModel.*per million tokens"):
        FakeListChatModel(responses=["hi"], profile={"prices": {"input": 1e-06, "output": 2e-06}})
    with pytest.raises(ValueError, match="no amount"):
        FakeListChatModel(responses=["hi"], profile={"prices": {"input": float("nan")}})
