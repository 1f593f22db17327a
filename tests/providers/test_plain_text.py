"""Plain text is encoded by a shorter path; the request is the same as by the full one."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.providers import _foreign_messages
from foldline.providers._completions import messages as completions
from foldline.providers._foreign_messages import plain_text
from foldline.providers.anthropic import ChatAnthropic, _messages as anthropic
from foldline.providers.openai import ChatOpenAI

CALL = {"name": "look", "args": {"x": 1}, "id": "c1"}
HISTORY: list[BaseMessage] = [
    SystemMessage("be brief"),
    HumanMessage("weather?"),
    AIMessage("sunny", response_metadata={"model_provider": "openai"}, name="bot"),
    HumanMessage("  "),
    HumanMessage([{"type": "text", "text": "in blocks"}]),
    AIMessage("", tool_calls=[CALL]),
    ToolMessage("blue", tool_call_id="c1"),
    AIMessage("blue, by Gemini", response_metadata={"model_provider": "google_genai"}),
    HumanMessage("marked", additional_kwargs={"cache_control": {"type": "ephemeral"}}),
    AIMessage("", response_metadata={"model_provider": "anthropic"}),
    HumanMessage("and now?", name="ann"),
]


@pytest.mark.parametrize(
    "model", [ChatAnthropic(model="m", api_key="k"), ChatOpenAI(model="m", api_key="k")]
)
def test_the_short_way_sends_what_the_long_way_does(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = model._encode(ChatRequest(HISTORY))

    for module in (anthropic, completions):
        monkeypatch.setattr(module, "plain_text", lambda message: None)
    assert short == model._encode(ChatRequest(HISTORY))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (HumanMessage("hello"), "hello"),
        (AIMessage("hello", response_metadata={"model_provider": "openai"}), "hello"),
        (AIMessage("hello", response_metadata={"model_provider": "google_genai"}), None),
        (AIMessage("hello", tool_calls=[CALL]), None),
        (AIMessage("hello", additional_kwargs={"refusal": "no"}), None),
        (HumanMessage([{"type": "text", "text": "hello"}]), None),
        (ToolMessage("hello", tool_call_id="c1"), None),
    ],
)
def test_plain_text_is_the_text_of_a_message_that_says_nothing_else(
    message: BaseMessage, text: str | None
) -> None:
    assert plain_text(message) == text


def test_a_translator_that_a_program_registered_sees_plain_text_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from foldline.messages import block_translators

    monkeypatch.setitem(block_translators.CUSTOM_TRANSLATORS, "acme", {})
    assert (
        _foreign_messages.plain_text(AIMessage("x", response_metadata={"model_provider": "acme"}))
        is None
    )
