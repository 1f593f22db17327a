"""Codex CLI, with the settings of docs/serve-openai.md and its own defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.serve import codex
from tests.serve.conftest import KeyedServer

PAGE = Path(__file__).parents[2] / "docs" / "serve-openai.md"
pytestmark = pytest.mark.slow


@pytest.fixture
def home(tmp_path: Path, keyed: KeyedServer) -> Path:
    block = re.search(r"```toml\n(model = .*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    settings = block[1].replace("http://127.0.0.1:8000", keyed.url)
    (tmp_path / "config.toml").write_text(settings.replace('"fast"', '"chat"'))
    return tmp_path


def test_S49_codex_with_its_default_tools_gets_an_answer(home: Path, keyed: KeyedServer) -> None:
    result = codex.run(home, "say hi", FOLDLINE_KEY=keyed.first)
    assert result.stdout.strip() == "Hello there, my friend.", result.stderr


def test_S49_codex_runs_a_command_for_the_model(home: Path, keyed: KeyedServer) -> None:
    result = codex.run(home, "run a command", FOLDLINE_KEY=keyed.first)
    assert result.stdout.startswith("The tools said "), result.stderr
    assert "exec" in result.stderr
    assert "echo from the shell" in result.stderr


def test_S49_codex_sees_its_groups_of_tools_by_full_names(home: Path, keyed: KeyedServer) -> None:
    result = codex.run(home, "tool names", FOLDLINE_KEY=keyed.first)
    assert "'exec_command'" in result.stdout, result.stderr
    assert "__" in result.stdout
    assert "web_search" not in result.stdout


def test_S49_codex_with_a_wrong_key_is_told(home: Path) -> None:
    result = codex.run(home, "say hi", FOLDLINE_KEY="fl_wrong")
    assert result.returncode != 0
    assert "the key is unknown here" in result.stderr
