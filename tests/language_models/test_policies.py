"""The policies of a call are a list: which a given call has, in which order, and that a plain one has none."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from foldline._io.drive import drive
from foldline._run import Run
from foldline._streams.answer import Batch
from foldline._streams.state import CONCLUDED, MOVES, NEW
from foldline.language_models import FakeListChatModel, Limits, ModelHooks, usage_scope
from foldline.language_models._call.call import ChatCall
from foldline.language_models._call.policies.stack import POLICIES
from foldline.language_models._call.policy import Decision, Failure, Policy
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, HumanMessage
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
            ["OptionsPolicy", "GuardsPolicy"],
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
        assert policies_of(fake()) == ["UsagePolicy"]


def test_checks_are_screening_and_a_verdict():
    bound = fake().bind_tools([TOOL], validate="retry")
    assert policies_of(bound.bound, "Hi", **bound.kwargs)[-2:] == [
        "ChecksPolicy",
        "ToolCallScreening",
    ]


def test_the_list_is_in_the_order_in_which_policies_act():
    names = [policy.__name__ for policy in POLICIES]
    assert names == sorted(set(names), key=names.index)
    assert names.index("GuardsPolicy") < names.index(
        "ChecksPolicy"
    )  # events come out: checks first
    assert names.index("ChecksPolicy") < names.index("ToolNamesPolicy")


class Audit(Policy):
    """A policy of a program: it sees the caller's names, and the message as the caller gets it."""

    asked = "settings"
    watches_events = True
    heard: ClassVar[list[str]] = []

    async def before(self, request: ChatRequest) -> ChatRequest:
        self.heard.append(f"before {request.options['tools'][0]['function']['name']}")
        return request

    async def on_events(self, batch: Batch) -> Batch:
        self.heard.append("events")
        return batch

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        self.heard.append(f"after {message.text}")
        return message


def test_a_program_adds_its_own_policy(call):
    Audit.heard.clear()

    answer = call.invoke(fake(), "Hi", tools=[TOOL], policies=[Audit])

    assert answer.text == "hello"
    assert Audit.heard == ["before files.read", "events", "after hello"]


class Patient(Policy):
    """Retries what nothing else would retry."""

    def judge(self, failure: Failure) -> Decision | None:
        return Decision(repeats=failure.attempts < 3)


def test_a_policy_of_a_program_decides_about_a_failure(call):
    asked = []

    class Failing(FakeListChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            asked.append(1)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        call.invoke(Failing(responses=[""]), "Hi", policies=[Patient])

    assert len(asked) == 3


def test_a_move_that_is_not_in_the_table_is_refused():
    with pytest.raises(AttributeError, match="'CONCLUDED' object has no attribute 'ask'"):
        _ = CONCLUDED.ask
    assert {state for moves in MOVES.values() for state in moves.values()} | {NEW} == set(MOVES)
