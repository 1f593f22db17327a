"""An answer goes back to Bedrock as it came; what another provider wrote goes as it can."""

from __future__ import annotations

import pytest

from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from tests.providers.bedrock.answers import NAMES, decode_stream, events_of, message_of, whole_of
from tests.providers.bedrock.bodies import (
    body_of,
    check_body,
    explain,
)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if whole_of(name)["output"]["message"]["content"]]
)
def test_an_answer_goes_back_as_it_came(name):
    message = message_of(decode_stream(events_of(name)))
    results = [ToolMessage("ok", tool_call_id=call["id"]) for call in message.tool_calls]
    body = explain([HumanMessage("Hi"), message, *results, HumanMessage("On")]).body

    assert body["messages"][1] == whole_of(name)["output"]["message"]
    if name != "unknown-block":
        check_body(body)


def test_foreign_reasoning_is_told_as_text_and_unsigned_is_left_out():
    reasoning = {"type": "reasoning", "reasoning": "Hm."}
    foreign = AIMessage(
        [reasoning, {"type": "text", "text": "A"}],
        response_metadata={"model_provider": "openai", "output_version": "v1"},
    )
    unsigned = AIMessage([reasoning, {"type": "text", "text": "A"}])

    assert (
        "<thinking>"
        in body_of([HumanMessage("Hi"), foreign, HumanMessage("?")])["messages"][1]["content"][0][
            "text"
        ]
    )
    explanation = explain([HumanMessage("Hi"), unsigned, HumanMessage("?")])
    assert explanation.body["messages"][1]["content"] == [{"text": "A"}]
    assert explanation.notes == ["reasoning without a signature was left out"]


def test_a_broken_call_goes_back_with_its_result_only():
    broken = {"name": None, "args": "{", "id": "c1", "error": "no JSON"}
    messages = [HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken])]
    body = body_of([*messages, ToolMessage("what?", tool_call_id="c1", status="error")])

    assert body["messages"][1]["content"][0]["toolUse"]["input"] == {"INVALID_JSON": "{"}
    assert len(body_of([*messages, HumanMessage("On")])["messages"]) == 1


def test_a_late_system_message_is_a_users_text():
    content = body_of([HumanMessage("Hi"), SystemMessage("Now.")])["messages"][0]["content"]

    assert content[1] == {"text": "<system>\nNow.\n</system>"}


def test_the_end_of_an_answer_to_continue_has_no_white_space():
    assert body_of([HumanMessage("Hi"), AIMessage("Once \n")])["messages"][1]["content"] == [
        {"text": "Once"}
    ]


@pytest.mark.parametrize("value", [None, "x", {"a": 1, "b": 2}, []])
def test_a_block_that_says_nothing_is_left_out(value):
    message = AIMessage([{"type": "text", "text": "A"}, {"type": "non_standard", "value": value}])

    assert body_of([HumanMessage("Hi"), message, HumanMessage("?")])["messages"][1]["content"] == [
        {"text": "A"}
    ]


def test_citations_of_another_vendor_are_left_out():
    note = {"type": "citation", "title": "T", "extras": {"citation_type": "char_location"}}
    message = AIMessage([{"type": "text", "text": "A", "annotations": [note]}])
    explanation = explain([HumanMessage("Hi"), message, HumanMessage("?")])

    assert explanation.body["messages"][1]["content"] == [{"text": "A"}]
    assert explanation.notes == ["citations that Bedrock did not write were left out"]
