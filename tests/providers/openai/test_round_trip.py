"""An answer sent back to OpenAI keeps every block: items in order, ids, encrypted reasoning, phases, citations."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.load import dumps, loads
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.providers.openai import ChatOpenAI
from tests.providers import recordings
from tests.providers.openai.test_decode import CHAT, RESPONSES, decoder

LOSSY: dict[str, str] = {}
UNSENT = {"status", "logprobs"}
"""Fields of items that need not come back."""


def answer(name: str) -> AIMessage:
    return recordings.message(recordings.stream_events(decoder(name), "openai", name))


def input_of(*messages: Any) -> list[dict[str, Any]]:
    results = [
        ToolMessage("ok", tool_call_id=call["id"])
        for message in messages
        if isinstance(message, AIMessage)
        for call in [*message.tool_calls, *message.invalid_tool_calls]
    ]
    explanation = ChatOpenAI(api_key="sk-test").explain([HumanMessage("Hi"), *messages, *results])
    assert not explanation.notes
    return explanation.body["input"][1 : -len(results) or None]


def bare(item: Any) -> Any:
    """An item without what need not come back: nulls, statuses, log probabilities, spaces in JSON text."""
    if isinstance(item, dict):
        return {
            key: value.replace(" ", "") if key == "arguments" else bare(value)
            for key, value in item.items()
            if value is not None and key not in UNSENT
        }
    return [bare(element) for element in item] if isinstance(item, list) else item


@pytest.mark.parametrize("name", RESPONSES)
def test_every_item_of_a_response_comes_back_as_it_was(name: str) -> None:
    assert bare(input_of(answer(name))) == bare(recordings.whole_answer("openai", name)["output"])


@pytest.mark.parametrize("name", RESPONSES)
def test_an_answer_that_was_written_and_read_comes_back_too(name: str) -> None:
    loaded_message = loads(dumps(answer(name)))

    assert bare(input_of(loaded_message)) == bare(recordings.whole_answer("openai", name)["output"])


@pytest.mark.parametrize("name", [name for name in CHAT if name not in ("chat-two-choices",)])
def test_an_answer_of_chat_completions_comes_back_as_it_was(name: str) -> None:
    message = answer(name)
    if name == "chat-legacy-function-call":
        message.tool_calls[0]["id"] = "call_old"
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in calls]
    sent_message = (
        ChatOpenAI(api_key="sk-test")
        .explain([HumanMessage("Hi"), message, *results])
        .body["messages"][1]
    )
    recorded_message = recordings.whole_answer("openai", name)["choices"][0]["message"]

    assert sent_message["role"] == "assistant"
    assert (sent_message["content"] or None) == recorded_message["content"]
    assert sent_message.get("refusal") == recorded_message["refusal"]
    if recorded_message.get("audio"):
        assert sent_message["audio"] == {"id": recorded_message["audio"]["id"]}
    if recorded_message.get("tool_calls"):
        assert [
            bare({**c, "function": bare(c.get("function") or {})})
            for c in sent_message["tool_calls"]
        ] == [
            bare({**c, "function": bare(c.get("function") or {})})
            for c in recorded_message["tool_calls"]
        ]


def test_a_stored_response_is_named_and_only_what_is_new_is_sent() -> None:
    model = ChatOpenAI(api_key="sk-test", use_previous_response_id=True)
    explanation = model.explain(
        [HumanMessage("Hi"), answer("responses-text"), HumanMessage("And?")]
    )

    assert explanation.body["previous_response_id"] == "resp_67ccd2bed1ec8190b14f964abc054267"
    assert explanation.body["input"] == [{"role": "user", "content": "And?"}]
