"""Refusals in messages: one block, from wherever a provider or an older message has it."""

from __future__ import annotations

import pytest

from foldline.messages import (
    AIMessage,
    AIMessageChunk,
    convert_to_messages,
    convert_to_openai_messages,
)
from foldline.protocol import fold, replay
from foldline.protocol.replay import describe

WORDS = {"type": "refusal", "refusal": "No."}


@pytest.mark.parametrize(
    ("message", "block"),
    [
        pytest.param(AIMessage([WORDS]), WORDS, id="standard"),
        pytest.param(AIMessage("", additional_kwargs={"refusal": "No."}), WORDS, id="field"),
        pytest.param(
            AIMessage([{"type": "non_standard", "value": WORDS}]), WORDS, id="older foldline"
        ),
        pytest.param(
            AIMessage(
                [{"type": "non_standard", "value": WORDS}],
                response_metadata={"output_version": "v1"},
            ),
            WORDS,
            id="older foldline, v1",
        ),
        pytest.param(
            AIMessage(
                [{**WORDS, "id": "msg_1", "phase": "final"}],
                response_metadata={"model_provider": "openai"},
            ),
            {**WORDS, "id": "msg_1", "extras": {"phase": "final"}},
            id="responses",
        ),
        pytest.param(
            AIMessage(
                [],
                response_metadata={
                    "model_provider": "anthropic",
                    "stop_reason": "refusal",
                    "stop_details": {"category": "bio", "explanation": "No."},
                },
            ),
            {**WORDS, "extras": {"category": "bio"}},
            id="anthropic",
        ),
        pytest.param(
            AIMessage(
                "",
                response_metadata={
                    "model_provider": "google_genai",
                    "finish_reason": "SAFETY",
                    "finish_message": "No.",
                },
            ),
            {**WORDS, "extras": {"finish_reason": "SAFETY"}},
            id="google",
        ),
        pytest.param(
            AIMessage("", response_metadata={"stopReason": "guardrail_intervened"}),
            {"type": "refusal", "refusal": "", "extras": {"stop_reason": "guardrail_intervened"}},
            id="bedrock",
        ),
    ],
)
def test_a_refusal_is_one_block_that_is_no_text(message, block):
    assert message.content_blocks == [block]
    assert message.text == ""
    assert fold(replay(describe(message))).blocks == [block]


def test_openais_dicts_have_the_words_and_nothing_for_a_refusal_without_any():
    with_words = AIMessage([{"type": "refusal", "refusal": "No.", "extras": {"category": "bio"}}])
    without = AIMessage([{"type": "refusal", "refusal": ""}])

    sent, empty = convert_to_openai_messages([with_words, without])

    assert sent["content"] == [{"type": "refusal", "refusal": "No."}]
    assert not empty["content"]
    assert convert_to_messages([sent])[0].content_blocks == [WORDS]


def test_text_before_a_refusal_stays_and_a_filter_that_left_text_is_no_refusal():
    refused = AIMessage("So", response_metadata={"stop_reason": "refusal"})
    filtered = AIMessage("So", response_metadata={"finish_reason": "content_filter"})

    assert [block["type"] for block in refused.content_blocks] == ["text", "refusal"]
    assert [block["type"] for block in filtered.content_blocks] == ["text"]


def test_slices_of_a_refusal_add_up_and_their_reason_adds_no_second_block():
    total = (
        AIMessageChunk([{"type": "refusal", "refusal": "I wo", "index": 0}])
        + AIMessageChunk([{"type": "refusal", "refusal": "n't", "index": 0}])
        + AIMessageChunk([], response_metadata={"stop_reason": "refusal"}, chunk_position="last")
    )

    assert total.content_blocks == [{"type": "refusal", "refusal": "I won't", "index": 0}]
