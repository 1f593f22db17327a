"""Tools described once: the same list again is not described again, and a change of it is always seen."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.providers import _tool_memory
from foldline.providers._completions.encode import encode_tools as encode_completions
from foldline.providers._completions.host import Host
from foldline.providers._tool_memory import MAX_LISTS, remember_tools
from foldline.providers.anthropic.encode import encode_tools as encode_anthropic
from foldline.providers.google._encode import encode_tools as encode_google


class DescribingEncoder:
    """Describes tools by their names, and counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.encode = remember_tools(self._encode)

    def _encode(self, tools: list[Any], notes: list[str], strict: bool = False) -> list[Any]:
        self.calls += 1
        notes.append("free text")
        return [{"name": tool["name"], "strict": strict} for tool in tools]


@pytest.fixture
def tools() -> list[Any]:
    return [{"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}]


def test_a_list_seen_again_is_described_twice_and_then_remembered(tools: list[Any]):
    memory = DescribingEncoder()
    results = [memory.encode(tools, []) for _ in range(5)]

    assert memory.calls == 2
    assert all(result == [{"name": "add", "strict": False}] for result in results)


def test_a_change_deep_inside_is_seen(tools: list[Any]):
    memory = DescribingEncoder()
    for _ in range(3):
        memory.encode(tools, [])
    tools[0]["parameters"]["properties"]["a"]["type"] = "string"
    memory.encode(tools, [])
    assert memory.calls == 3

    tools.append({"name": "subtract"})
    assert [tool["name"] for tool in memory.encode(tools, [])] == ["add", "subtract"]


def test_other_options_are_another_description(tools: list[Any]):
    memory = DescribingEncoder()
    for _ in range(3):
        memory.encode(tools, [], False)

    assert memory.encode(tools, [], True) == [{"name": "add", "strict": True}]


def test_what_was_lost_is_said_each_time(tools: list[Any]):
    memory = DescribingEncoder()
    for _ in range(4):
        notes: list[str] = []
        memory.encode(tools, notes)
        assert notes == ["free text"]


def test_a_caller_may_change_what_it_gets(tools: list[Any]):
    memory = DescribingEncoder()
    for _ in range(3):
        memory.encode(tools, [])[0]["cache_control"] = {"type": "ephemeral"}

    assert memory.encode(tools, []) == [{"name": "add", "strict": False}]


def test_objects_that_are_no_dicts_are_described_every_time():
    class Tool:
        def __getitem__(self, name: str) -> str:
            return "add"

    memory, tools = DescribingEncoder(), [Tool()]
    for _ in range(4):
        memory.encode(tools, [])

    assert memory.calls == 4


def test_only_the_newest_lists_are_kept(monkeypatch: pytest.MonkeyPatch):
    copies: list[Any] = []
    monkeypatch.setattr(_tool_memory, "deepcopy", lambda value: copies.append(value) or value)
    memory = DescribingEncoder()
    lists = [[{"name": f"tool {number}"}] for number in range(MAX_LISTS + 1)]
    for tools in lists:
        memory.encode(tools, [])
    memory.encode(lists[0], [])  # forgotten meanwhile, and so new again

    assert copies == []  # a list seen once is never copied


@pytest.mark.parametrize(
    "encode",
    [
        lambda tools: encode_anthropic(tools, [], None),
        lambda tools: encode_google(tools, []),
        lambda tools: encode_completions(tools, [], Host("acme", "https://host.example"), None),
    ],
    ids=["anthropic", "google", "completions"],
)
def test_providers_see_a_tool_that_was_changed(encode: Any):
    function = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    first = encode(tools)
    assert [encode(tools) for _ in range(3)] == [first] * 3

    function["description"] = "Add two numbers."
    assert "Add two numbers." in str(encode(tools))
