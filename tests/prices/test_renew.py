"""The script that renews the table: per token becomes per million, and the difference is shown."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from foldline.prices import load_prices, table

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def renew() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "renew_prices", ROOT / "scripts" / "renew_prices.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENTRY = {
    "litellm_provider": "gemini",
    "mode": "chat",
    "input_cost_per_token": 1.25e-06,
    "output_cost_per_token": 1e-05,
    "cache_read_input_token_cost": 1.25e-07,
    "cache_creation_input_token_cost": 0.0,
    "input_cost_per_token_above_200k_tokens": 2.5e-06,
    "output_cost_per_token_above_200k_tokens": 1.5e-05,
    "input_cost_per_token_batches": 6.25e-07,
    "output_cost_per_token_batches": 5e-06,
    "input_cost_per_token_flex": 6e-07,
    "input_cost_per_audio_token": 3e-06,
    "supports_vision": True,
}


def test_prices_per_token_become_prices_per_million(renew: ModuleType) -> None:
    assert renew.read_row(ENTRY) == {
        "input": 1.25,
        "output": 10.0,
        "cache_read": 0.125,
        "input_audio": 3.0,
        "above": {"200000": {"input": 2.5, "output": 15.0}},
        "batch": {"input": 0.625, "output": 5.0},
    }


def test_steps_of_prices_are_read(renew: ModuleType) -> None:
    tiers = [
        {"input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07, "range": [0, 256000.0]},
        {"input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06, "range": [256000.0, 1e6]},
    ]

    row = renew.read_row({"mode": "chat", "tiered_pricing": tiers})

    assert row == {
        "input": 0.05,
        "output": 0.4,
        "above": {"256000": {"input": 0.25, "output": 2.0}},
    }


def test_a_price_of_nothing_is_no_price(renew: ModuleType) -> None:
    assert renew.read_row({"input_cost_per_token": 0.0, "output_cost_per_token": 0.0}) is None


def test_a_price_that_nobody_asks_is_a_slip_of_the_source(renew: ModuleType) -> None:
    assert (
        renew.read_row({"input_cost_per_token": 0.0032, "output_cost_per_token": 0.00971}) is None
    )


def test_the_difference_says_what_came_went_and_changed(renew: ModuleType) -> None:
    before = {"openai": {"a": {"input": 1.0}, "b": {"input": 2.0}}}
    after = {"openai": {"b": {"input": 3.0}, "c": {"input": 4.0}}}

    assert renew.differences(before, after) == [
        "- openai:a",
        "~ openai:b input: 2.0 -> 3.0",
        '+ openai:c {"input": 4.0}',
    ]


def test_what_is_written_can_be_loaded(
    renew: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_files", [])
    models = renew.read_models(
        {"gemini/gemini-x": ENTRY, "other/y": {**ENTRY, "litellm_provider": "nobody"}}
    )
    file = tmp_path / "prices.json"

    renew.write_file(models, "somewhere", "2026-01-01", file)
    loaded_table = load_prices(file)

    assert list(loaded_table.models) == ["google_genai"]
    assert (loaded_table.date, loaded_table.source) == ("2026-01-01", "somewhere")
    assert loaded_table.models["google_genai"]["gemini-x"]["input"] == 1.25


def test_the_table_of_the_page_is_that_of_the_file(renew: ModuleType) -> None:
    page = renew.PAGE.read_text(encoding="utf-8")
    table = renew.table_of(json.loads(renew.FILE.read_text(encoding="utf-8")))

    assert renew.page_with(table, page) == page, "run scripts/prices --docs"
    assert "| openai | `gpt-5` | 1.25 | 0.125 |" in page
