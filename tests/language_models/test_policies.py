"""The policies of a call are a list: which a given call has, in which order, and that a plain one has none."""

from __future__ import annotations

from typing import Any

import pytest

from foldline._io.drive import drive
from foldline._run import Run
from foldline.language_models import FakeListChatModel, Limits, ModelHooks, usage_scope
from foldline.language_models.call.call import ChatCall
from foldline.language_models.policies.stack import POLICIES
from foldline.messages import HumanMessage
from foldline.providers.openai import ChatOpenAI

TOOL = {"type": "function", "function": {"name": "files.read", "parameters": {"type": "object"}}}
PICTURE = HumanMessage([{"type": "image", "base64": "aGk=", "mime_type": "image/png"}])


def no_secrets(message: Any) -> bool:
    return "secret" not in message.text


def policies_of(model: Any, value: Any = "Hi", **options: Any) -> list[str]:
    call = ChatCall(model, value, Run.blocking(None, options), stream=False)
    drive(call.prepare())
    return [type(policy).__name__ for policy in call.policies]


def fake(**settings: Any) -> FakeListChatModel:
    return FakeListChatModel(responses=["hello"], **settings)


@pytest.mark.parametrize(
    ("model", "value", "options", "expected"),
    [
        (fake(), "Hi", {}, []),
        (fake(), "Hi", {"temperature": 1}, []),
        (fake(), [PICTURE], {}, ["FilesPolicy"]),
        (fake(max_input_tokens=100), "Hi", {}, ["OptionsPolicy", "WindowPolicy"]),
        (
            fake(guards=[no_secrets]),
            "Hi",
            {},
            ["OptionsPolicy", "ReceivedMessage", "GuardsPolicy"],
        ),
        (ChatOpenAI(model="gpt-5-mini", api_key="k"), "Hi", {}, ["WindowPolicy"]),
        (
            ChatOpenAI(model="gpt-5-mini", api_key="k"),
            "Hi",
            {"tools": [TOOL], "reasoning_effort": "low"},
            ["ReasoningPolicy", "OptionsPolicy", "WindowPolicy", "ToolNamesPolicy"],
        ),
        (
            fake(hooks=ModelHooks(before=lambda request: None)),
            "Hi",
            {},
            ["HooksPolicy", "ReasoningPolicy", "OptionsPolicy", "FilesPolicy"],
        ),
    ],
)
def test_a_call_has_the_policies_it_needs(model, value, options, expected):
    assert policies_of(model, value, **options) == expected


def test_a_usage_scope_adds_its_policy():
    with usage_scope(Limits(model_calls=1)):
        assert policies_of(fake()) == ["ReceivedMessage", "UsagePolicy"]


def test_checks_are_screening_and_a_verdict():
    bound = fake().bind_tools([TOOL], validate="retry")
    assert policies_of(bound.bound, "Hi", **bound.kwargs)[-3:] == [
        "ToolCallScreening",
        "ReceivedMessage",
        "ChecksPolicy",
    ]


def test_the_list_is_in_the_order_in_which_policies_act():
    names = [policy.__name__ for policy in POLICIES]
    assert names == sorted(set(names), key=names.index)
    assert names.index("ToolNamesPolicy") < names.index("ReceivedMessage")
    assert (
        names.index("ReceivedMessage") < names.index("ChecksPolicy") < names.index("GuardsPolicy")
    )
