from __future__ import annotations

import copy

import pytest

from foldline.exceptions import UsageError
from foldline.language_models import CacheConfig
from foldline.language_models._call.policies.prompt_caching import (
    cache_control_of,
    with_cache_control,
)
from foldline.messages import AIMessage, HumanMessage, SystemMessage
from foldline.testing import ScriptedChatModel
from tests.language_models.scripted import Speaking

TOOL = {"type": "function", "function": {"name": "a", "parameters": {}}}
MARK = {"type": "ephemeral"}
HISTORY = [SystemMessage("rules"), HumanMessage("one"), AIMessage("two"), HumanMessage("three")]


def marks(messages):
    return [
        bool(
            isinstance(message.content, list)
            and any("cache_control" in block for block in message.content)
        )
        for message in messages
    ]


def test_breakpoints_go_after_tools_system_and_the_newest_message():
    before = copy.deepcopy(HISTORY)

    messages, tools = with_cache_control(HISTORY, [TOOL, TOOL], CacheConfig())

    assert marks(messages) == [True, False, False, True]
    assert messages[-1].content == [{"type": "text", "text": "three", "cache_control": MARK}]
    assert [cache_control_of(tool) for tool in tools] == [None, MARK]
    assert before == HISTORY
    assert "cache_control" not in TOOL


def test_there_are_never_more_than_the_provider_takes_and_set_ones_count():
    marked_message = HumanMessage([{"type": "text", "text": "x", "cache_control": MARK}])

    messages, tools = with_cache_control(
        [marked_message, marked_message, marked_message, *HISTORY], [TOOL], CacheConfig(messages=5)
    )

    count = sum(marks(messages)) + sum(cache_control_of(tool) is not None for tool in tools)
    assert count == 4


def test_a_mark_on_a_message_goes_to_its_last_block():
    marked_message = HumanMessage("x", additional_kwargs={"cache_control": MARK})

    (message,), _ = with_cache_control([marked_message], [], CacheConfig(system=False, messages=0))

    assert message.content[0]["cache_control"] == MARK
    assert message.additional_kwargs == {}


def test_reasoning_is_not_marked():
    answer = AIMessage([{"type": "text", "text": "a"}, {"type": "reasoning", "reasoning": "b"}])

    (message,), _ = with_cache_control([answer], [], CacheConfig())

    assert "cache_control" in message.content[0]
    assert "cache_control" not in message.content[1]


@pytest.mark.parametrize(
    "thing",
    [
        {"type": "text", "text": "a", "cache_control": MARK},
        {"type": "text", "text": "a", "extras": {"cache_control": MARK}},
        {"type": "function", "function": {"name": "a", "cache_control": MARK}},
        HumanMessage("x", additional_kwargs={"cache_control": MARK}),
        type("Tool", (), {"metadata": {"cache_control": MARK}})(),
    ],
)
def test_a_mark_is_found_wherever_it_was_put(thing):
    assert cache_control_of(thing) == MARK


def test_a_model_sets_breakpoints_by_itself(call):
    model = Speaking(answers=["hi"], prompt_cache={"ttl": "1h"})

    call.invoke(model.bind_tools([TOOL]), HISTORY)

    assert marks(model.requests[0].messages) == [True, False, False, True]
    assert model.requests[0].options["tools"][0]["cache_control"] == {
        "type": "ephemeral",
        "ttl": "1h",
    }


def test_true_is_the_default_config_and_false_is_none():
    assert CacheConfig.of(True) == CacheConfig()
    assert CacheConfig.of(False) is None
    with pytest.raises(UsageError):
        CacheConfig(messages=-1)


@pytest.mark.parametrize("value", [{"size": 2}, 3])
def test_what_is_no_config_is_told_when_the_model_is_made(value):
    with pytest.raises(ValueError, match="prompt_cache"):
        ScriptedChatModel(script=["x"], prompt_cache=value)
