"""The state of a long beginning, kept on disk: computed once, read back, forgotten when old."""

from __future__ import annotations

import dataclasses
import os

import pytest

from foldline.providers.local import LocalRuntime, RuntimeSettings
from foldline.providers.local._prompt_state import (
    MAX_FILES,
    PromptState,
    _delete_oldest,
    common_prefix,
)

pytestmark = pytest.mark.timing

TEMPLATE = (
    "{{ 'Once upon a time there was a small house. ' * 25 }}"
    "{% for tool in tools %}{{ tool.function.name }}{% endfor %}"
    "{% for message in messages %}{{ message.content }}{% endfor %}"
)
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
REQUEST = {"messages": [{"role": "user", "content": "hello"}], "tools": [TOOL]}


@pytest.mark.slow
def test_a_beginning_is_saved_and_read_back(runtime, tmp_path):
    settings = RuntimeSettings(context=1024, slots=1, template=TEMPLATE, state_folder=tmp_path)
    model = LocalRuntime.of(runtime.path, settings)
    state = PromptState(model)

    state.prepare(REQUEST)

    [file] = tmp_path.glob("*.state")
    assert file.stat().st_size > 1_000_000
    model.ask("/slots/0?action=erase", {})
    PromptState(model).prepare(REQUEST)
    answer = list(model.complete({"messages": REQUEST["messages"], "max_tokens": 1}))
    assert answer[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 200


@pytest.mark.slow
def test_a_damaged_state_costs_time_only(runtime, tmp_path):
    settings = RuntimeSettings(context=1024, slots=1, template=TEMPLATE, state_folder=tmp_path)
    model = LocalRuntime.of(runtime.path, settings)
    PromptState(model).prepare(REQUEST)
    for file in tmp_path.glob("*.state"):
        file.write_bytes(b"damaged")

    PromptState(model).prepare(REQUEST)

    [file] = tmp_path.glob("*.state")
    assert file.stat().st_size > 1_000_000
    assert list(model.complete({"messages": REQUEST["messages"], "max_tokens": 1}))


def test_without_a_folder_or_tools_nothing_is_kept(runtime, tmp_path):
    model = LocalRuntime.of(runtime.path, dataclasses.replace(runtime.settings))
    before = os.listdir(tmp_path)

    PromptState(model).prepare({"messages": REQUEST["messages"]})

    assert os.listdir(tmp_path) == before


def test_the_oldest_states_are_forgotten(tmp_path):
    for number in range(MAX_FILES + 3):
        file = tmp_path / f"{number}.state"
        file.write_bytes(b"x")
        os.utime(file, (number, number))

    _delete_oldest(tmp_path)

    assert sorted(file.stem for file in tmp_path.iterdir()) == ["3", "4", "5", "6"]


def test_common_prefix():
    assert common_prefix("abcd", "abxd") == "ab"
    assert common_prefix("ab", "abc") == "ab"
    assert common_prefix("", "abc") == ""
